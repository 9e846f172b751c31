import { AgentLoopError } from '../core/errors.ts';
import type { Turn } from '../core/turn.ts';
import type { CommandHost } from './command-host.ts';
import { endingOf, sentenceOf } from './ending.ts';
import { followTurn } from './follow-turn.ts';
import { resumeCommand, type TaskPlace, watchCommand } from './go-on.ts';
import type { Interruption } from './interruption.ts';
import { JsonPrinter } from './json-printer.ts';
import { complain, note } from './notes.ts';
import { shownQuestions, showWaiting } from './questions.ts';
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
}

/** Shows a turn from its start to its end, says how it ended and how it goes on, and sets the exit code. */
export async function playTurn(turn: Turn, options: PlayOptions): Promise<void> {
  const { session, flags, host, signal } = options;
  const { terminal } = host;
  const place: TaskPlace = { taskId: turn.taskId, store: session.store.settings, flags };
  const printer = flags.json ? new JsonPrinter(terminal.stdout) : new TextPrinter(terminal);
  const tally = await followTurn(turn, printer, signal).catch((thrown: unknown) => {
    explainLost(thrown, place, options);
  });
  if (tally !== undefined) conclude(tally, place, options);
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
    showWaiting(shownQuestions(tally.final?.questions ?? [], tally.calls), place, terminal);
  }
}

/** Says why a turn was lost to this process and what can be done. What is not about its journal is for the program to say. */
function explainLost(thrown: unknown, place: TaskPlace, { session, host, interruption }: PlayOptions): void {
  const { terminal } = host;
  if (!AgentLoopError.isInstance(thrown)) throw thrown;
  host.exitCode = 1;
  switch (thrown.code) {
    case 'SHUTDOWN':
      host.exitCode = interruption.exitCode ?? 1;
      complain(terminal, 'stopped in the middle of the turn, as told; nothing that was finished is lost');
      break;
    case 'FENCED':
      complain(terminal, `${sentenceOf(thrown)}. Watch it with: ${watchCommand(place)}`);
      return;
    case 'UNAVAILABLE':
    case 'FULL':
    case 'REWOUND':
      complain(terminal, sentenceOf(thrown));
      break;
    default:
      throw thrown;
  }
  if (session.store.durable) note(terminal, `go on with: ${resumeCommand(place)}`);
}
