import { type Context, type Link, type SpanContext, TraceFlags, trace } from '@opentelemetry/api';
import { type RestoreOptions, restoreSpans } from '../../observability/spans/restore-spans.ts';
import { turnSpanOf } from '../../observability/spans/run-spans.ts';
import { type TracingOptions, turnTracing } from '../../observability/spans/tracing-options.ts';
import type { Clock, Lease, TaskStateStore, TaskSummary } from '../contracts/index.ts';
import {
  type Commit,
  calledChildren,
  type Deadline,
  type EarlierRuns,
  earlierRuns,
  endedInOrder,
  exportedAfterMs,
  type LoopState,
  ready,
  replayOf,
  type TraceLink,
  type TurnIdentity,
} from '../journal/index.ts';
import type { ResolvedConfig } from '../options/index.ts';
import { listedChildren, type ParentTurn } from './child-turns.ts';

interface RestoredRuns {
  /** Whether the spans of the last run exist. */
  readonly hasSpans: boolean;
  /** Settles once the spans of child turns are written; never rejects. Absent if no process was lost. */
  readonly children?: Promise<void>;
}

/**
 * Writes the spans that were lost with the processes of earlier runs. The spans of ended child turns follow once their journals are read; a child
 * turn is omitted if the store does not answer within `storeDeadlineMs` or the child was deleted.
 */
export function restoreRuns(
  config: ResolvedConfig,
  { turn }: LoopState,
  { earlier, store }: { readonly earlier: EarlierRuns; readonly store: TaskStateStore },
): RestoredRuns {
  const setupOf = (agentId: string) => (agentId === config.agentId ? config : config.agents?.(agentId));
  const hasSpans = restoreEach(earlier, {
    tracingOf: (agentId) => turnTracing(config, { ...turn, agentId }),
    maxIterations: turn.settings.maxIterations ?? config.maxIterations,
    infoOf: (agentId) => setupOf(agentId)?.llmProvider.info,
    agentNameOf: (agentId) => config.agents?.(agentId)?.name ?? agentId,
    enableTracing: config.enableTracing !== false,
  });
  if (!hasSpans || earlier.lost.length === 0) return { hasSpans };
  const { clock, storeDeadlineMs: ms, spanNames } = config;
  return { hasSpans, children: new ChildRuns(store, { clock, ms }, { spanNames }).restoreBelow(turn, earlier) };
}

/** How long a cancel waits for each response of the store, at most. */
const mostMsOfCancel = 2_000;

/**
 * As `restoreRuns`, for a turn whose end is written without its configuration. The spans have no data from the configuration and no
 * content, because its `redact` is not available. Never rejects.
 */
export async function restoreEnded(
  store: TaskStateStore,
  { lease, clock }: { readonly lease: Lease; readonly clock: Clock },
): Promise<void> {
  if (lease.abandonedAt == null) return;
  const runs = new ChildRuns(store, { clock, ms: mostMsOfCancel });
  // Records after the lease's seq belong to an owner that took the turn over meanwhile.
  const past = await runs.past(lease.taskId, lease.seq);
  if (past) await runs.restore(past.after.turn, earlierRuns(past, lease.abandonedAt));
}

function restoreEach({ lost, lostAt }: EarlierRuns, options: RestoreOptions): boolean {
  let hasSpans = lostAt === undefined;
  for (const run of lost) hasSpans = restoreSpans(run, options);
  return hasSpans;
}

/** Restores runs whose configuration is unknown here, and those of their child turns. */
class ChildRuns {
  readonly #store: TaskStateStore;
  readonly #deadline: Deadline;
  readonly #options: TracingOptions;

  constructor(store: TaskStateStore, deadline: Deadline, options: TracingOptions = {}) {
    this.#store = store;
    this.#deadline = deadline;
    this.#options = { ...options, captureContent: false, redact: () => '[not shown]' };
  }

