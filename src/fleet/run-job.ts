import { ROOT_CONTEXT, TraceFlags, trace } from '@opentelemetry/api';
import type { Job } from 'bullmq';
import { defer, of, switchMap } from 'rxjs';
import type { Agent } from '../agent/agent.ts';
import type { AgentResumeOptions } from '../agent/agent-options.ts';
import { AgentLoopError, invalidConfig, type Logger, messageOf, shownValue } from '../core/contracts/index.ts';
import type { LoopState } from '../core/journal/index.ts';
import { onAbort, pause } from '../core/streams/index.ts';
import type { OpenedTurn } from '../core/turn/index.ts';
import { registeredTracer } from '../observability/spans/tracing-options.ts';
import type { Admission } from '../tasks/agent-loop.ts';
import { isTurnJob } from './dead-turns.ts';
import type { WorkerTimes } from './options.ts';
import type { TenantEntry } from './shared-counts.ts';
import { type FleetQueue, scheduleJob, type TurnTemplate } from './turn-queue.ts';

/** The data of a turn that a worker has before it runs it. */
export interface QueuedTurn {
  readonly taskId: string;
  readonly contextId: string;
  readonly agentId: string;
  /** The tenant, if the producer set one. */
  readonly tenant: string | undefined;
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** The values of a turn that are never journaled. */
export type TurnGifts = Pick<AgentResumeOptions, 'authContext' | 'context' | 'dependencies'>;

export interface JobRunnerOptions {
  readonly queue: FleetQueue;
  /** With the lease, the store and the `abortGraceMs` of the worker. */
  readonly agent: Agent;
  readonly times: WorkerTimes;
  /** Aborted when the worker drains. */
  readonly draining: AbortSignal;
  readonly tenantConcurrency: ((tenant: string) => number | undefined) | undefined;
  readonly turnOptions: ((turn: QueuedTurn) => TurnGifts | Promise<TurnGifts>) | undefined;
  readonly logger: Logger | undefined;
  readonly onOutcome: (outcome: string) => void;
}

/** How a run ended in this process. */
type Outcome =
  | { readonly is: 'over'; readonly state: LoopState | undefined }
  /** Retry the job at that time: the turn, or its tenant, has to wait. `first`: ahead of turns that have not started. */
  | { readonly is: 'later'; readonly at: number; readonly first: boolean }
  | { readonly is: 'lost'; readonly error: unknown };

type Later = Extract<Outcome, { is: 'later' }>;

/** A shorter backoff is waited for within the job. */
const stayMs = 2_000;
const tenantPauseMs = 1_000;
/** The tolerance for timers of two processes. */
const tickMs = 20;

/** Runs the jobs of one agent: reads from the journal what is left to do, and settles the job in BullMQ. */
export class JobRunner {
  readonly #options: JobRunnerOptions;

  constructor(options: JobRunnerOptions) {
    this.#options = options;
  }

