import type { Context } from '@opentelemetry/api';
import { attribute } from '../attributes.ts';
import { isSilent, silentSpanBelow, startChildSpan, type TracedSpan, type TurnTracing } from './tracing-options.ts';

/** Starts `iteration[n]`, n from 1: one model call and the tools it asked for. */
export function startLoopIterationSpan(tracing: TurnTracing, iteration: number, parent: Context): TracedSpan {
  if (isSilent(tracing)) return silentSpanBelow(parent);
  const attributes = { [attribute.spanKind]: 'CHAIN', [attribute.iteration]: iteration };
  return startChildSpan(tracing, `iteration[${iteration}]`, { attributes }, parent);
}
