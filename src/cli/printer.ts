import type { AgentEvent } from '../core/contracts/index.ts';

/** Shows the events of one turn. */
export interface Printer {
  /** A promise where the reader is slow: the next event waits for it. */
  print(event: AgentEvent): void | Promise<void>;
  /** Tells that the turn is being cancelled and has not stopped yet. */
  cancelling(): void;
  /** Leaves the screen clean: nothing is redrawn any more, and the cursor stands at the start of a line. */
  close(): void;
}
