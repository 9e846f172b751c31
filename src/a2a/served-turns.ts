import {
  concatMap,
  firstValueFrom,
  from,
  lastValueFrom,
  type MonoTypeOperatorFunction,
  mergeMap,
  Observable,
  reduce,
} from 'rxjs';
import type { AgentResumeOptions } from '../agent/agent-options.ts';
import {
  AgentLoopError,
  type ErrorCode,
  type Message,
  type TaskStateStore,
  type TaskSummary,
} from '../core/contracts/index.ts';
import type { Signal } from '../core/journal/index.ts';
import { giveBack } from '../core/ownership/index.ts';
import { AgentLoop, retryAfterMs, type Turn } from '../core/turn/index.ts';
import { isRunnable } from '../stores/task-summary.ts';
import type { ResolvedHandlerOptions } from './handler-options.ts';
import { isScoped } from './scope.ts';
import type { ExecutionOptions, ExecutionStart, TurnExecution } from './turn-execution.ts';

/** The lease with which a turn is tried: it is released again before the agent resumes the turn. */
const tryLeaseMs = 2_000;
const longestPauseMs = 2_000;

/** The turns that this process runs for clients, and those of other processes that it takes over. Memory: their ids. */
export class ServedTurns implements TurnExecution {
  readonly #options: ResolvedHandlerOptions;
  readonly #here = new Set<string>();

  constructor(options: ResolvedHandlerOptions) {
    this.#options = options;
  }

  async start(message: Message, options: ExecutionStart): Promise<{ readonly taskId: string }> {
    const { call, settle, metadata, ...given } = options;
    const turn = this.#options.agent.startTurn(message, { ...given, ...(metadata && { metadata }), detached: true });
    // A turn that waits for others of its context copies the history only then.
    turn.settled.then(settle, settle);
    this.#options.onTurn?.(turn, call);
    try {
      await this.begun(turn);
    } catch (error) {
      settle();
      throw error;
    }
    return { taskId: turn.taskId };
  }

  async resume(taskId: string, { call, ...given }: ExecutionOptions): Promise<void> {
    const turn = this.#options.agent.resume(taskId, { ...given, detached: true });
    this.#options.onTurn?.(turn, call);
    await this.begun(turn, 'BUSY', 'TERMINAL');
  }

  async cancel(taskId: string): Promise<void> {
    await this.#options.agent.cancel(taskId, 'canceled');
  }

  recover(): Promise<number> {
    return recoverTasks(this.#options, this);
  }

  /** Resolves when a turn has emitted its first event. Rejects where it is lost before that, except with these codes. */
  async begun(turn: Turn, ...except: readonly ErrorCode[]): Promise<void> {
    const { taskId } = turn;
    this.#here.add(taskId);
    const over = () => void this.#here.delete(taskId);
    turn.settled.then(over, over);
    try {
      await firstValueFrom(turn, { defaultValue: undefined });
    } catch (error) {
      if (!AgentLoopError.isInstance(error) || !except.includes(error.code)) throw error;
    }
  }

  /**
   * Resumes a turn here whose owner is gone, while somebody follows it: asks for the lease when it should have expired, at least every 2 s.
   * Emits what the source does. Unsubscribing ends the asking; a turn that was taken over continues.
   */
  followed(taskId: string, resumeOptions: AgentResumeOptions): MonoTypeOperatorFunction<Signal> {
    return (source) =>
      new Observable((to) => {
        let runs = false;
        let cancelAsk: (() => void) | undefined;
        const ask = async () => {
          const pauseMs = runs ? await this.#tryToTake(taskId, resumeOptions) : undefined;
          cancelAsk = undefined;
          if (pauseMs !== undefined) askAfter(pauseMs);
        };
        /** A little later than the lease ends, and not all servers at once. */
        const askAfter = (ms: number) => {
          if (to.closed || cancelAsk) return;
          const pauseMs = Math.min(ms, longestPauseMs) + 10 + Math.random() * 90;
          cancelAsk = this.#options.clock.schedule(pauseMs, () => void ask());
        };
        to.add(() => cancelAsk?.());
        const next = (signal: Signal) => {
          if (signal.type === 'commit') {
            runs = signal.after.outcome === undefined;
            if (runs) askAfter(0);
          }
          to.next(signal);
        };
        to.add(source.subscribe({ next, error: (error: unknown) => to.error(error), complete: () => to.complete() }));
      });
  }

  /** When to ask again, in milliseconds; `undefined` where the turn needs nobody, or cannot be resumed by this agent. */
  async #tryToTake(taskId: string, resumeOptions: AgentResumeOptions): Promise<number | undefined> {
    const { agent, store, logger } = this.#options;
    if (this.#here.has(taskId)) return longestPauseMs;
    try {
      await giveBack(store, await store.acquire(taskId, `a2a-${crypto.randomUUID()}`, tryLeaseMs));
      await this.begun(agent.resume(taskId, { ...resumeOptions, detached: true }));
      return longestPauseMs;
    } catch (error) {
      const code = codeOf(error);
      if (AgentLoopError.isInstance(error) && error.retryable && code !== 'SHUTDOWN') return retryAfterMs(error);
      if (code !== 'TERMINAL' && code !== 'NOT_FOUND' && code !== 'SHUTDOWN')
        logger?.warn('turn not taken over', { taskId, code });
      return undefined;
    }
  }
}

/** How many turns are looked for at first; where there are more, all of them. */
const firstLook = 1_000;
/** How many conversations are resumed at the same time, until the turns of each have begun. */
const concurrency = 20;

/** Of a turn that somebody else has taken or deleted, and of a server that closes: nobody has to look at them. */
const expected: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['BUSY', 'NOT_FOUND', 'TERMINAL', 'SHUTDOWN']);

