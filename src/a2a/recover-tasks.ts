import { concatMap, firstValueFrom, from, lastValueFrom, mergeMap, reduce } from 'rxjs';
import { AgentLoopError, type ErrorCode } from '../core/errors.ts';
import type { TaskState } from '../core/events.ts';
import type { TaskStateStore, TaskSummary } from '../stores/interfaces.ts';
import type { ResolvedHandlerOptions } from './handler-options.ts';
import { isScoped } from './scope.ts';

/** How many turns are looked for at first; where there are more, all of them. */
const firstLook = 1_000;
/** How many conversations are gone on with at the same time, until the turns of each have begun. */
const concurrency = 20;

/** Of a turn that somebody else has taken or deleted, and of a server that closes: nobody has to look at them. */
const expected: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['BUSY', 'NOT_FOUND', 'TERMINAL', 'SHUTDOWN']);

/**
 * Goes on with turns that nobody runs, those of one conversation in the order in which they came; those that another process takes first
 * are left to it. Gives how many were taken.
 */
export async function recoverTasks({ agent, store, logger }: ResolvedHandlerOptions): Promise<number> {
  const newestFirst = [...(await allOf(store, 'submitted')), ...(await allOf(store, 'working'))];
  const open = newestFirst.reverse().sort((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt));
  const left = open.filter(({ held, agentId, contextId }) => !held && agentId === agent.id && isScoped(contextId));
  const taken$ = from(conversationsOf(left)).pipe(
    mergeMap((turns) => from(turns).pipe(concatMap(({ taskId }) => takeOver(taskId))), concurrency),
    reduce((sum, taken) => sum + (taken ? 1 : 0), 0),
  );
  return lastValueFrom(taken$);

  async function takeOver(taskId: string): Promise<boolean> {
    try {
      await firstValueFrom(agent.resume(taskId, { detached: true }), { defaultValue: undefined });
      return true;
    } catch (error) {
      const code = AgentLoopError.isInstance(error) ? error.code : 'INTERNAL';
      if (!expected.has(code)) logger?.warn('turn not recovered', { taskId, code });
      return false;
    }
  }
}

function conversationsOf(tasks: readonly TaskSummary[]): Iterable<readonly TaskSummary[]> {
  const conversations = new Map<string, TaskSummary[]>();
  for (const task of tasks) {
    const turns = conversations.get(task.contextId);
    if (turns) turns.push(task);
    else conversations.set(task.contextId, [task]);
  }
  return conversations.values();
}

async function allOf(store: TaskStateStore, state: TaskState): Promise<readonly TaskSummary[]> {
  for (let limit = firstLook; ; limit *= 4) {
    const found = await store.list({ state, limit });
    if (found.length < limit) return found;
  }
}
