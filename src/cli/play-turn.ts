import { type AgentEvent, AgentLoopError, systemClock, type TaskStateStore } from '../core/contracts/index.ts';
import { foldRecords, type LoopState } from '../core/journal/index.ts';
import { onAbort, Timer } from '../core/streams/index.ts';
import type { Turn } from '../tasks/turn.ts';
import type { Answers } from './arguments.ts';
import type { CommandHost, Interruption } from './command-host.ts';
import { addToTally, emptyTally, endingOf, sentenceOf, showTally, type Tally } from './ending.ts';
import { duration } from './format.ts';
import { resumeCommand, type TaskPlace, watchCommand, withKeptFlags } from './next-commands.ts';
import { JsonPrinter, type Printer, TextPrinter } from './printer.ts';
import { showWaiting } from './questions.ts';
import type { Session } from './session.ts';
import { complain, note } from './terminal.ts';
import { showWaterfall } from './trace-view.ts';
import type { TurnFlags } from './turn-flags.ts';
import { withPlace } from './with-store.ts';

interface PlayFlags extends TurnFlags {
  readonly json?: boolean;
}

interface PlayOptions {
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

/** How long a cancelled turn may take before something is said about it. */
const patienceMs = 300;

/** The part of a turn that is used. */
interface FollowedTurn extends AsyncIterable<AgentEvent> {
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
  const patience = new Timer(systemClock);
  const leave = onAbort(signal, () => patience.set(patienceMs, () => printer.cancelling()));
  try {
    return await shown(turn, printer, before);
  } finally {
    leave();
    patience.close();
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

interface LostTurn {
  readonly place: TaskPlace;
  readonly session: Session;
  readonly host: CommandHost;
  readonly interruption: Interruption;
  /** What the command line answered. */
  readonly answers: Answers;
}

/**
 * Says why a turn was lost to this process and what can be done, and sets the exit code. Rejects with what is not about its journal: that
 * is for the program to say.
 */
export async function explainLost(thrown: unknown, lost: LostTurn): Promise<void> {
  const { place, session, host, interruption } = lost;
  const { terminal } = host;
  if (!AgentLoopError.isInstance(thrown)) throw thrown;
  host.exitCode = 1;
  switch (thrown.code) {
    case 'SHUTDOWN':
      host.exitCode = interruption.exitCode ?? 1;
      return explainShutdown(lost);
    case 'FENCED':
      complain(terminal, sentenceOf(thrown));
      return note(terminal, `watch it with: ${watchCommand(place)}`);
    case 'UNAVAILABLE':
    case 'FULL':
    case 'REWOUND':
      complain(terminal, sentenceOf(thrown));
      if (session.store.durable) note(terminal, `resume with: ${resumeCommand(place)}`);
      return;
    case 'MISSING_TOOL':
      complain(terminal, sentenceOf(thrown));
      return explainMissingTool(lost);
    case 'BUSY':
      throw held(thrown, place);
    default:
      throw withPlace(thrown, place);
  }
}

async function explainShutdown({ place, session, host }: LostTurn): Promise<void> {
  const { terminal } = host;
  const found = await kept(session.store.store, place.taskId);
  if (found === 'nothing') {
    return complain(terminal, 'stopped before the turn was recorded; start it again');
  }
  complain(terminal, 'stopped in the middle of the turn; finished work is recorded');
  note(terminal, `resume with: ${resumeCommand(withKeptFlags(place, found?.turn.metadata ?? {}))}`);
}

async function explainMissingTool({ place, session, host, answers }: LostTurn): Promise<void> {
  const { terminal } = host;
  const found = await kept(session.store.store, place.taskId);
  const state = typeof found === 'object' ? found : undefined;
  const recorded = state?.answers.map(({ question }) => question.id).filter((id) => id in answers) ?? [];
  if (recorded.length === 1) note(terminal, `the answer to ${recorded[0]} is recorded and need not be given again`);
  if (recorded.length > 1)
    note(terminal, `the answers to ${recorded.join(', ')} are recorded and need not be given again`);
  note(terminal, `name the tools that it was run with: ${commandWithTools(place, state)}`);
}

/** With the tools of the journal, unless it was just these that lacked one. An agent takes no tools beside its own. */
function commandWithTools(place: TaskPlace, state: LoopState | undefined): string {
  const started = withKeptFlags({ ...place, flags: {} }, state?.turn.metadata ?? {}).flags.tools;
  const tools = started === place.flags.tools ? undefined : started;
  const { agent, ...others } = place.flags;
  const isOfAgent = agent !== undefined && tools === undefined;
  return resumeCommand({
    ...place,
    flags: { ...others, ...(isOfAgent ? { agent: 'FILE' } : { tools: tools ?? 'FILE' }) },
  });
}

/** What a store has of a task; undefined where it does not say. */
async function kept(store: TaskStateStore, taskId: string): Promise<LoopState | 'nothing' | undefined> {
  try {
    return foldRecords(await store.read(taskId));
  } catch (thrown) {
    return AgentLoopError.isInstance(thrown) && thrown.code === 'NOT_FOUND' ? 'nothing' : undefined;
  }
}

/** The owner of a task may be alive, or dead with a lease that has not expired yet. */
function held({ taskId, retryAfterMs }: AgentLoopError, place: TaskPlace): AgentLoopError {
  const soon = retryAfterMs === undefined ? 'soon' : `in ${duration(Math.max(retryAfterMs, 1))}`;
  const message = `task "${place.taskId}" is owned by a process that runs it, or by one that has just died: watch it with "${watchCommand(place)}", or try again ${soon}`;
  return new AgentLoopError('BUSY', message, taskId === undefined ? {} : { taskId });
}
