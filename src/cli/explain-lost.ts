import { AgentLoopError, type TaskStateStore } from '../core/contracts/index.ts';
import { foldRecords, type LoopState } from '../core/journal/index.ts';
import type { Answers } from './answers.ts';
import type { CommandHost } from './command-host.ts';
import { duration } from './duration.ts';
import { sentenceOf } from './ending.ts';
import type { Interruption } from './interruption.ts';
import { withKeptFlags } from './kept-flags.ts';
import { resumeCommand, type TaskPlace, watchCommand } from './next-commands.ts';
import { complain, note } from './notes.ts';
import type { Session } from './session.ts';
import { withPlace } from './with-store.ts';

export interface LostTurn {
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

/** With the tools of the journal, unless it was just these that lacked one. */
function commandWithTools(place: TaskPlace, state: LoopState | undefined): string {
  const started = withKeptFlags({ ...place, flags: {} }, state?.turn.metadata ?? {}).flags.tools;
  const tools = started === place.flags.tools ? undefined : started;
  return resumeCommand({ ...place, flags: { ...place.flags, tools: tools ?? 'FILE' } });
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
