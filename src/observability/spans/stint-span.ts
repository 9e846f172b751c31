import type { Context } from '@opentelemetry/api';
import { attribute } from '../attributes.ts';
import { startChildSpan, type TracedSpan, type TurnTracing } from './tracing-options.ts';

export interface StintSpanInput {
  readonly agentName: string;
  /** The agent that ran the turn before. */
  readonly from: string;
  /** Why the agent changed. */
  readonly reason: string | undefined;
}

/** Starts `agent.stint`: the part of a turn that one agent of several runs. Status and end of the span are the caller's. */
export function startStintSpan(
  tracing: TurnTracing,
  { agentName, from, reason }: StintSpanInput,
  parent: Context,
): TracedSpan {
  const name = tracing.spanNames === 'semconv' ? `invoke_agent ${agentName}` : 'agent.stint';
  const attributes = {
    [attribute.spanKind]: 'AGENT',
    [attribute.operationName]: 'invoke_agent',
    [attribute.agentName]: agentName,
    [attribute.changedFrom]: from,
    ...(reason !== undefined && { [attribute.changeReason]: reason }),
  };
  return startChildSpan(tracing, name, { key: 'stint', attributes }, parent);
}
