import type { Attributes, Context, Link, Span } from '@opentelemetry/api';
import type { Usage } from '../../providers/interfaces.ts';
import { attribute } from '../attributes.ts';
import { withoutAttempts } from './attempt-span.ts';
import { contentText } from './content.ts';
import { startChildSpan, type TracedSpan, type TurnTracing } from './tracing-options.ts';
import { usageTotals } from './usage-totals.ts';

export interface ExecuteSpanInput {
  readonly maxIterations: number;
  readonly resumed: boolean;
  /** To the trace that a resumed turn goes on from. */
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

/** Starts `agent.execute`: one run of a turn in one process. */
export function startExecuteSpan(tracing: TurnTracing, input: ExecuteSpanInput, parent: Context): TracedSpan {
  const attributes: Attributes = {
    [attribute.spanKind]: 'CHAIN',
    [attribute.maxIterations]: input.maxIterations,
    [attribute.resumed]: input.resumed,
  };
  const options = { key: null, attributes, ...(input.links && { links: [...input.links] }) };
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
