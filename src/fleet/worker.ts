import { BehaviorSubject, firstValueFrom, last, type Observable, race } from 'rxjs';
import type { Agent } from '../agent/agent.ts';
import { invalidConfig, type Logger, shownValue } from '../core/contracts/index.ts';
import { after, within } from '../core/streams/index.ts';
import { guardedLogger } from '../guarded-logger.ts';
import { checkNames } from '../options/option-rules.ts';
import type { JobWorker } from './connection.ts';
import { prometheusText, type WorkerCounters } from './health.ts';
import { checkWorkerOptions, type WorkerTimes } from './options.ts';
import { JobRunner, type QueuedTurn, type TurnGifts } from './run-job.ts';
import { Sweep } from './sweep.ts';
import { FleetQueue, isOfAnotherCopy, type TurnQueue } from './turn-queue.ts';

/** Options of `worker`: its queue, its agents, and its limits. */
export interface WorkerOptions {
  /** Created by `turnQueue`. Its store contains the turns of the agents. */
  readonly queue: TurnQueue;
  /** Each with its own id, the same in all processes. A worker runs turns of these only. */
  readonly agents: readonly Agent[];
  /** The maximum number of concurrent turns per agent in this worker. Default 50. */
  readonly concurrency?: number | undefined;
  /**
   * The maximum number of concurrent turns of a tenant, over all workers, which must return the same. A turn over the limit retries after a
   * second. `undefined`: no limit; if it does not return an integer ≥ 0, the turn is not run, and listed by `dead`. Needs a queue on Redis. Default: no limit.
   */
  readonly tenantConcurrency?: ((tenant: string) => number | undefined) | undefined;
  /** Values of a turn that are never journaled: its identity, values of the application. Called for each run. Default: none. */
  readonly turnOptions?: ((turn: QueuedTurn) => TurnGifts | Promise<TurnGifts>) | undefined;
  /** How long a job stays locked by this worker without a renewal; longer than `leaseMs + stalledCheckMs`. Milliseconds; default 30,000. */
  readonly lockMs?: number | undefined;
  /** How long the lease of a turn lasts without a renewal. Milliseconds; default 10,000. */
  readonly leaseMs?: number | undefined;
  /** How often a worker checks for jobs of crashed workers. Milliseconds; default 5,000. */
  readonly stalledCheckMs?: number | undefined;
  /** The time limit of `drain`. Running tools get two fifths of it. Milliseconds; default 20,000. */
  readonly drainMs?: number | undefined;
  /** How often the store is searched for turns without a job, by one worker of the fleet. Milliseconds; default 10,000. */
  readonly sweepEveryMs?: number | undefined;
  /** The version of the application, for `health`. Default: empty. */
  readonly version?: string | undefined;
  /** Silent by default. */
  readonly logger?: Logger | undefined;
}

/** Runs the turns of a queue in this process. */
export interface TurnWorker {
  /** Runs turns until it is drained, then resolves. Errors: `UNAVAILABLE` if the queue does not respond at the start. */
  run(): Promise<void>;
  /**
   * Accepts no more turns and releases the running ones, as `shutdown` does; other workers resume them at once. Resolves within `drainMs`. A repeated
   * call waits for the first. Does not close the queue, the store and the agents.
   */
  drain(): Promise<void>;
  /** Whether it accepts turns: it was started, does not drain, and its queue and store respond. Never rejects. */
  ready(): Promise<boolean>;
  /** Metrics of this worker and of the fleet, in the text format of Prometheus. */
  metrics(): Promise<string>;
  /** The number of running turns, now and after each change; completes when the worker is drained. */
  readonly running$: Observable<number>;
}

/** Creates a worker; nothing runs before `run`. Errors: `INVALID_CONFIG`, naming the option and the fix. */
export function worker(options: WorkerOptions): TurnWorker {
  return new FleetWorker(options);
}

const optionNames = [
  'queue',
  'agents',
  'concurrency',
  'tenantConcurrency',
  'turnOptions',
  'lockMs',
  'leaseMs',
  'stalledCheckMs',
  'drainMs',
  'sweepEveryMs',
  'version',
  'logger',
];

