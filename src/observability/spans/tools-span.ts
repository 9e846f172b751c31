import type { Context, Span, SpanOptions } from '@opentelemetry/api';
import type { Question } from '../../core/journal/index.ts';
import { attribute } from '../attributes.ts';
import { startChildSpan, type TracedSpan, type TurnTracing } from './tracing-options.ts';

const options: SpanOptions = { attributes: { [attribute.spanKind]: 'CHAIN' } };

/** Starts `tools.execute`: the whole batch of one iteration. */
export function startToolsSpan(tracing: TurnTracing, parent: Context): TracedSpan {
  return startChildSpan(tracing, 'tools.execute', options, parent);
}

/** Writes onto the span of a call, or of its batch, that something is asked: when, by which call, and what kind of answer is needed. */
export function noteQuestion(span: Span, { kind, callId }: Question): void {
  span.addEvent('millrace.tool.asked', { [attribute.questionKind]: kind, [attribute.callId]: callId });
}
