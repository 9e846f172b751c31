import {
  type Attributes,
  type Context,
  INVALID_SPAN_CONTEXT,
  isSpanContextValid,
  type Link,
  type Span,
  type SpanContext,
  TraceFlags,
  trace,
} from '@opentelemetry/api';
import { AgentLoopError, type LLMProviderInfo, type Message, textOf, type Usage } from '../../core/contracts/index.ts';
import { type LoopState, type ParentLink, resultOf, type TraceLink } from '../../core/journal/index.ts';
import { attribute } from '../attributes.ts';
import { withoutAttempts } from './call-spans.ts';
import { choosesIds, randomSpanId } from './chosen-ids.ts';
import { contentText, messagesJson, outputMessagesJson } from './content.ts';
import {
  cancelSpan,
  failSpan,
  silentSpanBelow,
  startChildSpan,
  type TracedSpan,
  type TurnTracing,
} from './tracing-options.ts';

/** The attribute is required on `invoke_agent`. */
const unknownProvider = '_OTHER';

interface TurnSpanInput {
  readonly agentName: string;
  readonly description?: string | undefined;
  /** The provider of the agent's model, if known. */
  readonly provider?: LLMProviderInfo | undefined;
  /** The input of this turn, without the conversation before it; exported only with content capture. */
  readonly messages: readonly Message[];
}

interface TurnSpanResult {
  /** The turn's state at its end: `completed`, `failed`, `canceled`, `input-required`, … */
  readonly outcome: string;
  readonly iterations: number;
  readonly toolCalls: number;
  /** The sum over the turn's model calls. */
  readonly usage: Usage;
  /** The messages that this turn added; exported only with content capture. */
  readonly messages: readonly Message[];
}

/** The data of an `agent.turn` span for the journal. */
interface TurnSpanNote {
  readonly agentName: string;
  readonly parent: SpanContext | undefined;
}

const turnSpans = new WeakMap<Span, TurnSpanNote>();

/** The data of the context's span, if it is an `agent.turn`. */
export function turnSpanOf(context: Context): TurnSpanNote | undefined {
  const span = trace.getSpan(context);
  return span && turnSpans.get(span);
}

/** Starts `agent.turn`: one turn of a conversation, from the view of an agent's caller. */
export function startTurnSpan(tracing: TurnTracing, input: TurnSpanInput, parent: Context): TracedSpan {
  const attributes: Attributes = {
    [attribute.spanKind]: 'AGENT',
    [attribute.operationName]: 'invoke_agent',
    [attribute.agentName]: input.agentName,
    [attribute.providerName]: input.provider?.providerName ?? unknownProvider,
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

/** Records the outcome of the turn. The caller sets the status and ends the span. */
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
      [attribute.outputMessages]: outputMessagesJson(tracing, result.messages),
      [attribute.outputValue]: lastText(tracing, result.messages),
    });
  }
}

/** The text that viewers of OpenInference display. */
function lastText(tracing: TurnTracing, messages: readonly Message[]): string {
  const last = messages.at(-1);
  return last === undefined ? '' : contentText(tracing, textOf(last.content));
}

/** The same for the state after the last record, with the error of a failed turn. The caller ends the span. */
export function finishTurnSpanAt(tracing: TurnTracing, span: Span, state: LoopState): void {
  if (!span.isRecording()) return;
  const { status, ...result } = resultOf(state);
  const { contextId } = state.turn;
  // The caller of a resume or a retry need not know the context; the journal does.
  span.setAttributes({ [attribute.conversationId]: contextId, [attribute.sessionId]: contextId });
  finishTurnSpan(tracing, span, { outcome: status, ...result });
  if (status === 'canceled') cancelSpan(span);
  const { error } = state;
  if (error) failSpan(span, new AgentLoopError(error.code, error.message));
}