  /** Resolves when the job is done; errors as BullMQ requires. */
  async run(job: Job, token: string | undefined): Promise<void> {
    if (this.#options.draining.aborted) return this.#giveBack(job, token);
    if (job.name === scheduleJob) return this.#startScheduled(job);
    if (!isTurnJob(job.data)) throw this.#unrecoverable(`a job without a taskId: ${job.name}`);
    const { taskId } = job.data;
    let outcome = await this.#resume(taskId);
    if (outcome.is === 'lost' && codeOf(outcome.error) === 'BUSY') {
      // Waits here, not at the end of the queue: the lease of a crashed worker expires soon, and its turns have waited longest.
      await this.#pause(Math.min(retryAfterOf(outcome.error), this.#options.times.leaseMs) + tickMs);
      if (this.#options.draining.aborted) return this.#giveBack(job, token);
      outcome = await this.#resume(taskId);
    }
    await this.#settle({ job, token, taskId }, outcome);
  }

  async #settle({ job, token, taskId }: { job: Job; token: string | undefined; taskId: string }, outcome: Outcome) {
    if (outcome.is === 'over') return this.#isOver(taskId, outcome.state);
    if (outcome.is === 'later') return this.#delay(job, token, outcome);
    const { error } = outcome;
    const { clock } = this.#options.queue;
    const code = codeOf(error);
    this.#tell(taskId, code.toLowerCase());
    // Its parent turn runs it.
    if (code === 'CONFLICT' && (await this.#isChild(taskId))) return;
    switch (code) {
      case 'TERMINAL':
      case 'NOT_FOUND':
        return this.#isOver(taskId, undefined);
      // Another owner runs the turn.
      case 'FENCED':
        return;
      case 'AGENT_BUSY':
        return this.#wakeIfNext(taskId);
      case 'BUSY':
        return this.#delay(job, token, { is: 'later', at: clock.now() + retryAfterOf(error), first: true });
      case 'SHUTDOWN':
        if (this.#options.draining.aborted) return this.#giveBack(job, token);
        return this.#delay(job, token, { is: 'later', at: clock.now() + tenantPauseMs, first: true });
      case 'UNAVAILABLE':
      case 'FULL':
      case 'REWOUND':
      case 'LEFT':
        throw error;
      default:
        this.#options.logger?.error('turn not run', { taskId, code, error: messageOf(error) });
        throw this.#unrecoverable(reasonOf(error));
    }
  }

  async #isChild(taskId: string): Promise<boolean> {
    const summary = await this.#options.queue.store.describe(taskId);
    return summary?.parentTaskId !== undefined;
  }

  async #resume(taskId: string): Promise<Outcome> {
    const { agent, queue, draining } = this.#options;
    const { clock } = queue;
    const leave = new AbortController();
    const stop = () => leave.abort();
    const stopListening = onAbort(draining, stop);
    const gate = new Gate(this.#options);
    let until: number | undefined;
    try {
      const given = { ...(await this.#given(taskId)), shutdown: leave.signal };
      const turn = agent.resumeAdmitted(taskId, given, gate.admission);
      const watching = turn.live$.subscribe({
        next({ kind }) {
          if (kind !== 'internal:paused') return;
          const due = turn.state?.hold?.until;
          if (due === undefined || due - clock.now() <= stayMs) return;
          until = due;
          leave.abort();
        },
        error: () => {},
      });
      try {
        // The error of a failed turn is in its journal.
        turn.result().catch(() => {});
        await turn.settled;
      } finally {
        watching.unsubscribe();
      }
      return { is: 'over', state: turn.state };
    } catch (error) {
      if (gate.refusal) return gate.refusal;
      if (until !== undefined && codeOf(error) === 'SHUTDOWN' && !draining.aborted)
        return { is: 'later', at: until, first: true };
      return { is: 'lost', error };
    } finally {
      stopListening();
      await gate.leave();
    }
  }

  /** The caller's trace context and the application's values; reads the task only if they are used. */
  async #given(taskId: string): Promise<TurnGifts & Pick<AgentResumeOptions, 'parentContext'>> {
    const { queue, agent, turnOptions } = this.#options;
    if (!turnOptions && !registeredTracer()) return {};
    const [started] = await queue.store.read(taskId);
    if (started?.type !== 'turn.started') return {};
    const { contextId, metadata = {}, settings, submitted } = started;
    const turn = { taskId, contextId, agentId: agent.id, tenant: settings.tenant, metadata };
    const gifts = await this.#gifts(turn);
    const { traceId, spanId, sampled } = submitted?.trace ?? {};
    if (traceId === undefined || spanId === undefined) return { ...gifts };
    const traceFlags = sampled === false ? TraceFlags.NONE : TraceFlags.SAMPLED;
    const parentContext = trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
    return { ...gifts, parentContext };
  }

  /** Errors: `UNAVAILABLE`, since the application's services may be down; its message goes to the log only, because the queue stores a job's error. */
  async #gifts(turn: QueuedTurn): Promise<TurnGifts | undefined> {
    const { turnOptions, logger } = this.#options;
    try {
      return await turnOptions?.(turn);
    } catch (error) {
      const { taskId } = turn;
      logger?.error('turnOptions failed', { taskId, error: messageOf(error) });
      throw new AgentLoopError('UNAVAILABLE', `turnOptions of the worker failed for turn "${taskId}".`, {
        taskId,
        retryable: true,
        cause: error,
      });
    }
  }

  /** The turn has ended, or waits: checks once for later changes, such as an answer that arrived during the suspension. */
  async #isOver(taskId: string, state: LoopState | undefined): Promise<void> {
    const { queue, agent } = this.#options;
    if (state?.outcome) this.#tell(taskId, state.outcome.state);
    const isComplete = state?.isComplete === true;
    const summary = isComplete ? undefined : await queue.store.describe(taskId);
    if (summary && !summary.held && (summary.state === 'working' || summary.state === 'submitted'))
      await queue.enqueue(summary, true);
    const contextId = state?.turn.contextId ?? summary?.contextId;
    if (contextId !== undefined) await queue.wakeNext(contextId, agent.resolved.messageStore);
  }

  /**
   * The turn ahead of it in its context wakes it, unless that one ended while this worker still held the lease, and so looked like the worker
   * that runs this turn. The lease is released by now.
   */
  async #wakeIfNext(taskId: string): Promise<void> {
    const { queue, agent } = this.#options;
    const summary = await queue.store.describe(taskId);
    if (summary) await queue.wakeNext(summary.contextId, agent.resolved.messageStore, taskId);
  }

  async #delay(job: Job, token: string | undefined, { at, first }: Later): Promise<never> {
    const { queue } = this.#options;
    if (first) await putFirst(job);
    await job.moveToDelayed(Math.max(at, queue.clock.now() + tickMs), token);
    throw new queue.connections.bullmq.DelayedError();
  }