const defaultConcurrency = 50;
const tellEveryMs = 5_000;
/** The time for closing connections after a drain that used up its limit. */
const leastCloseMs = 500;
const sayAgainMs = 60_000;
/** The journal ends a turn without progress; BullMQ must not. */
const maxStalledCount = 1_000;

class FleetWorker implements TurnWorker {
  readonly #id = crypto.randomUUID();
  readonly #options: WorkerOptions;
  readonly #queue: FleetQueue;
  readonly #times: WorkerTimes;
  readonly #agents: readonly Agent[];
  readonly #draining = new AbortController();
  readonly #running = new BehaviorSubject(0);
  readonly #counters: WorkerCounters = { running: 0, outcomes: new Map(), woken: 0, locksLost: 0 };
  readonly #sweep: Sweep;
  #workers: readonly JobWorker[] = [];
  #run: Promise<void> | undefined;
  #drained: Promise<void> | undefined;
  #telling: NodeJS.Timeout | undefined;
  /** The last logged error of each agent's queue. */
  readonly #said = new Map<string, { readonly error: string; readonly at: number }>();

  constructor(options: WorkerOptions) {
    checkNames(options, optionNames, 'worker');
    const { queue, agents, tenantConcurrency } = options;
    const logger = guardedLogger(options.logger);
    if (!(queue instanceof FleetQueue)) throw notOurs(queue);
    this.#times = checkWorkerOptions(options);
    if (tenantConcurrency && !queue.counts.isThere)
      throw invalidConfig('tenantConcurrency needs a queue on Redis', 'leave it out, or keep the jobs in Redis');
    this.#options = { ...options, logger };
    this.#queue = queue;
    this.#agents = agents.map((agent) => workingAgent(agent, queue, this.#times));
    this.#sweep = new Sweep({
      queue,
      agentIds: agents.map(({ id }) => id),
      everyMs: this.#times.sweepEveryMs,
      logger,
      onWoken: () => {
        this.#counters.woken++;
      },
    });
  }

  get running$(): Observable<number> {
    return this.#running.asObservable();
  }

  run(): Promise<void> {
    this.#run ??= this.#start();
    return this.#run;
  }

  drain(): Promise<void> {
    this.#drained ??= this.#leave();
    return this.#drained;
  }

  async ready(): Promise<boolean> {
    if (this.#workers.length === 0 || this.#draining.signal.aborted) return false;
    const { connections, store } = this.#queue;
    const answers = this.#agents.map(({ id }) => connections.ask(() => connections.queueOf(id).getJobCounts('wait')));
    const all = [...answers, connections.ask(async () => store.list({ limit: 1 }))];
    return (await Promise.allSettled(all)).every(({ status }) => status === 'fulfilled');
  }

  async metrics(): Promise<string> {
    return prometheusText(await this.#queue.health(), this.#counters);
  }

  async #start(): Promise<void> {
    try {
      await Promise.all(this.#agents.map(({ id }) => this.#queue.applyLimits(id)));
    } catch (error) {
      // Its queue may be closed by now.
      if (!this.#draining.signal.aborted) throw error;
    }
    if (this.#draining.signal.aborted) return;
    this.#workers = this.#agents.map((agent) => this.#workerOf(agent));
    this.#sweep.start();
    this.#tell();
    this.#telling = setInterval(() => this.#tell(), tellEveryMs);
    // BullMQ's loop does not end while its server is down.
    const drained$ = this.#running.pipe(last());
    await firstValueFrom(race<unknown[]>(Promise.all(this.#workers.map((each) => each.run())), drained$));
    await this.#drained;
  }

  #workerOf(agent: Agent): JobWorker {
    const {
      queue,
      concurrency = defaultConcurrency,
      tenantConcurrency,
      turnOptions,
      logger,
    } = {
      ...this.#options,
      queue: this.#queue,
    };
    const runner = new JobRunner({
      queue,
      agent,
      times: this.#times,
      draining: this.#draining.signal,
      tenantConcurrency,
      turnOptions,
      logger,
      onOutcome: (outcome) => {
        this.#counters.outcomes.set(outcome, (this.#counters.outcomes.get(outcome) ?? 0) + 1);
      },
    });
    const { lockMs, stalledCheckMs } = this.#times;
    return queue.connections.workerOf(agent.id, {
      name: this.#id,
      autorun: false,
      concurrency,
      lockDuration: lockMs,
      stalledInterval: stalledCheckMs,
      maxStalledCount,
      process: async (job, token) => {
        this.#count(1);
        try {
          await runner.run(job, token);
        } finally {
          this.#count(-1);
        }
      },
      onError: (error) => this.#queueFailed(agent.id, error.message),
      // The lease decides, not the lock: the turn continues.
      onLocksLost: (jobIds) => {
        this.#counters.locksLost += jobIds.length;
      },
    });
  }

  async #leave(): Promise<void> {
    this.#draining.abort();
    clearInterval(this.#telling);
    this.#tell();
    // Not awaited: it waits for the turns. It closes the blocking connection, which would otherwise receive the wake-up for returned jobs.
    for (const each of this.#workers) each.pause().catch(() => {});
    const until = this.#queue.clock.now() + this.#times.drainMs;
    const idle = await this.#idleWithin(this.#times.drainMs);
    const { connections, counts } = this.#queue;
    // A graceful close waits for the server, even if it is down.
    const gently = idle && (await this.#within(until, connections.answers()));
    const closed = [this.#sweep.stop(), ...this.#workers.map((each) => each.close(!gently).catch(() => {}))];
    await this.#within(until, Promise.all(closed));
    if (gently)
      await this.#within(
        until,
        counts.untell(this.#id).catch(() => {}),
      );
    this.#running.complete();
  }

  /** Resolves with the result of `work` by `until`, or within a short minimum; else with `undefined`, and `work` ends with the queue's connections. */
  #within<T>(until: number, work: Promise<T>): Promise<T | undefined> {
    const { clock } = this.#queue;
    return within({ ms: Math.max(until - clock.now(), leastCloseMs), clock, late: () => undefined }, work);
  }

  /** A server that is down reports the same error twice a second; it is logged once a minute. */
  #queueFailed(agentId: string, error: string): void {
    const now = this.#queue.clock.now();
    const said = this.#said.get(agentId);
    if (said?.error === error && now - said.at < sayAgainMs) return;
    this.#said.set(agentId, { error, at: now });
    this.#options.logger?.warn('queue failed', { agentId, error });
  }

  /** Resolves with false if turns still run after `ms`. */
  #idleWithin(ms: number): Promise<boolean> {
    if (this.#counters.running === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const give = (idle: boolean) => {
        cancel();
        watching.unsubscribe();
        resolve(idle);
      };
      const cancel = after(ms, this.#queue.clock, () => give(false));
      const watching = this.#running.subscribe((running) => {
        if (running === 0) queueMicrotask(() => give(true));
      });
    });
  }

  #count(change: 1 | -1): void {
    this.#counters.running += change;
    this.#running.next(this.#counters.running);
  }

  #tell(): void {
    const { version = '' } = this.#options;
    const agents = this.#agents.map(({ id }) => id);
    const { running } = this.#counters;
    const draining = this.#draining.signal.aborted;
    const at = this.#queue.clock.now();
    this.#queue.counts.tell({ id: this.#id, version, agents, running, draining, at }).catch(() => {});
  }
}

/** A worker uses internal parts of its queue, which copies of the package do not share. */
function notOurs(queue: unknown): Error {
  return isOfAnotherCopy(queue)
    ? invalidConfig(
        'queue was made by another copy of millrace, such as one in a bundle beside the installed package',
        'import turnQueue, worker and agent from the same copy (npm ls millrace lists those that are installed)',
      )
    : invalidConfig(`queue is ${shownValue(queue)}`, 'give turnQueue({ connection, store })');
}

/** The agent with the worker's settings: the store and the lease of its turns, and the time that tools get when it drains. */
function workingAgent(agent: Agent, queue: FleetQueue, { leaseMs, drainMs }: WorkerTimes): Agent {
  const { taskStateStore, abortGraceMs = 5_000 } = agent.options;
  if (taskStateStore !== undefined && taskStateStore !== queue.store)
    throw invalidConfig(
      `agent "${agent.id}" has another taskStateStore than the queue`,
      'give both the same store object, or leave it out of the agent',
    );
  return agent.variant({
    leaseMs,
    abortGraceMs: Math.min(abortGraceMs, Math.floor(drainMs * 0.4)),
    taskStateStore: queue.store,
  });
}
