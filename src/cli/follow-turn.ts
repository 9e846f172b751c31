import type { AgentEvent } from '../core/events.ts';
import type { Printer } from './printer.ts';
import { addToTally, emptyTally, type Tally } from './tally.ts';

/** The part of a turn that is used. */
export interface FollowedTurn extends AsyncIterable<AgentEvent> {
  readonly settled: Promise<void>;
}

/**
 * Starts a turn by reading it and shows its events until it has ended and settled: spans ended, tools stopped. A slow
 * reader of the output slows the reading down. Rejects where the turn was lost.
 */
export async function followTurn(turn: FollowedTurn, printer: Printer): Promise<Tally> {
  let tally = emptyTally;
  try {
    for await (const event of turn) {
      tally = addToTally(tally, event);
      const full = printer.print(event);
      if (full !== undefined) await full;
    }
  } finally {
    printer.close();
  }
  await turn.settled;
  return tally;
}
