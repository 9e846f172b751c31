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
} from '../core/contracts/index.ts';
import type { Answers } from '../core/options/index.ts';
import type { SubmitOptions } from '../core/turn/index.ts';
import { QueueConnections, type TurnJob } from './connection.ts';
import { type DeadTurn, DeadTurns, type DeadTurnsQuery } from './dead-turns.ts';
import { FairShares } from './fair-shares.ts';
import { type FleetHealth, healthOf } from './health.ts';
import { checkDelay, checkQueueOptions, checkSchedule, type SchedulePlan, type TurnQueueOptions } from './options.ts';
import { SharedCounts } from './shared-counts.ts';

/** Options of `queue.start`: the agent, the ids of the turn, and when it begins. */
export interface StartTurnOptions extends SubmitOptions {
  /** The agent whose workers run the turn. */
  readonly agentId: string;
  /** The turn begins so much later. Milliseconds; default 0. */
  readonly delayMs?: number | undefined;
}

/** The ids of a turn that is in the queue. */
export interface StartedTurn {
  readonly taskId: string;
  readonly contextId: string;
}

/** What a schedule starts each time. The template is kept in the queue, as no journal has it. */
export interface TurnTemplate
  extends Pick<
    StartTurnOptions,
    'agentId' | 'contextId' | 'systemPrompt' | 'maxIterations' | 'metadata' | 'retryPlan' | 'tenant'
  > {
  readonly messages: readonly Message[];
}

/**
 * Turns that wait for workers. BullMQ carries task ids; the journals say what a turn is, how far it is, and who may act. Losing every job costs
 * time only: workers find what is runnable in the store.
 *
 * Errors of its methods: `UNAVAILABLE` where the store or the queue does not answer, besides those that are named.
 */
export interface TurnQueue {
  /**
   * Creates the turn, then its job. Idempotent with a `taskId`, on both sides; where it breaks off in between, the turn begins with the next
   * sweep of a worker. With a `contextId` the turn waits for those of the context that were started before it. Errors: `INVALID_INPUT`;
   * `CONFLICT` where the task is another turn; `FULL` above `maxOutstanding`.
   */
  start(messages: readonly Message[], options: StartTurnOptions): Promise<StartedTurn>;
  /** Has a worker look at a turn, at once where it is delayed. Any number of times: it does nothing to a turn that has nothing to do. Errors: `NOT_FOUND`. */
  wake(taskId: string): Promise<void>;
  /** Records the answers, then wakes the turn. Errors as `AgentLoop.answer`. */
  answer(taskId: string, answers: Answers): Promise<void>;
  /** Cancels the turn, wherever it is, and lets the next of its context begin. Errors as `AgentLoop.cancel`. */
  cancel(taskId: string, reason?: string): Promise<void>;
  /**
   * Starts a turn again and again, each under the id `<id>:<time>`, until `unschedule`. The same id replaces its plan. The plan is in the queue:
   * call it at each deployment, as a queue that is lost has no plans.
   */
  schedule(id: string, plan: SchedulePlan, turn: TurnTemplate): Promise<void>;
  /** Ends a schedule; turns that it started are not touched. A schedule that is not there is no error. */
  unschedule(id: string, agentId: string): Promise<void>;
  /** Figures of the queue and its workers, counted now. */
  health(): Promise<FleetHealth>;
  /** Turns that failed, and turns that no worker could run, the newest first. */
  dead(query?: DeadTurnsQuery): Promise<readonly DeadTurn[]>;
  /**
   * Has a dead turn tried again: a failed one as a new task that continues it (`AgentLoop.retry`), any other under its own id. Gives the id of the
   * task that runs. Errors: `NOT_FOUND`, `INVALID_INPUT` for one that has completed.
   */
  revive(taskId: string): Promise<{ readonly taskId: string }>;
  /** Ends its connections. Jobs and turns stay. */
  close(): Promise<void>;
}

/** Makes a queue. Connects when it is first used. Errors: `INVALID_CONFIG`, naming the option and the cure; `MISSING_PACKAGE` without `bullmq`. */
export function turnQueue(options: TurnQueueOptions): TurnQueue {
  return new FleetQueue(options);
}

export interface JobOptions {
  /** 0 comes before all others. */
  readonly priority: number;
  readonly delayMs?: number | undefined;
  /** Takes the place of a job of the turn that is delayed. Default false. */
  readonly atOnce?: boolean | undefined;
}

const attempts = 10;
const keptFailures = 10_000;

/** The same in all copies of the package. */
const mark = Symbol.for('millrace.FleetQueue');

/** Whether another copy of the package made it, where it is not of this one. */
export function isOfAnotherCopy(queue: unknown): boolean {
  return typeof queue === 'object' && queue !== null && mark in queue;
}

/** What workers use of a queue besides. */
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
    // One that is there already is outstanding, or has ended.
    const isThere = async () => options.taskId !== undefined && !!(await this.store.describe(taskId));
    if (!isPlaced && !(await isThere())) throw full(agentId, maxOutstanding);
    try {
      return await this.startPlaced(messages, { ...options, taskId });
    } finally {
      await this.counts.leavePlace(agentId, taskId);
    }
  }

  /** Starts a turn that has its place among the outstanding ones: the job of a schedule counts there before its turn does. */
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
    // A worker ends its job, also where that is delayed.
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

  /** A job for a turn that is there. One that has begun comes before those that have not. */
  enqueue({ agentId, taskId, state, seq }: TaskSummary, atOnce: boolean): Promise<void> {
    return this.add(agentId, taskId, { priority: state === 'submitted' && seq === 1 ? 1 : 0, atOnce });
  }

  /** Adds the job of a turn; where it has one that waits, there is one still, and where that runs, another after it. */
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

  /** Wakes the turn of a context that is next, where it waits for nothing else. */
  async wakeNext(contextId: string, messageStore: MessageStore | undefined): Promise<void> {
    if (!messageStore) return;
    const next = await settleTurnsAhead({ messageStore, journal: this.store }, contextId, '');
    if (next?.status !== 'dead') return;
    const summary = await this.store.describe(next.taskId);
    if (summary && !isSuspended(summary.state)) await this.enqueue(summary, true);
  }

  /** Writes the limits into the queue, which forgets them when it is lost. */
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

/** Turns that are only submitted call none. */
const noModel: LLMProvider = {
  call: () => Promise.reject(new AgentLoopError('INTERNAL', 'A producer runs no turn.')),
};

function full(agentId: string, most: number): AgentLoopError {
  const message = `The queue of agent "${agentId}" is full: ${most} turns are outstanding (maxOutstanding); try again later.`;
  return new AgentLoopError('FULL', message, { retryable: true });
}
