import type { AgentEvent } from '../core/events.ts';
import type { Printer } from './printer.ts';
import { section } from './section.ts';
import type { Terminal } from './terminal.ts';
import { TextPrinter } from './text-printer.ts';

/** Shows a turn with a heading for each iteration. */
export class DemoPrinter implements Printer {
  readonly #terminal: Terminal;
  readonly #printer: TextPrinter;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
    this.#printer = new TextPrinter(terminal);
  }

  print(event: AgentEvent): void | Promise<void> {
    if (event.kind === 'internal:iteration-start') {
      this.#printer.heading(section(`iteration ${event.iteration}`, this.#terminal));
    }
    return this.#printer.print(event);
  }

  cancelling(): void {
    this.#printer.cancelling();
  }

  close(): void {
    this.#printer.close();
  }
}