  async restore(turn: TurnIdentity, runs: EarlierRuns): Promise<void> {
    const hasSpans = restoreEach(runs, {
      tracingOf: (agentId) => turnTracing(this.#options, { ...turn, agentId }),
      maxIterations: turn.settings.maxIterations,
      infoOf: () => undefined,
      agentNameOf: (agentId) => agentId,
      enableTracing: true,
    });
    if (hasSpans) await this.restoreBelow(turn, runs);
  }

  /** Restores child turns that calls and hooks of these runs started and that ended by themselves. */
  async restoreBelow(turn: TurnIdentity, { lost }: EarlierRuns): Promise<void> {
    const lostAt = lost.at(-1)?.lostAt;
    if (lostAt === undefined) return;
    const called = calledChildren(lost);
    // Read at once, before the turn and its child turns continue.
    const ofCalls = [...called].map(([taskId, seenAt]) => this.#restoreChild(taskId, seenAt));
    const ofHooks = (await this.#childrenOfHooks(turn, lostAt)).filter((taskId) => !called.has(taskId));
    await Promise.all([...ofCalls, ...ofHooks.map((taskId) => this.#restoreChild(taskId, lostAt))]);
  }

  /** Skips an open child turn: the process that continues or cancels it restores its spans. */
  async #restoreChild(taskId: string, lostAt: number): Promise<void> {
    const past = await this.past(taskId);
    if (past && endedInOrder(past)) await this.restore(past.after.turn, earlierRuns(past, lostAt));
  }

  async #childrenOfHooks({ taskId }: TurnIdentity, lostAt: number): Promise<readonly string[]> {
    const isWanted = ({ state, updatedAt }: TaskSummary) =>
      state !== 'submitted' && state !== 'working' && Date.parse(updatedAt) + exportedAfterMs > lostAt;
    const children = await this.#ifReadable(
      () => listedChildren(this.#store, taskId),
      (listed) => listed.filter(isWanted).map(({ taskId }) => taskId),
    );
    return children ?? [];
  }

  /** The records of a turn up to a seq. */
  past(taskId: string, upTo = Number.POSITIVE_INFINITY): Promise<Commit | undefined> {
    return this.#ifReadable(
      () => this.#store.read(taskId),
      (records) => replayOf(records.filter(({ seq }) => seq <= upTo)),
    );
  }

  /** Returns `undefined` if the store does not answer, or its data is damaged: missing spans do not fail a turn. */
  async #ifReadable<T, R>(ask: () => T | Promise<T>, use: (answer: T) => R): Promise<R | undefined> {
    try {
      return use(await ready(ask, this.#deadline));
    } catch {
      return undefined;
    }
  }
}

/** The caller's context, from which a run starts. */
interface RunOrigin {
  readonly parentContext: Context;
  /** For a child turn. */
  readonly parent?: ParentTurn | undefined;
}

/** The reference to a run's span, for the journal. */
export function linkOf(context: SpanContext, origin: RunOrigin): TraceLink | undefined {
  if (!trace.isSpanContextValid(context)) return undefined;
  const { traceId, spanId, traceFlags } = context;
  const above = trace.getSpanContext(origin.parentContext);
  const agentTurn = turnSpanOf(origin.parentContext);
  const parentSpanId = lastingId(agentTurn ? agentTurn.parent : above, origin);
  return {
    traceId,
    spanId,
    ...((traceFlags & TraceFlags.SAMPLED) === 0 && { sampled: false as const }),
    ...(parentSpanId !== undefined && { parentSpanId }),
    ...(above && agentTurn && { agentTurn: { spanId: above.spanId, agentName: agentTurn.agentName } }),
  };
}

const ofCall = /^\d+:\d+$/;

/**
 * The id of the parent span of a turn, if that span survives a crash of this process: either another process exports it, or it is the span of a
 * call, which the process that resumes the parent turn writes again. A local span of the caller is lost in a crash.
 */
function lastingId(context: SpanContext | undefined, { parent }: RunOrigin): string | undefined {
  if (!context || !trace.isSpanContextValid(context)) return undefined;
  return context.isRemote || (parent && ofCall.test(parent.link.callId)) ? context.spanId : undefined;
}

/** Links a run's span to that of the previous run. */
export function linksTo(link: TraceLink | undefined): readonly Link[] {
  if (!link || link.sampled === false) return [];
  const { traceId, spanId } = link;
  return [{ context: { traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true } }];
}
