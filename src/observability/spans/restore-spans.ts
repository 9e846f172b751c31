import { type Context, ROOT_CONTEXT, type Span, TraceFlags, type Tracer, trace } from '@opentelemetry/api';
import { AgentLoopError, type LLMProviderInfo } from '../../core/contracts/index.ts';
import { attribute } from '../attributes.ts';
import type { LostRun, LostSpan } from '../lost-runs.ts';
import { finishLlmSpan, finishToolSpan, startLlmSpan, startToolSpan, startToolsSpan } from './call-spans.ts';
import { choosesIds, withIds } from './chosen-ids.ts';
import {
  finishRunSpan,
  finishTurnSpanAt,
  startExecuteSpan,
  startLoopIterationSpan,
  startSegmentSpan,
  startTurnSpan,
} from './run-spans.ts';
import { failSpan, registeredTracer, type TurnTracing } from './tracing-options.ts';

export interface RestoreOptions {
  /** The tracing of the turn for an agent. */
  readonly tracingOf: (agentId: string) => TurnTracing;
  /** Absent if unknown. */
  readonly maxIterations: number | undefined;
  /** The info of an agent's provider, if known. */
  readonly infoOf: (agentId: string) => LLMProviderInfo | undefined;
  readonly agentNameOf: (agentId: string) => string;
  readonly enableTracing: boolean;
}

/** The tracer for restored spans; `undefined` if no SDK is registered, or it does not use `turnIdGenerator`. */
function restoringTracer({ enableTracing }: RestoreOptions): Tracer | undefined {
  return enableTracing && choosesIds() ? registeredTracer() : undefined;
}

/** Whether spans of earlier runs can be written in this process. */
export function canRestore(options: RestoreOptions): boolean {
  return restoringTracer(options) !== undefined;
}

/** Records have whole milliseconds: a span that ended in one, and its children, ended before the next. */
const restOfMs = 0.999;

/**
 * Writes the possibly missing spans of a run, with the ids and times from its journal: ended spans as they ended, open spans until
 * the process was last seen alive and with `millrace.outcome` = `lost`. Their content is that of the journal. Writes nothing if that is impossible.
 */
export function restoreSpans({ trace: link, lostAt, spans }: LostRun, options: RestoreOptions): void {
  const tracer = restoringTracer(options);
  if (!tracer) return;
  const startedAt = new Map<string, number>();
  const started = spans.map((lost) => {
    const { parentSpanId = '', spanId } = lost;
    // The clocks of the processes that wrote the records may differ.
    const at = Math.max(lost.startedAt, startedAt.get(parentSpanId) ?? 0);
    startedAt.set(spanId, at);
    const clock = restoredClock(at);
    const tracing = {
      ...options.tracingOf(lost.agentId),
      tracer: tracerOf(tracer, link.traceId, spanId),
      // The process that was lost has measured it.
      measured: undefined,
      clock: clock.now,
    };
    const parent = parentSpanId === '' ? ROOT_CONTEXT : belowSpan(link.traceId, parentSpanId);
    return { lost, tracing, clock, span: start(lost, { ...options, tracing }, parent) };
  });
  const endedAt = new Map<string, number>();
  for (const { lost, tracing, clock, span } of started.reverse()) {
    const { spanId, parentSpanId = '' } = lost;
    clock.moveTo((lost.endedAt ?? lostAt) + restOfMs);
    clock.moveTo(endedAt.get(spanId) ?? 0);
    endedAt.set(parentSpanId, Math.max(clock.now(), endedAt.get(parentSpanId) ?? 0));
    span.setAttribute(attribute.restored, true);
    if (lost.endedAt === undefined) span.setAttribute(attribute.outcome, 'lost');
    else finish(lost, tracing, span);
    span.end();
  }
}

/** The clock of one restored span: its start, later its end. */
function restoredClock(startedAt: number) {
  let now = startedAt;
  return {
    now: () => now,
    moveTo: (at: number) => {
      now = Math.max(now, at);
    },
  };
}

/** A tracer for one span with a fixed id. */
function tracerOf(tracer: Tracer, traceId: string, spanId: string): Tracer {
  return {
    startSpan: (name, described, context) =>
      withIds({ traceId, spanId }, () => tracer.startSpan(name, described, context)),
    startActiveSpan: tracer.startActiveSpan.bind(tracer),
  };
}

function belowSpan(traceId: string, spanId: string): Context {
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true });
}

type Starting = RestoreOptions & { readonly tracing: TurnTracing };

function start(lost: LostSpan, { tracing, ...options }: Starting, parent: Context): Span {
  switch (lost.kind) {
    case 'turn': {
      const { agentName, agentId } = lost;
      return startTurnSpan(tracing, { agentName, messages: [], provider: options.infoOf(agentId) }, parent).span;
    }
    case 'execute': {
      const { maxIterations } = options;
      return startExecuteSpan(tracing, { maxIterations, resumed: lost.resumed }, parent).span;
    }
    case 'segment': {
      const { from, reason, agentId } = lost;
      const provider = options.infoOf(agentId);
      return startSegmentSpan(tracing, { agentName: options.agentNameOf(agentId), from, reason, provider }, parent)
        .span;
    }
    case 'iteration':
      return startLoopIterationSpan(tracing, lost.iteration, parent).span;
    case 'llm': {
      // The sent messages are not in the record of the call.
      const plain = { ...tracing, captureContent: false };
      const { iteration, agentId } = lost;
      return startLlmSpan(plain, { iteration, params: { messages: [] }, info: options.infoOf(agentId) }, parent).span;
    }
    case 'tools':
      return startToolsSpan(tracing, parent).span;
    case 'tool':
      return startToolSpan(tracing, lost, parent).span;
  }
}

function finish(lost: LostSpan, tracing: TurnTracing, span: Span): void {
  if (lost.kind === 'turn' && lost.end) finishTurnSpanAt(tracing, span, lost.end);
  if (lost.kind === 'execute' && lost.end) finishRunSpan(tracing, span, lost.end);
  if (lost.kind === 'llm' && lost.done) {
    const { message, calls, finishReason, usage, model } = lost.done;
    const toolCalls = calls.map(({ call }) => call);
    const response = { message, toolCalls, finishReason, ...(usage && { usage }), ...(model && { model }) };
    finishLlmSpan(tracing, span, { response });
  }
  if (lost.kind === 'llm' && lost.failure) failSpan(span, new AgentLoopError(lost.failure.code, lost.failure.message));
  if (lost.kind === 'tool' && lost.result) finishToolSpan(tracing, span, lost.result);
}
