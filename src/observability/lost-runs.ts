import type { ToolCall } from '../core/contracts/index.ts';
import {
  type Commit,
  isTerminal,
  type LlmDone,
  type LoopState,
  type Stamped,
  type Step,
  type ToolIntent,
  type ToolResultRecord,
  type TraceLink,
} from '../core/journal/index.ts';
import { idBelow, toolKey } from './spans/chosen-ids.ts';

/** A span that the journal implies and that may be missing in the tracing backend. */
export type LostSpan = {
  readonly spanId: string;
  /** Absent for the root span of its trace. */
  readonly parentSpanId?: string | undefined;
  /** The agent that ran the turn at that time. */
  readonly agentId: string;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** Absent if it was open when the process was lost. */
  endedAt?: number;
} & (
  | { readonly kind: 'turn'; readonly agentName: string; end?: LoopState }
  | { readonly kind: 'execute'; readonly resumed: boolean; end?: LoopState }
  | { readonly kind: 'segment'; readonly from: string; readonly reason: string | undefined }
  | { readonly kind: 'iteration'; readonly iteration: number }
  | { readonly kind: 'llm'; readonly iteration: number; done?: Stamped<LlmDone>; failure?: Failure }
  | { readonly kind: 'tools' }
  | {
      readonly kind: 'tool';
      readonly callId: string;
      readonly call: ToolCall;
      readonly intent: ToolIntent;
      result?: ToolResultRecord;
    }
);

type Failure = NonNullable<ToolResultRecord['error']>;

type Lost<K extends LostSpan['kind']> = Extract<LostSpan, { kind: K }>;

/** One run of a turn, with the spans that may be missing, parents first. */
export interface LostRun {
  readonly trace: TraceLink;
  /** When the lost process was last seen alive: the end time of open spans. Milliseconds since 1970. */
  readonly lostAt: number;
  /** When the next run began; absent for the last one. */
  readonly nextAt?: number;
  readonly spans: readonly LostSpan[];
}

/** The runs of a turn before the one that takes it over. */
export interface EarlierRuns {
  /** The runs whose spans may be missing, the oldest first. */
  readonly lost: readonly LostRun[];
  /** When the last run was last seen alive, if it was lost. Milliseconds since 1970. */
  readonly lostAt?: number;
}

/** SDKs buffer ended spans for 5 seconds, and an export takes time: spans that ended earlier than this are exported. */
export const exportedAfterMs = 10_000;

/**
 * Finds the runs of a turn whose process was lost, with the spans that may never have been exported: those that were open, and those that
 * ended less than 10 s before the process was last seen alive, also in preceding runs that ended normally. If the run that restored a run's spans
 * was itself lost soon after, they are restored again. `abandonedAt` is that of the lease; for a child turn whose lease was released, when
 * the process of its parent turn was last seen alive. `parentLostAt`: when the
 * process of an open parent turn was. It was that of the child turn too: a later renewal of the child's lease is not counted, and a later record is counted for
 * the parent as well, so that the spans of a child turn end within those of its parent.
 */
export function earlierRuns(
  { steps, after }: Commit,
  abandonedAt: number | null | undefined,
  parentLostAt?: number | undefined,
): EarlierRuns {
  const runs = runsOf(steps);
  const lost: LostRun[] = [];
  const seen = abandonedAt == null ? abandonedAt : Math.min(abandonedAt, parentLostAt ?? abandonedAt);
  const lastSeen = seenAt(runs.at(-1) ?? [], after, seen);
  let next: Seen = { lostAt: lastSeen, traced: false };
  for (const [index, run] of [...runs.entries()].reverse()) {
    const { lostAt } = next;
    const first = run[0]?.record;
    if (first?.type !== 'turn.started' && first?.type !== 'turn.resumed') break;
    const { trace } = first;
    if (lostAt !== undefined && trace && trace.sampled !== false && !next.traced) {
      const following = runs[index + 1]?.[0];
      const afterRun = following?.before ?? after;
      const spans = spansOf(run, trace, afterRun).filter(
        ({ endedAt }) => endedAt === undefined || endedAt + exportedAfterMs > lostAt,
      );
      const nextAt = following && { nextAt: following.record.at };
      if (spans.length > 0) lost.unshift({ trace, lostAt, ...nextAt, spans });
    }
    // The spans that this run restored for the previous one are exported, unless it was lost before that.
    const wasExported = lostAt === undefined || first.at + exportedAfterMs <= lostAt;
    const before = first.type === 'turn.resumed' ? first.lostAt : undefined;
    // A run that ended normally may have buffered its spans in the process that was lost then.
    if (before !== undefined || lostAt === undefined) {
      next = { lostAt: before, traced: trace !== undefined && wasExported };
    }
  }
  return lastSeen === undefined ? { lost } : { lost, lostAt: lastSeen };
}

