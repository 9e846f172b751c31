import type { Context } from '@opentelemetry/api';
import { attribute } from '../attributes.ts';
import { leaveToAttempts } from './attempt-span.ts';
import { startChildSpan, type TracedSpan, type TurnTracing } from './tracing-options.ts';

export interface HookSpanInput {
  readonly extension: string;
  readonly hook: string;
  readonly iteration: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Starts `hook[extension.hook]`: one question to one extension that takes time or makes calls of its own, whose spans are below. */
export function startHookSpan(tracing: TurnTracing, input: HookSpanInput, parent: Context): TracedSpan {
  const { extension, hook, iteration, now } = input;
  const attributes = {
    [attribute.spanKind]: 'CHAIN',
    [attribute.extension]: extension,
    [attribute.hook]: hook,
    [attribute.iteration]: iteration,
  };
  const { span, traceContext } = startChildSpan(tracing, `hook[${extension}.${hook}]`, { attributes }, parent);
  return { span, traceContext: leaveToAttempts({ tracing, iteration, now }, traceContext).traceContext };
}
