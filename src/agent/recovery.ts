import {
  concatMap,
  firstValueFrom,
  from,
  identity,
  lastValueFrom,
  type MonoTypeOperatorFunction,
  mergeMap,
  Observable,
  pipe,
  reduce,
} from 'rxjs';
import {
  type AgentEvent,
  AgentLoopError,
  type Clock,
  type ErrorCode,
  isMissingPart,
  type Logger,
  type MessageStore,
  messageOf,
  type TaskStateStore,
  type TaskSummary,
} from '../core/contracts/index.ts';
import { ready, type Signal } from '../core/journal/index.ts';
import { releaseUnused } from '../core/ownership/index.ts';
import { after, onAbort } from '../core/streams/index.ts';
import { isMarked, markOpening, openingMs, retryAfterMs } from '../core/turn/index.ts';
import { assertKnownOptions, type OptionNames } from '../options/option-rules.ts';
import type { Turn } from '../tasks/turn.ts';
import { type ObserveOptions, observeEvents, type TurnStream } from '../tasks/turn-stream.ts';
import type { AgentResumeOptions } from './agent-options.ts';
import { cancelOrphan, codeOf, runnableTurns, warnUnlessExpected } from './runnable-turns.ts';

/** The values of a resume that are never journaled. */
export type GivenValues<C = unknown> = Pick<
  AgentResumeOptions<C>,
  'authContext' | 'context' | 'dependencies' | 'parentContext'
>;

/** Options of `agent.observe`. */
export interface AgentObserveOptions<C = unknown> extends Pick<ObserveOptions, 'from' | 'descendants'> {
  /**
   * Resumes the turn here with these values if its owner is gone, while it is observed: requests the lease when it should have expired, at
   * least every 2 s. A resumed turn continues when its observers unsubscribe. Once `shutdown` of the agent is aborted, the stream
   * errors with `SHUTDOWN`: another process continues the turn. Default: never resumed.
   */
  readonly recover?: GivenValues<C> | undefined;
}

/** Options of `agent.recover`. */
export interface RecoverOptions {
  /** Filters the turns of the agent. Default: all. */
  readonly accepts?: ((task: TaskSummary) => boolean) | undefined;
}

/** Options of `agent.tasks`. */
export interface TasksOptions {
  /** Default 50. */
  readonly limit?: number | undefined;
}

const ofObserve: OptionNames<AgentObserveOptions> = { from: true, descendants: true, recover: true };

interface RecoveryOptions {
  readonly agentId: string;
  readonly store: TaskStateStore;
  readonly messageStore: MessageStore;
  readonly clock: Clock;
  readonly storeDeadlineMs: number;
  readonly leaseMs: number;
  readonly logger: Logger | undefined;
  readonly shutdown: AbortSignal | undefined;
  readonly runsHere: (taskId: string) => boolean;
  readonly resume: (taskId: string, options: AgentResumeOptions) => Turn;
}

/** A turn that has only its first record. */
interface Created {
  readonly taskId: string;
  readonly contextId: string;
  readonly createdAt: number;
}

/** The duration of the trial lease: it is released again before the agent resumes the turn. */
const tryLeaseMs = 2_000;
const longestPauseMs = 2_000;
/** How long nobody here tries again to resume a turn that lacks a tool or an agent; doubles from the first to the longest. */
const firstUnfitMs = 1_000;
const longestUnfitMs = 30_000;
/** How many conversations are resumed concurrently, until the turns of each have started. */
const concurrency = 20;

/** The turns of an agent in its store, of any process: observes, lists, and resumes them if their owner is gone. */
export class Recovery {
  readonly #options: RecoveryOptions;
  /** Turns that this process cannot run, by task: shared by all who follow them. */
  readonly #unfit = new Map<string, { readonly pauseMs: number; readonly until: number }>();

  constructor(options: RecoveryOptions) {
    this.#options = options;
  }

  observe(taskId: string, given: AgentObserveOptions = {}): TurnStream<AgentEvent> {
    assertKnownOptions('observe', given, ofObserve);
    const { recover, ...options } = given;
    const { store, clock, storeDeadlineMs } = this.#options;
    const around = recover ? pipe(this.followed(taskId, recover), this.#untilShutdown()) : identity;
    return observeEvents(taskId, { ...options, store, clock, storeDeadlineMs }, around);
  }

  /** Errors with `SHUTDOWN` once this process shuts down: another one continues the turn. */
  #untilShutdown(): MonoTypeOperatorFunction<Signal> {
    const { shutdown } = this.#options;
    if (!shutdown) return identity;
    return (source) =>
      new Observable((to) => {
        const leave = () =>
          to.error(new AgentLoopError('SHUTDOWN', 'The process is shutting down; observe the turn again.'));
        if (shutdown.aborted) return leave();
        to.add(onAbort(shutdown, leave));
        to.add(source.subscribe(to));
      });
  }

  async tasks(contextId: string | undefined, options: TasksOptions = {}): Promise<readonly TaskSummary[]> {
    assertKnownOptions('tasks', options, { limit: true });
    const { limit } = options;
    const { store, clock, storeDeadlineMs: ms, agentId } = this.#options;
    const where = contextId === undefined ? {} : { contextId };
    const query = { ...where, agentId, roots: true, ...(limit === undefined ? {} : { limit }) };
    return ready(() => store.list(query), { clock, ms });
  }

