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
import { AgentLoopError, type Message, textOf, type Usage } from '../../core/contracts/index.ts';
import { type LoopState, resultOf } from '../../core/journal/index.ts';
import { attribute } from '../attributes.ts';
import { withoutAttempts } from './call-spans.ts';
import { choosesIds, randomSpanId } from './chosen-ids.ts';
import { contentText, messagesJson } from './content.ts';
import {
  cancelSpan,
  failSpan,
  silentSpanBelow,
  startChildSpan,
  type TracedSpan,
  type TurnTracing,
} from './tracing-options.ts';

interface TurnSpanInput {
  readonly agentName: string;
  readonly description?: string | undefined;
  /** What this turn was asked, without the conversation before it; exported only with content capture. */
  readonly messages: readonly Message[];
}

interface TurnSpanResult {
  /** The turn's state at its end: `completed`, `failed`, `canceled`, `input-required`, … */
  readonly outcome: string;
  readonly iterations: number;
  readonly toolCalls: number;
  /** The sum over the turn's model calls. */
  readonly usage: Usage;
  /** What this turn added to the conversation; exported only with content capture. */
  readonly messages: readonly Message[];
}

/** What a journal says of an `agent.turn` span. */
interface TurnSpanNote {
  readonly agentName: string;
  readonly parent: SpanContext | undefined;
}

const turnSpans = new WeakMap<Span, TurnSpanNote>();

/** Where the span of a context is an `agent.turn`: what it was started with. */
export function turnSpanOf(context: Context): TurnSpanNote | undefined {
  const span = trace.getSpan(context);
  return span && turnSpans.get(span);
}

/** Starts `agent.turn`: one turn of a conversation, as the caller of an agent sees it. */
export function startTurnSpan(tracing: TurnTracing, input: TurnSpanInput, parent: Context): TracedSpan {
  const attributes: Attributes = {
    [attribute.spanKind]: 'AGENT',
    [attribute.operationName]: 'invoke_agent',
    [attribute.agentName]: input.agentName,
    ...(input.description !== undefined && { [attribute.agentDescription]: input.description }),
  };
  const name = tracing.spanNames === 'semconv' ? `invoke_agent ${input.agentName}` : 'agent.turn';
  const traced = startChildSpan(tracing, name, { key: null, attributes }, parent);
  turnSpans.set(traced.span, { agentName: input.agentName, parent: trace.getSpanContext(parent) });
  if (tracing.captureContent && traced.span.isRecording()) {
    traced.span.setAttributes({
      [attribute.inputMessages]: messagesJson(tracing, input.messages),
      [attribute.inputValue]: lastText(tracing, input.messages),
    });
  }
  return traced;
}

/** Writes how the turn went. Status and end of the span are the caller's. */
export function finishTurnSpan(tracing: TurnTracing, span: Span, result: TurnSpanResult): void {
  if (!span.isRecording()) return;
  span.setAttributes({
    [attribute.outcome]: result.outcome,
    [attribute.iterations]: result.iterations,
    [attribute.toolCalls]: result.toolCalls,
    ...usageTotals(result.usage),
  });
  if (tracing.captureContent) {
    span.setAttributes({
      [attribute.outputMessages]: messagesJson(tracing, result.messages),
      [attribute.outputValue]: lastText(tracing, result.messages),
    });
  }
}

/** The text that readers of OpenInference show of a span. */
function lastText(tracing: TurnTracing, messages: readonly Message[]): string {
  const last = messages.at(-1);
  return last === undefined ? '' : contentText(tracing, textOf(last.content));
}

/** The same for the state after the last record, with the failure of a turn that failed. The end of the span is the caller's. */
export function finishTurnSpanAt(tracing: TurnTracing, span: Span, state: LoopState): void {
  if (!span.isRecording()) return;
  const { status, ...result } = resultOf(state);
  finishTurnSpan(tracing, span, { outcome: status, ...result });
  if (status === 'canceled') cancelSpan(span);
  const { error } = state;
  if (error) failSpan(span, new AgentLoopError(error.code, error.message));
}

interface ExecuteSpanInput {
  /** Absent where it is not known. */
  readonly maxIterations: number | undefined;
  readonly resumed: boolean;
  /** What the turn was asked; exported only with content capture. */
  readonly asked?: () => readonly Message[];
  /** Links to the previous run of a resumed turn. */
  readonly links?: readonly Link[];
}

interface ExecuteSpanResult {
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
  const traced = startChildSpan(tracing, 'agent.execute', options, withoutAttempts(parent));
  if (tracing.captureContent && input.asked && traced.span.isRecording()) {
    traced.span.setAttribute(attribute.inputValue, lastText(tracing, input.asked()));
  }
  return traced;
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

interface SegmentSpanInput {
  readonly agentName: string;
  /** The agent that ran the turn before. */
  readonly from: string;
  /** Why the agent changed. */
  readonly reason: string | undefined;
}

/** Starts `agent.segment`: the part of a turn that one agent of several runs. Status and end of the span are the caller's. */
export function startSegmentSpan(
  tracing: TurnTracing,
  { agentName, from, reason }: SegmentSpanInput,
  parent: Context,
): TracedSpan {
  const name = tracing.spanNames === 'semconv' ? `invoke_agent ${agentName}` : 'agent.segment';
  const attributes = {
    [attribute.spanKind]: 'AGENT',
    [attribute.operationName]: 'invoke_agent',
    [attribute.agentName]: agentName,
    [attribute.changedFrom]: from,
    ...(reason !== undefined && { [attribute.changeReason]: reason }),
  };
  return startChildSpan(tracing, name, { key: 'segment', attributes }, parent);
}

/** Starts `iteration[n]`, n from 1: one model call and the tools it asked for. */
export function startLoopIterationSpan(tracing: TurnTracing, iteration: number, parent: Context): TracedSpan {
  if (tracing.isSilent) return silentSpanBelow(parent);
  const attributes = { [attribute.spanKind]: 'CHAIN', [attribute.iteration]: iteration };
  return startChildSpan(tracing, `iteration[${iteration}]`, { attributes }, parent);
}

/**
 * A turn's sum of tokens, under our own names: with `gen_ai.usage.*` on spans above the model calls, backends count the
 * cost of each call again.
 */
function usageTotals(usage: Usage): Attributes {
  const attributes: Attributes = {
    [attribute.totalInputTokens]: usage.promptTokens,
    [attribute.totalOutputTokens]: usage.completionTokens,
    [attribute.totalTokens]: usage.totalTokens,
  };
  if (usage.cachedTokens !== undefined) attributes[attribute.totalCachedTokens] = usage.cachedTokens;
  if (usage.reasoningTokens !== undefined) attributes[attribute.totalReasoningTokens] = usage.reasoningTokens;
  if (usage.cost !== undefined) attributes[attribute.costUsd] = usage.cost;
  if (usage.estimated === true) attributes[attribute.usageEstimated] = true;
  return attributes;
}
