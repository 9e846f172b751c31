import type { AgentEvent } from '../core/contracts/index.ts';
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
      this.heading(`iteration ${event.iteration}`);
    }
    return this.#printer.print(event);
  }

  /** Begins a section of its own. */
  heading(title: string): void {
    this.#printer.heading(section(title, this.#terminal));
  }

  /** Shows what ran as cut off. */
  cutOff(): void {
    this.#printer.cutOff();
  }

  cancelling(): void {
    this.#printer.cancelling();
  }

  close(): void {
    this.#printer.close();
  }
}
