import {
  AgentLoopError,
  type AssistantMessage,
  type Extension,
  type LLMProvider,
  type LLMResponse,
  type Message,
  messageOf,
  partsText,
  shownValue,
  type ToolProvider,
  textOf,
} from '../core/contracts/index.ts';
import type { Agent } from './agent.ts';
import { agentToolName, agentTools } from './agent-tools.ts';
import { limited, type RoutingLimit } from './ask-routing.ts';
import type { Answered, Join, Parallel, Sequence } from './routing.ts';
import { childTaskId } from './sub-agent.ts';

const sequenceName = 'sequence';

/** Gives the turn to the next agent of a sequence where one of them would end it. */
export function takeTurns({ sequence }: Sequence): Extension {
  return {
    name: sequenceName,
    beforeFinish({ data }) {
      const place = typeof data === 'number' ? data : 0;
      const to = sequence[place + 1];
      // Some models continue an answer that is the last message in place of giving their own.
      return to === undefined ? undefined : { agent: { to, reason: 'sequence', note: yourTurn }, data: place + 1 };
    },
  };
}

const yourTurn = 'That was my answer. Now it is your turn to answer the user.';

/** Gives the turn to the joiner once all agents have answered. */
export function joinBy(teamId: string, joiner: string): Extension {
  return {
    name: 'joiner',
    afterIteration: ({ agentId, finished }) =>
      agentId === teamId && !finished ? { agent: { to: joiner, reason: 'sequence' } } : undefined,
  };
}

/**
 * In the place of a model: it calls the agents, and joins what they answered. It remembers nothing: what comes next depends on the last message,
 * so that a resumed turn continues where it was.
 */
export function parallelModel(
  { parallel, join }: Parallel,
  agentOf: (id: string) => Agent,
  limit: RoutingLimit,
): LLMProvider {
  const ask = (): LLMResponse => {
    const toolCalls = parallel.map((id) => ({
      id: '',
      type: 'function' as const,
      function: { name: agentToolName(agentOf(id)), arguments: '{"message":""}' },
    }));
    return { message: { role: 'assistant', content: null, toolCalls }, finishReason: 'tool_calls' };
  };
  return {
    async call({ messages, signal }): Promise<LLMResponse> {
      const texts = answersOf(messages);
      if (!texts) return ask();
      const answers = parallel.map((agentId, index) => ({ agentId, text: texts[index] ?? '' }));
      const content = await joined(join, answers, { signal, limit });
      return { message: { role: 'assistant', content }, finishReason: 'stop' };
    },
  };
}

/** Errors: `EXTENSION_FAILED` with the cause; what carries a code as it is. */
async function joined(
  join: Join,
  answers: readonly Answered[],
  within: { readonly signal: AbortSignal | undefined; readonly limit: RoutingLimit },
): Promise<string> {
  try {
    const text: unknown = await limited('join of inParallel', (signal) => join(answers, { signal }), within);
    if (typeof text === 'string') return text;
    throw new TypeError(`it must return a string, not ${shownValue(text)}`);
  } catch (cause) {
    if (AgentLoopError.isInstance(cause)) throw cause;
    throw new AgentLoopError('EXTENSION_FAILED', `join of inParallel failed: ${messageOf(cause)}`, { cause });
  }
}

/** The results of the last batch, in call order; `undefined` where something was said after it. */
function answersOf(messages: readonly Message[]): readonly string[] | undefined {
  if (messages.at(-1)?.role !== 'tool') return undefined;
  const isCaller = (message: Message): message is AssistantMessage => message.role === 'assistant';
  const { toolCalls = [] } = messages.findLast(isCaller) ?? {};
  return toolCalls.map(({ id }) =>
    textOf(messages.findLast((message) => message.role === 'tool' && message.toolCallId === id)?.content),
  );
}

/** The conversation without instructions, which are those of the agent that calls. */
export function conversationOnly(messages: readonly Message[]): readonly Message[] {
  return messages.filter(({ role }) => role !== 'system' && role !== 'developer');
}

/** Agents as tools that see the conversation; the text of each is shown as an artifact of the turn that calls, too. */
export function parallelTools(agents: readonly Agent[]): ToolProvider {
  const tools = agentTools(agents, { pass: (messages) => conversationOnly(messages) });
  return {
    name: 'inParallel',
    getTools: (context) => tools.getTools(context),
    async executeTool(call, context) {
      const child = agents.find((each) => agentToolName(each) === call.function.name);
      const taskId = childTaskId(context.idempotencyKey);
      const artifactId = `answer-${context.callId.replace(':', '.')}`;
      const reading = child?.events$.subscribe((event) => {
        if (event.kind !== 'artifact-update' || event.taskId !== taskId) return;
        const text = partsText(event.artifact.parts);
        const { append, lastChunk } = event;
        context.progress({ type: 'artifact-chunk', artifactId, name: child.id, text, append, lastChunk });
      });
      try {
        return await tools.executeTool(call, context);
      } finally {
        reading?.unsubscribe();
      }
    },
  };
}
