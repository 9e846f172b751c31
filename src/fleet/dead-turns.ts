import {
  AgentLoopError,
  type Clock,
  type ErrorCode,
  isObject,
  type TaskStateStore,
  type TaskSummary,
  taskIdPattern,
} from '../core/contracts/index.ts';
import { isRunnable } from '../stores/task-summary.ts';
import { retryTask } from '../tasks/retry-task.ts';
import type { QueueConnections, TurnJob } from './connection.ts';
import { knownAgents, type SharedCounts } from './shared-counts.ts';

/** A dead letter: a turn that no worker runs again without intervention. */
export interface DeadTurn {
  readonly taskId: string;
  readonly contextId: string;
  readonly agentId: string;
  /** `failed`: the turn has ended. `stuck`: it is open, and no worker could run it: a newer journal, a missing tool, an unavailable store. */
  readonly state: 'failed' | 'stuck';
  /** For a failed turn. */
  readonly code?: ErrorCode;
  readonly message: string;
  /** When it last changed. ISO 8601. */
  readonly at: string;
}

/** Which dead turns `dead` returns. */
export interface DeadTurnsQuery {
  /** Default 50. */
  readonly limit?: number | undefined;
  /** Only those after this task in the order of the list: the last one of the previous page. */
  readonly after?: string | undefined;
}

interface DeadTurnsOptions {
  readonly store: TaskStateStore;
  readonly connections: QueueConnections;
  readonly counts: SharedCounts;
  readonly clock: Clock;
}

/** The maximum number of failed jobs to read. */
const mostFailedJobs = 1_000;
const longestId = 128;
/** The limits for a complete list. */
const everything = { jobs: mostFailedJobs, turns: Number.POSITIVE_INFINITY };

/** Lists dead turns from the store: failed jobs are deleted at some time, and only add why an open turn is not run. */
export class DeadTurns {
  readonly #options: DeadTurnsOptions;

  constructor(options: DeadTurnsOptions) {
    this.#options = options;
  }

  async list({ limit = 50, after }: DeadTurnsQuery): Promise<readonly DeadTurn[]> {
    const found: DeadTurn[] = [];
    let isBehind = after === undefined;
    for await (const { summary, reason } of this.#all()) {
      if (found.length >= limit) break;
      if (isBehind) found.push(await this.#described(summary, reason));
      else isBehind = summary.taskId === after;
    }
    return found;
  }

  /** Counts them, up to `most`, among the newest: reads four times as many failed turns, and `most` failed jobs. */
  async count(most: number): Promise<number> {
    let count = 0;
    for await (const _ of this.#all({ jobs: most, turns: 4 * most })) if (++count >= most) break;
    return count;
  }

  /** Returns the id of the task that will run; idempotent. Errors: `NOT_FOUND`, `INVALID_INPUT`. */
  async revive(taskId: string): Promise<string> {
    const { store, clock } = this.#options;
    const summary = await store.describe(taskId);
    if (!summary) throw new AgentLoopError('NOT_FOUND', `There is no task "${taskId}".`, { taskId });
    if (isRunnable(summary.state)) {
      await this.#forgetJob(summary);
      return taskId;
    }
    const newTaskId = await revivedId(taskId);
    await retryTask(taskId, { store, newTaskId, contextId: undefined, clock });
    return newTaskId;
  }

  async *#all({ jobs, turns } = everything): AsyncGenerator<{
    readonly summary: TaskSummary;
    readonly reason?: string | undefined;
  }> {
    const { store } = this.#options;
    for (const [taskId, reason] of await this.#failedJobs(jobs)) {
      const summary = await store.describe(taskId);
      if (summary && isRunnable(summary.state) && !summary.held) yield { summary, reason };
    }
    const seen = new Set<string>();
    for (let limit = 100; ; limit *= 4) {
      const failed = await store.list({ state: 'failed', roots: true, limit });
      const fresh = failed.filter(({ taskId }) => !seen.has(taskId));
      for (const { taskId } of fresh) seen.add(taskId);
      for (let at = 0; at < fresh.length; at += 100) {
        const some = fresh.slice(at, at + 100);
        const retries = await Promise.all(some.map(async ({ taskId }) => store.describe(await revivedId(taskId))));
        for (const [index, summary] of some.entries()) if (!retries[index]) yield { summary };
      }
      if (failed.length < limit || limit >= turns) return;
    }
  }

  async #failedJobs(most: number): Promise<ReadonlyMap<string, string | undefined>> {
    const { connections } = this.#options;
    const { agentIds } = await knownAgents(this.#options);
    const failed = await Promise.all(
      [...agentIds].map((id) => connections.ask(() => connections.queueOf(id).getFailed(0, most - 1))),
    );
    return new Map(failed.flat().flatMap((job) => (isTurnJob(job?.data) ? [[job.data.taskId, job.failedReason]] : [])));
  }

  async #forgetJob({ agentId, taskId }: TaskSummary): Promise<void> {
    const { connections } = this.#options;
    const failed = await connections.ask(() => connections.queueOf(agentId).getFailed(0, mostFailedJobs));
    const own = failed.filter((job) => isTurnJob(job?.data) && job.data.taskId === taskId);
    await Promise.all(own.map((job) => connections.ask(() => job.remove())));
  }

  async #described(summary: TaskSummary, reason: string | undefined): Promise<DeadTurn> {
    const { taskId, contextId, agentId, updatedAt: at } = summary;
    if (isRunnable(summary.state)) return { taskId, contextId, agentId, state: 'stuck', message: reason ?? '', at };
    const { error } = (await this.#options.store.load(taskId)) ?? {};
    return {
      taskId,
      contextId,
      agentId,
      state: 'failed',
      ...(error && { code: error.code }),
      message: error?.message ?? '',
      at,
    };
  }
}

export function isTurnJob(data: unknown): data is TurnJob {
  return isObject(data) && typeof data['taskId'] === 'string' && taskIdPattern.test(data['taskId']);
}

/** Derives the new id from the id of the failed turn, so that it is revived once, and revived turns are recognized. */
async function revivedId(taskId: string): Promise<string> {
  const id = `${taskId}:retry`;
  if (id.length <= longestId) return id;
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(id));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
