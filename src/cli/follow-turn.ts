import type { AgentEvent } from '../core/contracts/index.ts';
import type { Printer } from './printer.ts';
import { addToTally, emptyTally, type Tally } from './tally.ts';

/** How long a cancelled turn may take before something is said about it. */
const patienceMs = 300;

/** The part of a turn that is used. */
export interface FollowedTurn extends AsyncIterable<AgentEvent> {
  readonly settled: Promise<void>;
}

/**
 * Starts a turn by reading it and shows its events until it has ended and settled: spans ended, tools stopped. A slow
 * reader of the output slows the reading down. `signal` is the one that cancels the turn; `before` is what the turn amounted to in
 * events that were shown earlier. Rejects where the turn was lost.
 */
export async function followTurn(
  turn: FollowedTurn,
  printer: Printer,
  signal: AbortSignal,
  before: Tally = emptyTally,
): Promise<Tally> {
  let patience: NodeJS.Timeout | undefined;
  const onAbort = () => {
    patience = setTimeout(() => printer.cancelling(), patienceMs);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await shown(turn, printer, before);
  } finally {
    signal.removeEventListener('abort', onAbort);
    clearTimeout(patience);
    printer.close();
  }
}

async function shown(turn: FollowedTurn, printer: Printer, before: Tally): Promise<Tally> {
  let tally = before;
  for await (const event of turn) {
    tally = addToTally(tally, event);
    const full = printer.print(event);
    if (full !== undefined) await full;
  }
  await turn.settled;
  return tally;
}
