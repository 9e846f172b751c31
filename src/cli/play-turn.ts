import type { Turn } from '../core/turn/index.ts';
import type { Answers } from './answers.ts';
import type { CommandHost } from './command-host.ts';
import { endingOf } from './ending.ts';
import { explainLost } from './explain-lost.ts';
import { followTurn } from './follow-turn.ts';
import type { Interruption } from './interruption.ts';
import { JsonPrinter } from './json-printer.ts';
import { withKeptFlags } from './kept-flags.ts';
import type { TaskPlace } from './next-commands.ts';
import { complain } from './notes.ts';
import { showWaiting } from './questions.ts';
import type { Session } from './session.ts';
import { showTally, showWaterfall } from './summary.ts';
import type { Tally } from './tally.ts';
import { TextPrinter } from './text-printer.ts';
import type { TurnFlags } from './turn-flags.ts';

export interface PlayFlags extends TurnFlags {
  readonly json?: boolean;
}

export interface PlayOptions {
  readonly session: Session;
  readonly flags: PlayFlags;
  readonly host: CommandHost;
  readonly interruption: Interruption;
  /** The one that cancels the turn. */
  readonly signal: AbortSignal;
  /** What the command line answers. Default: nothing. */
  readonly answers?: Answers;
}

/** Shows a turn from its start to its end, prints how it ended and the command that resumes it, and sets the exit code. */
export async function playTurn(turn: Turn, options: PlayOptions): Promise<void> {
  const { session, flags, host, interruption, signal, answers = {} } = options;
  const { terminal } = host;
  const place: TaskPlace = { taskId: turn.taskId, store: session.store.settings, flags };
  const printer = flags.json ? new JsonPrinter(terminal.stdout) : new TextPrinter(terminal);
  const tally = await followTurn(turn, printer, signal).catch((thrown: unknown) =>
    explainLost(thrown, { place, session, host, interruption, answers }),
  );
  if (tally) conclude(tally, place, options);
  if (flags.trace && session.trace) await showWaterfall(session.trace.takeSpans(), terminal);
}

function conclude(tally: Tally, place: TaskPlace, { session, flags, host, interruption }: PlayOptions): void {
  const { terminal } = host;
  const { durable } = session.store;
  if (!flags.json) showTally(tally, terminal, durable ? place.taskId : undefined);
  const ending = endingOf(tally.final, {
    interrupted: interruption.exitCode,
    readerLeft: terminal.stdout.closed.aborted,
  });
  host.exitCode = ending.exitCode;
  if (ending.sentence !== undefined) complain(terminal, ending.sentence);
  if (ending.suspended && durable) {
    showWaiting(tally.final?.questions ?? [], withKeptFlags(place, tally.metadata ?? {}), terminal);
  }
}
