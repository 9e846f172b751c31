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
  /** Whether the last of the runs has its spans. */
  readonly isThere: boolean;
  /** Settles once those of child turns are written; never rejects. Absent where no process was lost. */
  readonly children?: Promise<void>;
}

/**
 * Writes the spans that were lost with the processes of earlier runs. Those of child turns that had ended by then follow once the store has told
 * their journals: what it does not tell within `storeDeadlineMs`, and what was deleted, is left out.
 */
export function restoreRuns(
  config: ResolvedConfig,
  { turn }: LoopState,
  { earlier, store }: { readonly earlier: EarlierRuns; readonly store: TaskStateStore },
): RestoredRuns {
  const setupOf = (agentId: string) => (agentId === config.agentId ? config : config.agents?.(agentId));
  const isThere = restoreEach(earlier, {
    tracingOf: (agentId) => turnTracing(config, { ...turn, agentId }),
    maxIterations: turn.settings.maxIterations ?? config.maxIterations,
    infoOf: (agentId) => setupOf(agentId)?.llmProvider.info,
    agentNameOf: (agentId) => config.agents?.(agentId)?.name ?? agentId,
    enableTracing: config.enableTracing !== false,
  });
  if (!isThere || earlier.lost.length === 0) return { isThere };
  const { clock, storeDeadlineMs: ms, spanNames } = config;
  return { isThere, children: new ChildRuns(store, { clock, ms }, { spanNames }).restoreBelow(turn, earlier) };
}

/** A cancel waits this long for each answer at most. */
const mostMsOfCancel = 2_000;

/**
 * The same for a turn that nobody continues: its end is written without its configuration. What only that knows is not on the spans, and neither
 * are texts, which its `redact` has not seen. Never rejects.
 */
export async function restoreEnded(
  store: TaskStateStore,
  { lease, clock }: { readonly lease: Lease; readonly clock: Clock },
): Promise<void> {
  if (lease.abandonedAt == null) return;
  const runs = new ChildRuns(store, { clock, ms: mostMsOfCancel });
  // After the seq of the lease the turn belongs to another owner, which took it meanwhile.
  const past = await runs.past(lease.taskId, lease.seq);
  if (past) await runs.restore(past.after.turn, earlierRuns(past, lease.abandonedAt));
}

function restoreEach({ lost, lostAt }: EarlierRuns, options: RestoreOptions): boolean {
  let isThere = lostAt === undefined;
  for (const run of lost) isThere = restoreSpans(run, options);
  return isThere;
}

/** Restores runs whose configuration is not here, and those of child turns below them. */
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
    const isThere = restoreEach(runs, {
      tracingOf: (agentId) => turnTracing(this.#options, { ...turn, agentId }),
      maxIterations: turn.settings.maxIterations,
      infoOf: () => undefined,
      agentNameOf: (agentId) => agentId,
      enableTracing: true,
    });
    if (isThere) await this.restoreBelow(turn, runs);
  }

  /** The runs of child turns that calls and hooks of these runs had started, as far as they had ended by themselves. */
  async restoreBelow(turn: TurnIdentity, { lost }: EarlierRuns): Promise<void> {
    const lostAt = lost.at(-1)?.lostAt;
    if (lostAt === undefined) return;
    const called = calledChildren(lost);
    // Asked for at once, before the turn continues and its child turns with it.
    const ofCalls = [...called].map(([taskId, seenAt]) => this.#restoreChild(taskId, seenAt));
    const ofHooks = (await this.#childrenOfHooks(turn, lostAt)).filter((taskId) => !called.has(taskId));
    await Promise.all([...ofCalls, ...ofHooks.map((taskId) => this.#restoreChild(taskId, lostAt))]);
  }

  /** Whoever continues or cancels an open one restores it. */
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

  /** Nothing where the store has no answer, or a damaged one: a turn does not fail for want of its spans. */
  async #ifReadable<T, R>(ask: () => T | Promise<T>, use: (answer: T) => R): Promise<R | undefined> {
    try {
      return use(await ready(ask, this.#deadline));
    } catch {
      return undefined;
    }
  }
}

/** Where a run is started. */
interface RunOrigin {
  readonly parentContext: Context;
  /** For a child turn. */
  readonly parent?: ParentTurn | undefined;
}

/** The reference to the span of a run that is recorded in the journal. */
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
 * The id of the parent span of a turn, if that span survives a crash of this process: another process exports it, or it is the span of a call, which
 * the process that resumes the parent turn writes. A span of the caller in this process is lost with it.
 */
function lastingId(context: SpanContext | undefined, { parent }: RunOrigin): string | undefined {
  if (!context || !trace.isSpanContextValid(context)) return undefined;
  return context.isRemote || (parent && ofCall.test(parent.link.callId)) ? context.spanId : undefined;
}

/** The link of a run's span to that of the run before it. */
export function linksTo(link: TraceLink | undefined): readonly Link[] {
  if (!link || link.sampled === false) return [];
  const { traceId, spanId } = link;
  return [{ context: { traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true } }];
}
