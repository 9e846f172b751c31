import { settleTurnsAhead } from '../agent/open-turns.ts';
import { AgentLoop } from '../agent-loop.ts';
import {
  AgentLoopError,
  type Clock,
  checkInput,
  isSuspended,
  type LLMProvider,
  type Message,
  type MessageStore,
  systemClock,
  type TaskStateStore,
  type TaskSummary,
  type TurnCallSettings,
} from '../core/contracts/index.ts';
import type { Answers } from '../core/journal/index.ts';
import type { SubmitOptions } from '../tasks/create-task.ts';
import { QueueConnections, type TurnJob } from './connection.ts';
import { type DeadTurn, DeadTurns, type DeadTurnsQuery } from './dead-turns.ts';
import { FairShares } from './fair-shares.ts';
import { type FleetHealth, healthOf } from './health.ts';
import { checkDelay, checkQueueOptions, checkSchedule, type SchedulePlan, type TurnQueueOptions } from './options.ts';
import { SharedCounts } from './shared-counts.ts';

/** Options of `queue.start`: the agent, the ids of the turn, and its start time. */
export interface StartTurnOptions extends SubmitOptions {
  /** The agent whose workers run the turn. */
  readonly agentId: string;
  /** Delays the start of the turn. Milliseconds; default 0. */
  readonly delayMs?: number | undefined;
}

/** The ids of an enqueued turn. */
export interface StartedTurn {
  readonly taskId: string;
  readonly contextId: string;
}

/** The turn that a schedule starts each time. Stored in the queue, since no journal has it. */
export interface TurnTemplate
  extends TurnCallSettings,
    Pick<
      StartTurnOptions,
      'agentId' | 'contextId' | 'systemPrompt' | 'maxIterations' | 'metadata' | 'retryPlan' | 'tenant'
    > {
  readonly messages: readonly Message[];
}

/**
 * A job queue of turns. BullMQ stores task ids; the journals store the turns, their progress and their owners. Losing every job costs
 * time only: workers find runnable turns in the store.
 *
 * Errors of its methods: `UNAVAILABLE` if the store or the queue does not respond, besides those that are named.
 */
export interface TurnQueue {
  /**
   * Creates the turn, then its job. Idempotent with a `taskId`, on both sides; if it fails in between, the next sweep of a worker starts
   * the turn. With a `contextId` the turn waits for earlier turns of the context. Errors: `INVALID_INPUT`;
   * `CONFLICT` if the task is another turn; `FULL` above `maxOutstanding`.
   */
  start(messages: readonly Message[], options: StartTurnOptions): Promise<StartedTurn>;
  /** Enqueues the job of a turn, without its delay. Idempotent; no effect on a turn that has nothing to do. Errors: `NOT_FOUND`. */
  wake(taskId: string): Promise<void>;
  /** Records the answers, then wakes the turn. Errors as `AgentLoop.answer`. */
  answer(taskId: string, answers: Answers): Promise<void>;
  /** Cancels the turn in any process, and starts the next turn of its context. Errors as `AgentLoop.cancel`. */
  cancel(taskId: string, reason?: string): Promise<void>;
  /**
   * Starts a turn periodically, each under the id `<id>:<time>`, until `unschedule`. The same id replaces its plan. The plan is in the queue:
   * call it at each deployment, because a queue that is lost has no plans.
   */
  schedule(id: string, plan: SchedulePlan, turn: TurnTemplate): Promise<void>;
  /** Ends a schedule; turns that it started are not affected. No error if it does not exist. */
  unschedule(id: string, agentId: string): Promise<void>;
  /** The current state of the queue and its workers. */
  health(): Promise<FleetHealth>;
  /** Turns that failed, and turns that no worker could run, the newest first. */
  dead(query?: DeadTurnsQuery): Promise<readonly DeadTurn[]>;
  /**
   * Retries a dead turn: a failed one as a new task that continues it (`AgentLoop.retry`), any other under its own id. Returns the id of the
   * task that runs. Errors: `NOT_FOUND`, `INVALID_INPUT` for a completed turn.
   */
  revive(taskId: string): Promise<{ readonly taskId: string }>;
  /** Closes its connections. Jobs and turns stay. */
  close(): Promise<void>;
}

/** Creates a queue. Connects on first use. Errors: `INVALID_CONFIG`, naming the option and the fix; `MISSING_PACKAGE` without `bullmq`. */
export function turnQueue(options: TurnQueueOptions): TurnQueue {
  return new FleetQueue(options);
}

