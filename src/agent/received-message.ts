import type { AgentEvent } from '../core/contracts/index.ts';
import { type LoopState, resultOf } from '../core/journal/index.ts';
import type { MessageReceivedEvent } from './agent-events.ts';

/** What the agent tells in front of the last event of a turn that completed. */
export function receivedMessage(event: AgentEvent, state: LoopState | undefined): MessageReceivedEvent | undefined {
  if (event.kind !== 'status-update' || !event.final || event.status.state !== 'completed' || !state) return undefined;
  const { message = { role: 'assistant' as const, content: '' }, text, taskId, contextId, agentId } = resultOf(state);
  return { kind: 'message:received', agentId, taskId, contextId, message, text };
}