/** What a run tells about the previous one. */
interface Seen {
  readonly lostAt: number | undefined;
  /** Whether it has restored the spans of the previous one. */
  readonly traced: boolean;
}

/** The steps of each run, without those that a fork copied from another turn. */
function runsOf(steps: readonly Step[]): readonly (readonly Step[])[] {
  const first = steps[0]?.record;
  const copied = first?.type === 'turn.started' ? (first.forkedFrom?.records ?? 0) : 0;
  const runs: Step[][] = [];
  for (const step of steps.slice(copied)) {
    const { type } = step.record;
    if (type === 'turn.started' || type === 'turn.resumed') runs.push([step]);
    else runs.at(-1)?.push(step);
  }
  return runs;
}

/** The child turns of calls among these spans, each with the time at which the process of its call was last seen alive. */
export function calledChildren(lost: readonly LostRun[]): ReadonlyMap<string, number> {
  const children = new Map<string, number>();
  for (const { spans, lostAt } of lost) {
    for (const span of spans) {
      if (span.kind === 'tool' && span.intent.child) children.set(span.intent.child.taskId, lostAt);
    }
  }
  return children;
}

/** The child turns of the calls of a run that were open when its process was lost. */
export function openChildren({ spans }: LostRun): readonly string[] {
  return spans.flatMap((span) => {
    const isOpen = span.kind === 'tool' && span.endedAt === undefined;
    return isOpen && span.intent.child ? [span.intent.child.taskId] : [];
  });
}

/** The last run of a turn that began before a time: its last record, and the child turns of its calls that were open then. */
export function lastSign({ steps }: Commit, before = Number.POSITIVE_INFINITY) {
  const run = runsOf(steps).findLast(([first]) => first !== undefined && first.record.at < before) ?? [];
  const own = ownOf(run).map(({ record }) => record);
  const children = new Map<string, string>();
  for (const record of own) {
    if (record.type === 'tool.intent' && record.child) children.set(record.callId, record.child.taskId);
    if (record.type === 'tool.result') children.delete(record.callId);
  }
  return { at: own.at(-1)?.at ?? 0, children: [...children.values()] };
}

/** Whether the last run of a turn ended, or suspended the turn, by itself, and so is not lost. */
export function endedInOrder({ steps, after }: Commit): boolean {
  return endOf(runsOf(steps).at(-1) ?? [], after) !== undefined;
}

/** When the last owner was last seen alive, if it was lost. */
function seenAt(run: readonly Step[], after: LoopState, abandonedAt: number | null | undefined): number | undefined {
  if (run.length === 0 || abandonedAt === null) return undefined;
  if (abandonedAt === undefined && after.outcome) return undefined;
  return Math.max(ownOf(run).at(-1)?.record.at ?? 0, abandonedAt ?? 0);
}

/** The records that the owner of a run wrote. Other processes may have added answers or a cancel after it. */
function ownOf(run: readonly Step[]): readonly Step[] {
  const [first, second] = run;
  const epoch = first?.record.type === 'turn.started' ? second?.record.epoch : first?.record.epoch;
  return run.filter(({ record }, index) => index === 0 || record.epoch === epoch);
}

/** The state after the record with which its owner ended a run, if any. `after` is the state after the run. */
function endOf(run: readonly Step[], after: LoopState): LoopState | undefined {
  const last = ownOf(run).length - 1;
  const record = run[last]?.record;
  const end = record && (isTerminal(record) || record.type === 'turn.suspended');
  const afterRun = run[last + 1]?.before ?? after;
  return end && afterRun.outcome ? afterRun : undefined;
}

/** The spans of one run as its process started them, parents first. `after` is the state after it. */
function spansOf(run: readonly Step[], trace: TraceLink, after: LoopState): readonly LostSpan[] {
  const spans = new RunSpans(trace);
  for (const [index, step] of ownOf(run).entries()) spans.take(step, run[index + 1]?.before ?? after);
  const end = endOf(run, after);
  if (end) spans.end(end);
  return spans.all;
}

/** Reconstructs the spans of a run from its records. */
class RunSpans {
  readonly all: LostSpan[] = [];
  readonly #trace: TraceLink;
  /** The number of children by name, per span. */
  readonly #counts = new Map<string, number>();
  #turn: Lost<'turn'> | undefined;
  #execute: Lost<'execute'> | undefined;
  #segment: Lost<'segment'> | undefined;
  #iteration: Lost<'iteration'> | undefined;
  #llm: Lost<'llm'> | undefined;
  #batch: Lost<'tools'> | undefined;
  readonly #tools = new Map<string, Lost<'tool'>>();

  constructor(trace: TraceLink) {
    this.#trace = trace;
  }

