import {
  type Attributes,
  type Context,
  INVALID_SPAN_CONTEXT,
  isSpanContextValid,
  type Link,
  type Span,
  type SpanContext,
  trace,
} from '@opentelemetry/api';
import { AgentLoopError, type Usage } from '../../core/contracts/index.ts';
import type { LoopState } from '../../core/journal/index.ts';
import { attribute } from '../attributes.ts';
import { withoutAttempts } from './attempt-span.ts';
import { choosesIds, randomSpanId } from './chosen-ids.ts';
import { contentText } from './content.ts';
import { failSpan, startChildSpan, type TracedSpan, type TurnTracing } from './tracing-options.ts';
import { usageTotals } from './usage-totals.ts';

export interface ExecuteSpanInput {
  /** Absent where it is not known. */
  readonly maxIterations: number | undefined;
  readonly resumed: boolean;
  /** Links to the previous run of a resumed turn. */
  readonly links?: readonly Link[];
}

export interface ExecuteSpanResult {
  /** The turn's state at its end: `completed`, `failed`, `canceled`, `input-required`, … */
  readonly outcome: string;
  readonly stopReason: string;
  readonly iterations: number;
  readonly toolCalls: number;
  /** The sum over the turn's model calls. */
  readonly usage: Usage;
  /** The final text; exported only with content capture. */
  readonly output?: string;
}

/** `agent.execute` of a run that has not begun. */
export interface PlannedSpan {
  readonly spanContext: SpanContext;
  start(): TracedSpan;
  /** For a run that never begins. */
  drop(): void;
}

/**
 * Gives `agent.execute` its ids, for the record that starts a run: whether there is such a run is known when the store has answered. It is started at
 * once where its ids cannot be chosen, and where it is the first of its trace: only a sampler knows then whether it is recorded.
 */
export function planExecuteSpan(tracing: TurnTracing, input: ExecuteSpanInput, parent: Context): PlannedSpan {
  if (!tracing.isTraced) {
    return { spanContext: INVALID_SPAN_CONTEXT, start: () => startExecuteSpan(tracing, input, parent), drop: () => {} };
  }
  const above = trace.getSpanContext(parent);
  if (choosesIds() && above && isSpanContextValid(above)) {
    const { traceId, traceFlags } = above;
    const spanId = randomSpanId();
    const start = () => startExecuteSpan(tracing, input, parent, spanId);
    return { spanContext: { traceId, spanId, traceFlags }, start, drop: () => {} };
  }
  const traced = startExecuteSpan(tracing, input, parent);
  return { spanContext: traced.span.spanContext(), start: () => traced, drop: () => traced.span.end() };
}

/** Starts `agent.execute`: one run of a turn in one process. `spanId` as it was planned. */
export function startExecuteSpan(
  tracing: TurnTracing,
  input: ExecuteSpanInput,
  parent: Context,
  spanId?: string,
): TracedSpan {
  const attributes: Attributes = {
    [attribute.spanKind]: 'CHAIN',
    [attribute.maxIterations]: input.maxIterations,
    [attribute.resumed]: input.resumed,
  };
  const options = { key: null, spanId, attributes, ...(input.links && { links: [...input.links] }) };
  return startChildSpan(tracing, 'agent.execute', options, withoutAttempts(parent));
}

/** Writes that the run was left to another process: no failure of the turn. */
export function leaveExecuteSpan(span: Span): void {
  span.setAttribute(attribute.outcome, 'shutdown');
}

/** Writes how the run went. Status and end of the span are the caller's. */
export function finishExecuteSpan(tracing: TurnTracing, span: Span, result: ExecuteSpanResult): void {
  if (!span.isRecording()) return;
  span.setAttributes({
    [attribute.outcome]: result.outcome,
    [attribute.stopReason]: result.stopReason,
    [attribute.iterations]: result.iterations,
    [attribute.toolCalls]: result.toolCalls,
    ...usageTotals(result.usage),
  });
  if (tracing.captureContent && result.output !== undefined) {
    span.setAttribute(attribute.outputValue, contentText(tracing, result.output));
  }
}

/** The same for the state after the last record of a run; with the failure of a turn that failed. Writes nothing where the turn has no outcome. */
export function finishRunSpan(tracing: TurnTracing, span: Span, state: LoopState): void {
  const { outcome, finalMessage, iteration, toolCalls, turn } = state;
  if (!outcome || !span.isRecording()) return;
  finishExecuteSpan(tracing, span, {
    outcome: outcome.state,
    stopReason: outcome.reason,
    iterations: iteration,
    toolCalls,
    usage: state.usage,
    ...(finalMessage === undefined ? {} : { output: finalMessage }),
  });
  const { error } = outcome;
  if (error) failSpan(span, new AgentLoopError(error.code, error.message, { taskId: turn.taskId }));
}