export interface JobOptions {
  /** 0 is ahead of all others. */
  readonly priority: number;
  readonly delayMs?: number | undefined;
  /** Replaces a delayed job of the turn. Default false. */
  readonly atOnce?: boolean | undefined;
}

const attempts = 10;
const keptFailures = 10_000;

/** Shared by all copies of the package. */
const mark = Symbol.for('millrace.FleetQueue');

/** Whether a queue was created by another copy of the package. */
export function isOfAnotherCopy(queue: unknown): boolean {
  return typeof queue === 'object' && queue !== null && mark in queue;
}

/** The queue with the parts that only workers use. */
export class FleetQueue implements TurnQueue {
  readonly [mark] = true;
  readonly options: TurnQueueOptions;
  readonly connections: QueueConnections;
  readonly counts: SharedCounts;
  readonly clock: Clock;
  readonly deadTurns: DeadTurns;
  readonly #shares: FairShares;
  readonly #producers = new Map<string, AgentLoop>();

  constructor(options: TurnQueueOptions) {
    checkQueueOptions(options);
    const { connection, name = 'millrace', clock = systemClock } = options;
    this.options = options;
    this.clock = clock;
    this.connections = new QueueConnections(connection, name);
    this.counts = new SharedCounts(this.connections, () => clock.now());
    this.#shares = new FairShares(this.connections);
    this.deadTurns = new DeadTurns({ store: options.store, connections: this.connections, counts: this.counts, clock });
  }

  get store(): TaskStateStore {
    return this.options.store;
  }

  async start(messages: readonly Message[], options: StartTurnOptions): Promise<StartedTurn> {
    const { agentId, taskId = crypto.randomUUID() } = options;
    const { maxOutstanding } = this.options;
    if (maxOutstanding === undefined) return this.startPlaced(messages, { ...options, taskId });
    const isPlaced = await this.counts.takePlace(agentId, taskId, maxOutstanding);
    // An existing turn is outstanding already, or has ended.
    const isThere = async () => options.taskId !== undefined && !!(await this.store.describe(taskId));
    if (!isPlaced && !(await isThere())) throw full(agentId, maxOutstanding);
    try {
      return await this.startPlaced(messages, { ...options, taskId });
    } finally {
      await this.counts.leavePlace(agentId, taskId);
    }
  }

