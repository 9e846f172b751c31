import { AgentLoopError } from '../core/errors.ts';
import type { Turn } from '../core/turn.ts';
import type { CommandHost } from './command-host.ts';
import { duration } from './duration.ts';
import { endingOf, sentenceOf } from './ending.ts';
import { followTurn } from './follow-turn.ts';
import { resumeCommand, type TaskPlace, watchCommand } from './go-on.ts';
import type { Interruption } from './interruption.ts';
import { JsonPrinter } from './json-printer.ts';
import { complain, note } from './notes.ts';
import { showWaiting } from './questions.ts';
import type { Session } from './session.ts';
import { showTally, showWaterfall } from './summary.ts';
import type { Tally } from './tally.ts';
import { TextPrinter } from './text-printer.ts';
import type { TurnFlags } from './turn-flags.ts';
import { withPlace } from './with-store.ts';

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
    showWaiting(tally.final?.questions ?? [], place, terminal);
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
      complain(terminal, sentenceOf(thrown));
      return note(terminal, `watch it with: ${watchCommand(place)}`);
    case 'UNAVAILABLE':
    case 'FULL':
    case 'REWOUND':
      complain(terminal, sentenceOf(thrown));
      break;
    case 'MISSING_TOOL':
      complain(terminal, sentenceOf(thrown));
      return note(terminal, `name the tools that it was run with: ${resumeCommand(place)} --tools FILE`);
    case 'BUSY':
      throw held(thrown, place);
    default:
      throw withPlace(thrown, place.store);
  }
  if (session.store.durable) note(terminal, `go on with: ${resumeCommand(place)}`);
}

/** Who holds a task is not known: a process that runs it, or one that died and whose lease has not run out. */
function held({ taskId, retryAfterMs }: AgentLoopError, place: TaskPlace): AgentLoopError {
  const soon = retryAfterMs === undefined ? 'soon' : `in ${duration(Math.max(retryAfterMs, 1))}`;
  const message = `task "${place.taskId}" is held by a process that runs it, or by one that has just died: watch it with "${watchCommand(place)}", or try again ${soon}`;
  return new AgentLoopError('BUSY', message, taskId === undefined ? {} : { taskId });
}