  /**
   * Resumes a turn here if its owner is gone, while it is subscribed to. Emits the source unchanged. Unsubscribing stops the requests; a turn
   * that was taken over continues.
   */
  followed(taskId: string, given: GivenValues): MonoTypeOperatorFunction<Signal> {
    return (source) =>
      new Observable((to) => {
        let runs = false;
        /** Of a turn that has only its first record. */
        let created: Created | undefined;
        let cancelAsk: (() => void) | undefined;
        const ask = async () => {
          const pauseMs = runs ? await this.#tryToTake(taskId, given, created) : undefined;
          cancelAsk = undefined;
          if (pauseMs !== undefined) askAfter(pauseMs);
        };
        /** Shortly after the lease expires; jitter spreads the processes. */
        const askAfter = (ms: number) => {
          if (to.closed || cancelAsk) return;
          const pauseMs = Math.min(ms, longestPauseMs) + 10 + Math.random() * 90;
          cancelAsk = after(pauseMs, this.#options.clock, () => void ask());
        };
        to.add(() => cancelAsk?.());
        const next = (signal: Signal) => {
          if (signal.type === 'commit') {
            const { outcome, seq, turn } = signal.after;
            runs = outcome === undefined;
            created = seq === 1 ? turn : undefined;
            if (runs) askAfter(0);
          }
          to.next(signal);
        };
        to.add(source.subscribe({ next, error: (error: unknown) => to.error(error), complete: () => to.complete() }));
      });
  }

  /**
   * How long a turn is left to the call that created it, in milliseconds. A turn is registered in its context under its first lease, or when it is
   * submitted; what is registered is no longer being created.
   */
  async #creationMs({ taskId, contextId, createdAt }: Created): Promise<number> {
    const ms = openingMs(createdAt, this.#options);
    if (ms === 0) return 0;
    const { messageStore, clock, storeDeadlineMs } = this.#options;
    const { openTurns } = await ready(() => messageStore.load(contextId, { limit: 0 }), { clock, ms: storeDeadlineMs });
    return openTurns.includes(taskId) ? 0 : ms;
  }

  /** Returns when to request the lease again, in milliseconds; `undefined` if the turn needs no owner, or cannot be resumed by this agent. */
  async #tryToTake(taskId: string, given: GivenValues, created?: Created): Promise<number | undefined> {
    const { runsHere, resume, store, logger, clock } = this.#options;
    if (runsHere(taskId)) return longestPauseMs;
    const unfit = this.#unfit.get(taskId);
    if (unfit && clock.now() < unfit.until) return unfit.until - clock.now();
    let opened = () => {};
    try {
      const creationMs = created ? await this.#creationMs(created) : 0;
      if (creationMs > 0) return creationMs;
      if (isMarked(store, taskId)) return longestPauseMs;
      opened = markOpening(store, taskId);
      await releaseUnused(store, await store.acquire(taskId, `follower-${crypto.randomUUID()}`, tryLeaseMs));
      const turn = resume(taskId, { ...given, detached: true });
      // Its tools are listed after its first event.
      turn.settled.catch((error: unknown) => this.#noteUnfit(taskId, error));
      await begun(turn);
      return longestPauseMs;
    } catch (error) {
      const code = codeOf(error);
      if (isMissingPart(code)) return longestPauseMs;
      if (AgentLoopError.isInstance(error) && error.retryable && code !== 'SHUTDOWN') return retryAfterMs(error);
      if (code !== 'TERMINAL' && code !== 'NOT_FOUND' && code !== 'SHUTDOWN')
        logger?.warn('turn not taken over', { taskId, code });
      return undefined;
    } finally {
      opened();
    }
  }

  #noteUnfit(taskId: string, error: unknown): void {
    const { clock, logger } = this.#options;
    const code = codeOf(error);
    if (!isMissingPart(code)) return;
    logger?.warn('turn not taken over', { taskId, code, error: messageOf(error) });
    const now = clock.now();
    const pauseMs = Math.min(2 * (this.#unfit.get(taskId)?.pauseMs ?? firstUnfitMs / 2), longestUnfitMs);
    for (const [id, { until }] of this.#unfit) if (until + longestUnfitMs < now) this.#unfit.delete(id);
    this.#unfit.set(taskId, { pauseMs, until: now + pauseMs });
  }

  async recover(options: RecoverOptions = {}): Promise<number> {
    assertKnownOptions('recover', options, { accepts: true });
    const { accepts = () => true } = options;
    const { agentId, store } = this.#options;
    const free = (await runnableTurns(store)).sort((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt));
    const left = free.filter((task) => task.parentTaskId === undefined && task.agentId === agentId && accepts(task));
    const taken$ = from(conversationsOf(left)).pipe(
      mergeMap((tasks) => from(tasks).pipe(concatMap((task) => this.#takeOver(task))), concurrency),
      reduce((sum, taken) => sum + (taken ? 1 : 0), 0),
    );
    const count = await lastValueFrom(taken$);
    for (const task of await runnableTurns(store)) await cancelOrphan(task, this.#options);
    return count;
  }

  async #takeOver(task: TaskSummary): Promise<boolean> {
    const { taskId, contextId, seq } = task;
    const { runsHere, store, resume, logger } = this.#options;
    try {
      const created = { taskId, contextId, createdAt: Date.parse(task.createdAt) };
      if (seq === 1 && (await this.#creationMs(created)) > 0) return false;
      // Checked last: the turn may have been opened since it was listed.
      if (runsHere(taskId) || isMarked(store, taskId)) return false;
      await begun(resume(taskId, { detached: true }));
      return true;
    } catch (error) {
      warnUnlessExpected(logger, 'turn not recovered', { taskId, error });
      return false;
    }
  }
}

/** Resolves when a turn has emitted its first event. Rejects if it is lost before that, except with these codes. */
export async function begun(turn: Turn, ...except: readonly ErrorCode[]): Promise<void> {
  turn.settled.catch(() => {});
  try {
    await firstValueFrom(turn, { defaultValue: undefined });
  } catch (error) {
    if (!AgentLoopError.isInstance(error) || !except.includes(error.code)) throw error;
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
