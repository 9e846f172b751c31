import { type Context, ROOT_CONTEXT, type Span, TraceFlags, type Tracer, trace } from '@opentelemetry/api';
import { AgentLoopError, type LLMProviderInfo } from '../../core/contracts/index.ts';
import type { LostRun, LostSpan } from '../../core/journal/index.ts';
import { attribute } from '../attributes.ts';
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

/**
 * Writes the possibly missing spans of a run, with the ids and times from its journal: ended spans as they ended, open spans until
 * the process was last seen alive and with `millrace.outcome` = `lost`. Their content is that of the journal. Returns false if that is impossible: no
 * SDK is registered, or it does not use `turnIdGenerator`.
 */
export function restoreSpans({ trace: link, lostAt, spans }: LostRun, options: RestoreOptions): boolean {
  const tracer = options.enableTracing ? registeredTracer() : undefined;
  if (!tracer || !choosesIds()) return false;
  const started = spans.map((lost) => {
    const tracing = { ...options.tracingOf(lost.agentId), tracer: tracerOf(tracer, link.traceId, lost) };
    const { parentSpanId } = lost;
    const parent = parentSpanId === undefined ? ROOT_CONTEXT : belowSpan(link.traceId, parentSpanId);
    return { lost, tracing, span: start(lost, { ...options, tracing }, parent) };
  });
  for (const { lost, tracing, span } of started.reverse()) {
    const { startedAt, endedAt } = lost;
    span.setAttribute(attribute.restored, true);
    if (endedAt === undefined) span.setAttribute(attribute.outcome, 'lost');
    else finish(lost, tracing, span);
    span.end(new Date(Math.max(endedAt ?? lostAt, startedAt)));
  }
  return true;
}

/** A tracer for one span with a fixed id and start. */
function tracerOf(tracer: Tracer, traceId: string, { spanId, startedAt }: LostSpan): Tracer {
  const startTime = new Date(startedAt);
  return {
    startSpan: (name, described, context) =>
      withIds({ traceId, spanId }, () => tracer.startSpan(name, { ...described, startTime }, context)),
    startActiveSpan: tracer.startActiveSpan.bind(tracer),
  };
}

function belowSpan(traceId: string, spanId: string): Context {
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true });
}

type Starting = RestoreOptions & { readonly tracing: TurnTracing };

function start(lost: LostSpan, { tracing, ...options }: Starting, parent: Context): Span {
  switch (lost.kind) {
    case 'turn':
      return startTurnSpan(tracing, { agentName: lost.agentName, messages: [] }, parent).span;
    case 'execute': {
      const { maxIterations } = options;
      return startExecuteSpan(tracing, { maxIterations, resumed: lost.resumed }, parent).span;
    }
    case 'segment': {
      const { from, reason, agentId } = lost;
      return startSegmentSpan(tracing, { agentName: options.agentNameOf(agentId), from, reason }, parent).span;
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
