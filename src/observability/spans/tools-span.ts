import type { Context, SpanOptions } from '@opentelemetry/api';
import { attribute } from '../attributes.ts';
import { startChildSpan, type TracedSpan, type TurnTracing } from './tracing-options.ts';

const options: SpanOptions = { attributes: { [attribute.spanKind]: 'CHAIN' } };

/** Starts `tools.execute`: the whole batch of one iteration. */
export function startToolsSpan(tracing: TurnTracing, parent: Context): TracedSpan {
  return startChildSpan(tracing, 'tools.execute', options, parent);
}