  take({ record }: Step, after: LoopState): void {
    const { at } = record;
    switch (record.type) {
      case 'turn.started':
      case 'turn.resumed':
        this.#begin(at, after, record.type === 'turn.resumed');
        break;
      case 'agent.changed':
        this.#openSegment(at, after);
        break;
      case 'llm.start':
        this.#closeIteration(at);
        this.#openIteration(at, after);
        this.#llm = this.#open({
          kind: 'llm',
          iteration: record.iteration,
          ...this.#below(this.#iteration, 'llm', at, after),
        });
        break;
      case 'llm.done':
        this.#endLlm(at, { done: record });
        if (record.calls.length > 0) this.#openBatch(at, after);
        break;
      case 'tool.intent': {
        const batch = this.#openBatch(at, after);
        const call = after.pendingToolCalls.find(({ callId }) => callId === record.callId)?.call;
        if (!call) break;
        const { callId } = record;
        const place = this.#below(batch, toolKey({ callId, intent: record }), at, after);
        this.#tools.set(callId, this.#open({ kind: 'tool', callId, call, intent: record, ...place }));
        break;
      }
      case 'tool.result':
        this.#endTool(record.callId, at, record);
        break;
      case 'turn.asked':
        if (record.question.kind !== 'in-doubt') this.#endTool(record.question.callId, at);
        break;
      case 'turn.suspended':
        this.#endLlm(at, record.hold?.error ? { failure: record.hold.error } : {});
        this.#closeIteration(at);
        break;
      default:
        record.type satisfies 'turn.answered' | 'turn.done' | 'turn.failed' | 'turn.canceled' | `x.${string}`;
    }
    if (after.phase === 'closed' || after.phase === 'answered') this.#closeIteration(at);
  }

  /** The run ended with the record before this state. */
  end(state: LoopState): void {
    const at = state.updatedAt;
    this.#closeIteration(at);
    if (this.#segment) this.#segment.endedAt = at;
    for (const span of [this.#execute, this.#turn]) if (span) Object.assign(span, { endedAt: at, end: state });
  }

  #begin(at: number, after: LoopState, resumed: boolean): void {
    const { spanId, parentSpanId, agentTurn } = this.#trace;
    const { agentId } = after.turn;
    if (agentTurn) {
      const { agentName } = agentTurn;
      const { spanId } = agentTurn;
      this.#turn = this.#open({ kind: 'turn', spanId, parentSpanId, agentName, agentId, startedAt: at });
    }
    const parent = agentTurn?.spanId ?? parentSpanId;
    this.#execute = this.#open({ kind: 'execute', spanId, parentSpanId: parent, resumed, agentId, startedAt: at });
    if (after.agentChanges > 0) this.#openSegment(at, after);
  }

  #openSegment(at: number, after: LoopState): void {
    this.#closeIteration(at);
    if (this.#segment) this.#segment.endedAt ??= at;
    const { from, reason } = after.segment;
    this.#segment = this.#open({ kind: 'segment', from, reason, ...this.#below(this.#execute, 'segment', at, after) });
  }

  #openIteration(at: number, after: LoopState): void {
    if (this.#iteration) return;
    const { iteration } = after;
    const place = this.#below(this.#segment ?? this.#execute, `iteration[${iteration}]`, at, after);
    this.#iteration = this.#open({ kind: 'iteration', iteration, ...place });
  }

  #openBatch(at: number, after: LoopState): Lost<'tools'> {
    this.#openIteration(at, after);
    this.#batch ??= this.#open({ kind: 'tools', ...this.#below(this.#iteration, 'tools.execute', at, after) });
    return this.#batch;
  }

  #endLlm(at: number, how: Pick<Lost<'llm'>, 'done' | 'failure'>): void {
    if (this.#llm) Object.assign(this.#llm, { endedAt: at }, how);
    this.#llm = undefined;
  }

  #endTool(callId: string, at: number, result?: ToolResultRecord): void {
    const tool = this.#tools.get(callId);
    if (!tool) return;
    Object.assign(tool, { endedAt: at }, result && { result });
    this.#tools.delete(callId);
  }

  #closeIteration(at: number): void {
    for (const callId of [...this.#tools.keys()]) this.#endTool(callId, at);
    for (const span of [this.#llm, this.#batch, this.#iteration]) if (span) span.endedAt ??= at;
    this.#llm = undefined;
    this.#batch = undefined;
    this.#iteration = undefined;
  }

  #below(parent: LostSpan | undefined, name: string, at: number, { agentId }: LoopState) {
    const parentSpanId = parent?.spanId ?? this.#trace.spanId;
    const key = `${parentSpanId}/${name}`;
    const count = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, count);
    return { spanId: idBelow(parentSpanId, name, count), parentSpanId, agentId, startedAt: at };
  }

  #open<S extends LostSpan>(span: S): S {
    this.all.push(span);
    return span;
  }
}
