import type { Context, Span } from '@opentelemetry/api';
import type { Content, ToolCall } from '../../core/contracts/index.ts';
import { attribute } from '../attributes.ts';
import { contentJson, contentText } from './content.ts';
import {
  isSilent,
  markFailed,
  silentSpanBelow,
  startChildSpan,
  type TracedSpan,
  type TurnTracing,
} from './tracing-options.ts';

export interface ToolSpanCall {
  /** Our id of the call, `<iteration>:<index>`. */
  readonly callId: string;
  readonly call: ToolCall;
  /** Its arguments, as the tool gets them, are exported only with content capture. `attempt`: which start of the call it is, from 1. */
  readonly intent: { readonly attempt: number; readonly arguments: unknown };
}

export interface ToolSpanResult {
  /** Exported only with content capture. */
  readonly content: Content;
  readonly success: boolean;
  readonly error?: { readonly code: string; readonly message: string };
}

/** What the span of a start of a call is called below that of its batch. */
export function toolKey({
  callId,
  intent,
}: {
  readonly callId: string;
  readonly intent: Pick<ToolSpanCall['intent'], 'attempt'>;
}): string {
  return `tool ${callId} ${intent.attempt}`;
}

/** Starts `tool[name]`: one tool call. */
export function startToolSpan(tracing: TurnTracing, call: ToolSpanCall, parent: Context): TracedSpan {
  if (isSilent(tracing)) return silentSpanBelow(parent);
  const { name } = call.call.function;
  const attributes = {
    [attribute.spanKind]: 'TOOL',
    [attribute.operationName]: 'execute_tool',
    [attribute.toolName]: name,
    [attribute.toolCallId]: call.call.id,
    [attribute.toolType]: call.call.type,
    [attribute.callId]: call.callId,
  };
  const spanName = tracing.spanNames === 'semconv' ? `execute_tool ${name}` : `tool[${name}]`;
  const traced = startChildSpan(tracing, spanName, { key: toolKey(call), attributes }, parent);
  if (tracing.captureContent && traced.span.isRecording()) {
    traced.span.setAttribute(attribute.toolCallArguments, contentJson(tracing, call.intent.arguments));
  }
  return traced;
}

/**
 * Writes how the call went. A failed call has status ERROR, `error.type` and a recorded exception: what the tool threw, where it failed
 * by that.
 */
export function finishToolSpan(tracing: TurnTracing, span: Span, result: ToolSpanResult, thrown?: unknown): void {
  if (!span.isRecording()) return;
  if (!result.success) {
    const { code, message } = result.error ?? { code: 'TOOL_FAILED', message: 'the tool reports a failure' };
    markFailed(span, { type: code, message, thrown });
  }
  if (tracing.captureContent) {
    const { content } = result;
    const text = typeof content === 'string' ? contentText(tracing, content) : contentJson(tracing, content);
    span.setAttribute(attribute.toolCallResult, text);
  }
}