/**
 * Resumes turns that nobody runs, those of one conversation in the order in which they came; those that another process takes first
 * are left to it. A child turn is continued by its parent turn, never by itself; one whose parent turn has ended is cancelled. Gives how
 * many turns were taken.
 */
async function recoverTasks(options: ResolvedHandlerOptions, turns: ServedTurns): Promise<number> {
  const { agent, store, logger } = options;
  const free = (await runnableTasks(store)).sort((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt));
  const left = free.filter(
    ({ parentTaskId, agentId, contextId }) => parentTaskId === undefined && agentId === agent.id && isScoped(contextId),
  );
  const taken$ = from(conversationsOf(left)).pipe(
    mergeMap((tasks) => from(tasks).pipe(concatMap(({ taskId }) => takeOver(taskId))), concurrency),
    reduce((sum, taken) => sum + (taken ? 1 : 0), 0),
  );
  const count = await lastValueFrom(taken$);
  await cancelOrphans(options);
  return count;

  async function takeOver(taskId: string): Promise<boolean> {
    try {
      await turns.begun(agent.resume(taskId, { detached: true }));
      return true;
    } catch (error) {
      const code = codeOf(error);
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

/** Cancels child turns that nobody runs and whose parent turn has ended or was deleted, with their own child turns. */
async function cancelOrphans({ store, clock, logger }: ResolvedHandlerOptions): Promise<void> {
  for (const { taskId, parentTaskId } of await runnableTasks(store)) {
    if (parentTaskId === undefined) continue;
    try {
      if (!(await isOver(store, parentTaskId))) continue;
      await AgentLoop.cancel(taskId, { store, clock, reason: `its parent turn "${parentTaskId}" has ended` });
    } catch (error) {
      const code = codeOf(error);
      if (!expected.has(code)) logger?.warn('child turn not cancelled', { taskId, code });
    }
  }
}

async function isOver(store: TaskStateStore, taskId: string): Promise<boolean> {
  return (await store.load(taskId))?.isComplete ?? true;
}

/** The oldest first where their times are the same. */
async function runnableTasks(store: TaskStateStore): Promise<TaskSummary[]> {
  for (let limit = firstLook; ; limit *= 4) {
    const found = await store.list({ runnable: true, limit });
    // A store that does not know `runnable` gives all tasks.
    const runnable = found.filter(({ held, state }) => !held && isRunnable(state));
    if (found.length < limit) return runnable.reverse();
  }
}

function codeOf(error: unknown): ErrorCode {
  return AgentLoopError.isInstance(error) ? error.code : 'INTERNAL';
}
