import type { AgentEvent } from '../core/events.ts';

/** Shows the events of one turn. */
export interface Printer {
  /** A promise where the reader is slow: the next event waits for it. */
  print(event: AgentEvent): void | Promise<void>;
  /** Leaves the screen clean: nothing is redrawn any more, and the cursor stands at the start of a line. */
  close(): void;
}