  /** Starts a turn with a reservation: the job of a schedule counts as outstanding before its turn does. */
  async startPlaced(
    messages: readonly Message[],
    options: StartTurnOptions & { readonly taskId: string },
  ): Promise<StartedTurn> {
    const { agentId, delayMs = 0, ...given } = options;
    const { taskId, tenant } = given;
    checkDelay(delayMs);
    const notBefore = delayMs > 0 ? { notBefore: this.clock.now() + delayMs } : {};
    const task = await this.#producerOf(agentId).submit(messages, { ...given, ...notBefore });
    const { contextId } = task;
    const places = this.#places;
    if (given.contextId !== undefined && places) await places.begin(contextId, taskId);
    const priority = given.priority ?? (tenant === undefined ? 1 : await this.#shares.priorityOf(agentId, tenant));
    await this.add(agentId, taskId, { priority, delayMs });
    return { taskId, contextId };
  }

  async wake(taskId: string): Promise<void> {
    const summary = await this.store.describe(taskId);
    if (!summary) throw new AgentLoopError('NOT_FOUND', `There is no task "${taskId}".`, { taskId });
    await this.enqueue(summary, true);
  }

  async answer(taskId: string, answers: Answers): Promise<void> {
    await AgentLoop.answer(taskId, { store: this.store, answers, clock: this.clock });
    await this.wake(taskId);
  }

  async cancel(taskId: string, reason?: string): Promise<void> {
    await AgentLoop.cancel(taskId, { store: this.store, reason, clock: this.clock });
    const summary = await this.store.describe(taskId);
    if (!summary) return;
    await this.wakeNext(summary.contextId, this.#places);
    // A worker ends its job, even a delayed one.
    await this.enqueue(summary, true);
  }

  async schedule(id: string, plan: SchedulePlan, turn: TurnTemplate): Promise<void> {
    checkSchedule(id, plan);
    checkInput(turn.messages);
    const queue = this.connections.queueOf(turn.agentId);
    const { every, pattern, tz } = plan;
    const repeat = every === undefined ? { pattern, ...(tz !== undefined && { tz }) } : { every };
    const template = { name: scheduleJob, data: { turn }, opts: { ...this.#kept, ...this.#tries } };
    await this.connections.ask(() => queue.upsertJobScheduler(id, repeat, template));
  }

  async unschedule(id: string, agentId: string): Promise<void> {
    await this.connections.ask(() => this.connections.queueOf(agentId).removeJobScheduler(id));
  }

  health(): Promise<FleetHealth> {
    return healthOf(this);
  }

  dead(query: DeadTurnsQuery = {}): Promise<readonly DeadTurn[]> {
    return this.deadTurns.list(query);
  }

  async revive(taskId: string): Promise<{ readonly taskId: string }> {
    const revived = await this.deadTurns.revive(taskId);
    await this.wake(revived);
    return { taskId: revived };
  }

  close(): Promise<void> {
    return this.connections.close();
  }

  /** Enqueues the job of an existing turn. A started turn is ahead of those that have not started. */
  enqueue({ agentId, taskId, state, seq }: TaskSummary, atOnce: boolean): Promise<void> {
    return this.add(agentId, taskId, { priority: state === 'submitted' && seq === 1 ? 1 : 0, atOnce });
  }

  /** Enqueues the job; no-op if one waits; queues a follow-up if one is active. */
  async add(agentId: string, taskId: string, { priority, delayMs = 0, atOnce = false }: JobOptions): Promise<void> {
    const queue = this.connections.queueOf(agentId);
    const data: TurnJob = { taskId };
    await this.connections.ask(() =>
      queue.add(turnJob, data, {
        ...this.#kept,
        ...this.#tries,
        deduplication: { id: taskId, keepLastIfActive: true, ...(atOnce && { replace: true }) },
        ...(priority > 0 && { priority }),
        ...(delayMs > 0 && { delay: delayMs }),
      }),
    );
  }

  /** Wakes the next turn of a context, unless it is suspended; with `only`, if it is that task. */
  async wakeNext(contextId: string, messageStore: MessageStore | undefined, only?: string): Promise<void> {
    if (!messageStore) return;
    const next = await settleTurnsAhead({ messageStore, journal: this.store }, contextId, '');
    if (next?.status !== 'dead' || (only !== undefined && next.taskId !== only)) return;
    const summary = await this.store.describe(next.taskId);
    if (summary && !isSuspended(summary.state)) await this.enqueue(summary, true);
  }

  /** Writes the limits to the queue, which loses them with its data. */
  async applyLimits(agentId: string): Promise<void> {
    const { limits } = this.options;
    const queue = this.connections.queueOf(agentId);
    const { concurrency, rate } = limits ?? {};
    await this.connections.ask(() =>
      concurrency === undefined ? queue.removeGlobalConcurrency() : queue.setGlobalConcurrency(concurrency),
    );
    await this.connections.ask(() =>
      rate === undefined ? queue.removeGlobalRateLimit() : queue.setGlobalRateLimit(rate.turns, rate.perMs),
    );
  }

  get #places(): MessageStore | undefined {
    return this.options.messageStore ?? this.store.messages;
  }

  get #tries() {
    return { attempts, backoff: { type: 'exponential', delay: 1_000, jitter: 0.5 } };
  }

  get #kept() {
    return { removeOnComplete: true, removeOnFail: { count: keptFailures } };
  }

  #producerOf(agentId: string): AgentLoop {
    const known = this.#producers.get(agentId);
    if (known) return known;
    const config = { agentId, llmProvider: noModel, taskStateStore: this.store, clock: this.clock };
    const producer = new AgentLoop(config);
    this.#producers.set(agentId, producer);
    return producer;
  }
}

/** The name of jobs that run a turn. */
export const turnJob = 'turn';
/** The name of jobs that start one. */
export const scheduleJob = 'schedule';

/** A producer only submits turns and calls no model. */
const noModel: LLMProvider = {
  call: () => Promise.reject(new AgentLoopError('INTERNAL', 'A producer runs no turn.')),
};

function full(agentId: string, most: number): AgentLoopError {
  const message = `The queue of agent "${agentId}" is full: ${most} turns are outstanding (maxOutstanding); try again later.`;
  return new AgentLoopError('FULL', message, { retryable: true });
}