  /** The worker drains: returns the job to the queue, where another worker takes it at once. */
  async #giveBack(job: Job, token: string | undefined): Promise<never> {
    if (isTurnJob(job.data)) this.#tell(job.data.taskId, 'given back');
    // BullMQ 6.7 does not notify idle workers of a returned job with a priority.
    await putFirst(job);
    await job.moveToWait(token);
    throw new this.#options.queue.connections.bullmq.WaitingError();
  }

  /** Reports how a run ended here. */
  #tell(taskId: string, outcome: string): void {
    const { onOutcome, logger, agent } = this.#options;
    onOutcome(outcome);
    logger?.info('turn run', { taskId, agentId: agent.id, outcome });
  }

  #unrecoverable(message: string): Error {
    return new this.#options.queue.connections.bullmq.UnrecoverableError(message);
  }

  /** Derives the turn's id from the schedule and its time: a job that runs twice starts one turn. */
  async #startScheduled(job: Job): Promise<void> {
    const { messages, ...options } = templateOf(job);
    const taskId = String(job.id)
      .replace(/^repeat:/, '')
      .slice(-128);
    await this.#options.queue.startPlaced(messages, { ...options, taskId });
  }

  #pause(ms: number): Promise<void> {
    const { draining, queue } = this.#options;
    return pause(ms, queue.clock, draining);
  }
}

/** Admits a turn once it is due, its tenant has capacity, and no other turn of its context is ahead. Nothing is recorded for a refused turn. */
class Gate {
  readonly #options: JobRunnerOptions;
  #entered: { readonly entry: TenantEntry; readonly stop: () => void } | undefined;
  refusal: Later | undefined;

  constructor(options: JobRunnerOptions) {
    this.#options = options;
  }

  get admission(): Admission {
    const { inOrder } = this.#options.agent;
    return {
      onLease: (turn) =>
        defer(() => this.#admit(turn)).pipe(switchMap(() => inOrder.onLease?.(turn) ?? of({ queued: false }))),
    };
  }

  async #admit({ state, epoch }: OpenedTurn): Promise<void> {
    const { queue, tenantConcurrency } = this.#options;
    const now = queue.clock.now();
    const { settings, taskId } = state.turn;
    const notBefore = state.seq === 1 ? (settings.notBefore ?? 0) : 0;
    const due = Math.max(notBefore, state.hold?.until ?? 0);
    if (due > now + tickMs) this.#refuse(taskId, { is: 'later', at: due, first: state.hold !== undefined });
    const { tenant } = settings;
    if (tenant === undefined || !tenantConcurrency) return;
    const forMs = this.#options.times.leaseMs;
    const most = tenantConcurrency(tenant);
    if (most === undefined || most === Number.POSITIVE_INFINITY) return;
    if (!Number.isSafeInteger(most) || most < 0)
      throw invalidConfig(
        `tenantConcurrency gives ${shownValue(most)} for a tenant`,
        'give an integer ≥ 0, or undefined for no limit',
      );
    const entry = { tenant, taskId, epoch };
    if (!(await queue.counts.enter(entry, { most, forMs })))
      this.#refuse(taskId, { is: 'later', at: now + tenantPauseMs, first: false });
    const timer = setInterval(() => queue.counts.stay(entry, forMs).catch(() => {}), forMs / 3);
    this.#entered = { entry, stop: () => clearInterval(timer) };
  }

  #refuse(taskId: string, refusal: Later): never {
    this.refusal = refusal;
    throw new AgentLoopError(
      'BUSY',
      `Turn "${taskId}" does not run yet: it is not due, or its tenant runs as many turns as it may.`,
      { taskId },
    );
  }

  async leave(): Promise<void> {
    if (!this.#entered) return;
    const { entry, stop } = this.#entered;
    stop();
    // If the queue is unavailable, the entry expires.
    await this.#options.queue.counts.leave(entry).catch(() => {});
  }
}

/** Moves the job ahead of turns that have not started. */
async function putFirst(job: Job): Promise<void> {
  if ((job.opts.priority ?? 0) > 0) await job.changePriority({ priority: 0 });
}

/** The error text for the queue. For foreign errors only that there was one: their messages may contain input. */
function reasonOf(error: unknown): string {
  return AgentLoopError.isInstance(error) && error.code !== 'INTERNAL'
    ? `${error.code}: ${error.message}`
    : 'INTERNAL: the turn could not be run; the log of the worker says why';
}

function codeOf(error: unknown): AgentLoopError['code'] {
  return AgentLoopError.isInstance(error) ? error.code : 'INTERNAL';
}

function retryAfterOf(error: unknown): number {
  return (AgentLoopError.isInstance(error) ? error.retryAfterMs : undefined) ?? tenantPauseMs;
}

function templateOf(job: Job): TurnTemplate {
  return job.data.turn;
}