interface ExecuteSpanInput {
  /** Absent if unknown. */
  readonly maxIterations: number | undefined;
  readonly resumed: boolean;
  /** The input of the turn; exported only with content capture. */
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

/** `agent.execute` of a run that has not started. */
export interface PlannedSpan {
  readonly spanContext: SpanContext;
  start(): TracedSpan;
  /** For a run that never starts. */
  drop(): void;
}

/**
 * Chooses the ids of `agent.execute` for the record that starts a run: only the store's answer decides whether the run happens. The span is started at
 * once if its ids cannot be chosen, or if it is the root of its trace: only a sampler decides then whether it is recorded.
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

/** Starts `agent.execute`: one run of a turn in one process. `spanId`: the planned one. */
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

/** Records that the run was released to another process, which is not a failure of the turn. */
export function leaveExecuteSpan(span: Span): void {
  span.setAttribute(attribute.outcome, 'shutdown');
}

/** Records the outcome of the run. The caller sets the status and ends the span. */
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

/** The same for the state after the last record of a run, with the error of a failed turn. Records nothing if the turn has no outcome. */
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
  /** The previous agent. */
  readonly from: string;
  /** Why the agent changed. */
  readonly reason: string | undefined;
  /** The provider of the agent's model, if known. */
  readonly provider?: LLMProviderInfo | undefined;
}

/** Starts `agent.segment`: the part of a turn that one of several agents runs. The caller sets the status and ends the span. */
export function startSegmentSpan(
  tracing: TurnTracing,
  { agentName, from, reason, provider }: SegmentSpanInput,
  parent: Context,
): TracedSpan {
  const name = tracing.spanNames === 'semconv' ? `invoke_agent ${agentName}` : 'agent.segment';
  const attributes = {
    [attribute.spanKind]: 'AGENT',
    [attribute.operationName]: 'invoke_agent',
    [attribute.agentName]: agentName,
    [attribute.providerName]: provider?.providerName ?? unknownProvider,
    [attribute.changedFrom]: from,
    ...(reason !== undefined && { [attribute.changeReason]: reason }),
  };
  return startChildSpan(tracing, name, { key: 'segment', attributes }, parent);
}

/** Starts `iteration[n]`, n from 1: one model call and the tools it requested. */
export function startLoopIterationSpan(tracing: TurnTracing, iteration: number, parent: Context): TracedSpan {
  if (tracing.isSilent) return silentSpanBelow(parent);
  const attributes = { [attribute.spanKind]: 'CHAIN', [attribute.iteration]: iteration };
  return startChildSpan(tracing, `iteration[${iteration}]`, { attributes }, parent);
}

/**
 * A turn's sum of tokens, under the engine's own names: with `gen_ai.usage.*` on spans above the model calls, backends would count the
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

/** A run: the context from which it starts, and the call that it is for. */
interface LinkOrigin {
  readonly caller: { readonly parentContext: Context };
  /** For a child turn. */
  readonly parent?: { readonly link: Pick<ParentLink, 'callId'> } | undefined;
}

/** The reference to a run's span, for the journal. */
export function linkOf(context: SpanContext, origin: LinkOrigin): TraceLink | undefined {
  if (!trace.isSpanContextValid(context)) return undefined;
  const { traceId, spanId, traceFlags } = context;
  const { parentContext } = origin.caller;
  const above = trace.getSpanContext(parentContext);
  const agentTurn = turnSpanOf(parentContext);
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
function lastingId(context: SpanContext | undefined, { parent }: LinkOrigin): string | undefined {
  if (!context || !trace.isSpanContextValid(context)) return undefined;
  return context.isRemote || (parent && ofCall.test(parent.link.callId)) ? context.spanId : undefined;
}

/** Links a run's span to that of the previous run. */
export function linksTo(link: TraceLink | undefined): readonly Link[] {
  if (!link || link.sampled === false) return [];
  const { traceId, spanId } = link;
  return [{ context: { traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true } }];
}
