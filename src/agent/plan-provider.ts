import { AgentLoopError, messageOf } from '../core/errors.ts';
import { type AssistantMessage, type Message, type ToolCall, textOf } from '../core/messages.ts';
import type { LLMProvider, LLMResponse } from '../providers/interfaces.ts';
import type { Agent } from './agent.ts';
import { agentToolName } from './agent-tools.ts';
import type { Plan, PlanProgress, PlanStep, RoutingRequest } from './routing.ts';

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
      const step = nextOf(plan, { ...request(text), rounds });
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

/** Errors: `EXTENSION_FAILED`, since it is no failure of a model, which others could mend; what carries a code passes as it is. */
function nextOf(plan: Plan, progress: PlanProgress): PlanStep {
  try {
    const step: unknown = plan.next(progress);
    if (isStep(step)) return step;
    throw new Error(
      'next must return { ask: [{ agentId, message }, …] }, not empty, or { answer: "…" }, without a promise',
    );
  } catch (error) {
    if (AgentLoopError.isInstance(error)) throw error;
    throw new AgentLoopError('EXTENSION_FAILED', `The plan of the team failed: ${messageOf(error)}`, { cause: error });
  }
}

function isStep(step: unknown): step is PlanStep {
  if (typeof step !== 'object' || step === null) return false;
  if ('answer' in step) return typeof step.answer === 'string';
  return 'ask' in step && Array.isArray(step.ask) && step.ask.length > 0 && step.ask.every(isAssignment);
}

function isAssignment(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || !('agentId' in value) || !('message' in value)) return false;
  return typeof value.agentId === 'string' && typeof value.message === 'string';
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
