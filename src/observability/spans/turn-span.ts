import { type Attributes, type Context, type Span, type SpanContext, trace } from '@opentelemetry/api';
import { AgentLoopError, type Message, type Usage } from '../../core/contracts/index.ts';
import { type LoopState, resultOf } from '../../core/journal/index.ts';
import { attribute } from '../attributes.ts';
import { messagesJson } from './content.ts';
import { cancelSpan, failSpan, startChildSpan, type TracedSpan, type TurnTracing } from './tracing-options.ts';
import { usageTotals } from './usage-totals.ts';

export interface TurnSpanInput {
  readonly agentName: string;
  /** What this turn was asked, without the conversation before it; exported only with content capture. */
  readonly messages: readonly Message[];
}

export interface TurnSpanResult {
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
export interface TurnSpanNote {
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
  };
  const name = tracing.spanNames === 'semconv' ? `invoke_agent ${input.agentName}` : 'agent.turn';
  const traced = startChildSpan(tracing, name, { key: null, attributes }, parent);
  turnSpans.set(traced.span, { agentName: input.agentName, parent: trace.getSpanContext(parent) });
  if (tracing.captureContent && traced.span.isRecording()) {
    traced.span.setAttribute(attribute.inputMessages, messagesJson(tracing, input.messages));
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
  if (tracing.captureContent) span.setAttribute(attribute.outputMessages, messagesJson(tracing, result.messages));
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
