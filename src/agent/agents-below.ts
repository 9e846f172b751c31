import { foldRecords } from '../core/apply-record.ts';
import { AgentLoopError } from '../core/errors.ts';
import type { JournalRecord, Stamped, ToolIntent } from '../core/records.ts';
import type { ToolProvider } from '../tools/interfaces.ts';
import type { Agent } from './agent.ts';
import { childTaskId } from './sub-agent.ts';

/** A call of a tool that may be an agent, as it was started. */
export interface StartedCall {
  readonly toolName: string;
  readonly arguments: unknown;
  /** Of the turn that calls. */
  readonly contextId: string;
}

/** The agent whose turn a call is, if it is one. */
export type AgentOfCall = (call: StartedCall) => Agent | undefined;

const agents = new WeakMap<ToolProvider, AgentOfCall>();

/** Marks the provider as one whose tools are agents, for `agentBelow`. */
export function withAgents<T extends ToolProvider>(provider: T, agentOf: AgentOfCall): T {
  agents.set(provider, agentOf);
  return provider;
}

/** The agent whose turn a call of a tool of these providers is, if it is one. */
export function agentBelow(providers: readonly ToolProvider[], call: StartedCall): Agent | undefined {
  for (const provider of providers) {
    const found = agents.get(provider)?.(call);
    if (found) return found;
  }
  return undefined;
}

export interface CancelBelowOptions {
  readonly providers: readonly ToolProvider[];
  readonly reason: string;
}

/** Cancels the turns below one that was cancelled: where nobody ran that one, nothing told them. Errors: as `Agent.cancel`. */
export async function cancelBelow(
  records: readonly JournalRecord[],
  { providers, reason }: CancelBelowOptions,
): Promise<void> {
  const { turn, pendingToolCalls, outcome } = foldRecords(records);
  if (outcome?.state !== 'canceled') return;
  for (const { call, callId, result } of pendingToolCalls) {
    const isStart = (record: JournalRecord): record is Stamped<ToolIntent> =>
      record.type === 'tool.intent' && record.callId === callId;
    const intent = records.findLast(isStart);
    if (!intent || result) continue;
    const started = { toolName: call.function.name, arguments: intent.arguments, contextId: turn.contextId };
    const below = agentBelow(providers, started);
    if (!below?.options.taskStateStore) continue;
    await below.cancel(childTaskId(`${turn.taskId}:${callId}`), reason).catch((error: unknown) => {
      if (!AgentLoopError.isInstance(error) || error.code !== 'NOT_FOUND') throw error;
    });
  }
}
