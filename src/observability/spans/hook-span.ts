import type { Context } from '@opentelemetry/api';
import { attribute } from '../attributes.ts';
import { startChildSpan, type TracedSpan, type TurnTracing } from './tracing-options.ts';

export interface HookSpanInput {
  readonly extension: string;
  readonly hook: string;
  readonly iteration: number;
}

/** Starts `hook[extension.hook]`: one question to one extension that takes time or makes calls of its own. */
export function startHookSpan(tracing: TurnTracing, input: HookSpanInput, parent: Context): TracedSpan {
  const { extension, hook, iteration } = input;
  const attributes = {
    [attribute.spanKind]: 'CHAIN',
    [attribute.extension]: extension,
    [attribute.hook]: hook,
    [attribute.iteration]: iteration,
  };
  return startChildSpan(tracing, `hook[${extension}.${hook}]`, { attributes }, parent);
}
