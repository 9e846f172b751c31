import { childTaskId } from '../child-task-id.ts';
import {
  AgentLoopError,
  type AssistantMessage,
  type Extension,
  type LLMProvider,
  type LLMResponse,
  type Message,
  partsText,
  reasonOf,
  shownValue,
  type ToolCallOutcome,
  type ToolOutcomeChange,
  type ToolProvider,
  textOf,
} from '../core/contracts/index.ts';
import { LocalToolProvider } from '../tools/local-tools.ts';
import { engineTool, type Tool, tool } from '../tools/tool.ts';
import type { Agent } from './agent.ts';
import { agentToolName, agentTools } from './agent-tools.ts';
import { type Answered, type Join, limited, type Parallel, type RoutingLimit, type Sequence } from './routing.ts';

const sequenceName = 'sequence';

/** Hands the turn to the next agent of a sequence when one of them would end it. */
export function takeTurns({ sequence }: Sequence): Extension {
  return {
    name: sequenceName,
    beforeFinish({ data }) {
      const place = typeof data === 'number' ? data : 0;
      const to = sequence[place + 1];
      // Some models continue a trailing assistant message instead of answering themselves.
      return to === undefined ? undefined : { agent: { to, reason: 'sequence', note: yourTurn }, data: place + 1 };
    },
  };
}

const yourTurn = 'That was my answer. Now it is your turn to answer the user.';

/** Hands the turn to the joiner once all agents have answered. */
export function joinBy(teamId: string, joiner: string): Extension {
  return {
    name: 'joiner',
    afterIteration: ({ agentId, finished }) =>
      agentId === teamId && !finished ? { agent: { to: joiner, reason: 'sequence' } } : undefined,
  };
}

/**
 * A provider that calls the agents, and merges their answers. It is stateless: the next step depends on the last message,
 * so a resumed turn continues correctly.
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

/** Errors: `EXTENSION_FAILED` with the cause; errors with a code are passed on. */
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
    throw new AgentLoopError('EXTENSION_FAILED', `join of inParallel failed: ${reasonOf(cause)}`, { cause });
  }
}

/** The results of the last batch, in call order; `undefined` if a message follows it. */
function answersOf(messages: readonly Message[]): readonly string[] | undefined {
  if (messages.at(-1)?.role !== 'tool') return undefined;
  const isCaller = (message: Message): message is AssistantMessage => message.role === 'assistant';
  const { toolCalls = [] } = messages.findLast(isCaller) ?? {};
  return toolCalls.map(({ id }) =>
    textOf(messages.findLast((message) => message.role === 'tool' && message.toolCallId === id)?.content),
  );
}

/** The conversation without instructions, which belong to the calling agent. */
export function conversationOnly(messages: readonly Message[]): readonly Message[] {
  return messages.filter(({ role }) => role !== 'system' && role !== 'developer');
}

/** Agents as tools that receive the conversation; the text of each is also emitted as an artifact of the calling turn. */
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

const handOffName = 'hand_off';

/**
 * A tool with which an agent hands the turn to another, which runs it from the next model call on, with the same history. `others` returns
 * the possible agents when the tool is listed.
 */
export function handOff(others: () => readonly Agent[]): Extension {
  const provider: ToolProvider = {
    name: 'hand-off',
    // Some vendors refuse an empty enumeration.
    getTools: () => new LocalToolProvider(others().length === 0 ? [] : [handOffTool(others())]).getTools(),
    executeTool: (call, context) => new LocalToolProvider([handOffTool(others())]).executeTool(call, context),
  };
  return { name: 'hand-off', toolProviders: [provider], afterToolCall: (outcome) => afterHandOff(outcome) };
}

/** Sequential: of two calls in one response, the second finds that the first was accepted. */
function handOffTool(others: readonly Agent[]): Tool {
  return engineTool(
    tool({
      name: handOffName,
      description: `Hands the conversation to another agent, which answers in your place. ${others.map(lineOf).join(' ')}`,
      parameters: {
        type: 'object',
        properties: {
          agentId: { type: 'string', enum: others.map(({ id }) => id), description: 'Who takes over.' },
          note: {
            type: 'string',
            description: 'What that agent needs to know besides the conversation, which it sees.',
          },
        },
        required: ['agentId'],
      },
      sequential: true,
      readOnly: true,
      cache: false,
      onInDoubt: 'retry',
      execute: ({ agentId }) => {
        const ids = others.map(({ id }) => id);
        // It was in the team when the tool was listed.
        if (!ids.some((id) => id === agentId))
          throw new Error(
            `agent "${String(agentId)}" was removed from the team; the others are: ${ids.join(', ') || 'none'}`,
          );
        return `Handed to ${String(agentId)}.`;
      },
    }),
  );
}

function afterHandOff({
  call,
  callId,
  arguments: args,
  result,
  state,
}: ToolCallOutcome): ToolOutcomeChange | undefined {
  if (call.function.name !== handOffName || !result.success) return undefined;
  const { agent } = state.changes;
  if (agent) {
    const content = `The conversation is handed to ${agent.to} already; only the first ${handOffName} of a response counts.`;
    return { result: { content, success: false } };
  }
  const to = argumentOf(args, 'agentId') ?? '';
  const note = argumentOf(args, 'note') ?? '';
  return { agent: { to, reason: 'hand_off', callId, ...(note !== '' && { note }) } };
}

function argumentOf(args: unknown, name: string): string | undefined {
  const value: unknown = typeof args === 'object' && args !== null ? Reflect.get(args, name) : undefined;
  return typeof value === 'string' ? value : undefined;
}

function lineOf({ id, options }: Agent): string {
  return `${id}: ${options.description ?? 'no description'};`;
}
