import { type AssistantMessage, type Message, type ToolCall, textOf } from '../core/messages.ts';
import type { LLMProvider, LLMResponse } from '../providers/interfaces.ts';
import type { Agent } from './agent.ts';
import { agentToolName } from './agent-tools.ts';
import type { Plan, PlanProgress, RoutingRequest } from './routing.ts';

export interface PlanProviderOptions {
  readonly plan: Plan;
  readonly agentOf: (id: string) => Agent;
  readonly request: (text: string) => RoutingRequest;
}

/**
 * A plan in the place of a model: what it wants next are calls of agents, or the answer. It remembers nothing: its progress is what the
 * history holds behind the last message of the user, so that a resumed turn goes on where it was.
 */
export function planProvider({ plan, agentOf, request }: PlanProviderOptions): LLMProvider {
  return {
    async call({ messages }): Promise<LLMResponse> {
      const { text, rounds } = progressOf(messages);
      const step = plan.next({ ...request(text), rounds });
      if ('answer' in step) return { message: { role: 'assistant', content: step.answer }, finishReason: 'stop' };
      const toolCalls = step.ask.map(({ agentId, message }, index): ToolCall => {
        const name = agentToolName(agentOf(agentId));
        const id = `round_${rounds.length + 1}_${index}`;
        return { id, type: 'function', function: { name, arguments: JSON.stringify({ message }) } };
      });
      return { message: { role: 'assistant', content: null, toolCalls }, finishReason: 'tool_calls' };
    },
  };
}

/** The text of the user's last message, and what agents answered behind it. */
function progressOf(messages: readonly Message[]): Pick<PlanProgress, 'text' | 'rounds'> {
  const end = messages.findLastIndex(({ role }) => role === 'user');
  const behind = messages.slice(end + 1);
  const asked = behind.filter((message): message is AssistantMessage => message.role === 'assistant');
  const rounds = asked.map(({ toolCalls = [] }) => toolCalls.map(({ id }) => answerTo(id, behind)));
  return { text: textOf(messages[end]?.content), rounds };
}

function answerTo(callId: string, messages: readonly Message[]): string {
  const result = messages.find((message) => message.role === 'tool' && message.toolCallId === callId);
  return textOf(result?.content);
}
