import type { AgentEvent } from '../core/contracts/index.ts';
import type { Output } from './output.ts';
import type { Printer } from './printer.ts';

/** Writes each event as one line of JSON. */
export class JsonPrinter implements Printer {
  readonly #output: Output;

  constructor(output: Output) {
    this.#output = output;
  }

  print(event: AgentEvent): void | Promise<void> {
    return this.#output.write(`${eventLine(event)}\n`);
  }

  cancelling(): void {}

  close(): void {}
}

/**
 * The event in one line. What a tool reports of its progress may be anything; where JSON cannot hold it, its text
 * stands there.
 */
export function eventLine(event: AgentEvent): string {
  try {
    return JSON.stringify(event);
  } catch (error) {
    if (event.kind === 'internal:sub-agent')
      return JSON.stringify({ ...event, event: JSON.parse(eventLine(event.event)) });
    if (event.kind !== 'internal:tool-progress') throw error;
    return JSON.stringify({ ...event, update: String(event.update) });
  }
}
