import {
  type Extension,
  invalidConfig,
  type Message,
  type ToolContext,
  type ToolProvider,
  type UserMessage,
} from '../core/contracts/index.ts';
import { parentTurnOf } from '../core/ownership/index.ts';
import { assertKnownOptions } from '../stores/check-arguments.ts';
import { LocalToolProvider } from '../tools/local-tools.ts';
import { type Tool, tool } from '../tools/tool.ts';
import { Agent } from './agent.ts';
import { cancelOfChildren, withCancelOutside } from './cancel-outside.ts';
import { childTaskId, runSubAgent } from './sub-agent.ts';
import type { TurnInput } from './turn-input.ts';

export interface AgentToolsOptions {
  /** Of a call, in milliseconds. Default 0: a sub-agent has the limits of its own. */
  readonly timeoutMs?: number | undefined;
  /** Added to those of each agent: limits and budgets that they share with the agent that calls them. Default none. */
  readonly extensions?: readonly Extension[] | undefined;
  /**
   * What an agent is given: `'message'` (default), the message of the call alone; `'conversation'`, the messages that the calling model was
   * sent, images included, then that message; or what a function makes of both.
   */
  readonly pass?:
    | 'message'
    | 'conversation'
    | ((messages: readonly Message[], message: UserMessage) => readonly Message[])
    | undefined;
}

/**
 * Agents as tools of another agent, each by its name, with one argument, the `message`. A call is a child turn, with its own journal in the
 * store of the calling turn and a fresh context; its task id is the call's idempotency key. What it answers is the result; its events are
 * shown as `internal:sub-agent`. Its spans are below the call's, a cancel reaches it, its questions become the call's, its usage counts for
 * the calling turn and its limits.
 *
 * Whoever resumes the calling turn continues its child turns. Errors: `INVALID_CONFIG`; `DUPLICATE_TOOL` for two agents of one name.
 */
export function agentTools(agents: readonly Agent[], options: AgentToolsOptions = {}): ToolProvider {
  if (!Array.isArray(agents) || !agents.every((each) => each instanceof Agent)) {
    throw invalidConfig('agentTools needs agents', 'write agentTools([agent({ … }), …])');
  }
  assertKnownOptions('agentTools', options, { timeoutMs: true, extensions: true, pass: true });
  const { pass = 'message' } = options;
  if (typeof pass !== 'function' && pass !== 'message' && pass !== 'conversation')
    throw invalidConfig('agentTools: pass must be "message", "conversation" or a function', 'or leave it out');
  if (options.extensions !== undefined && !Array.isArray(options.extensions))
    throw invalidConfig('agentTools: extensions must be an array', 'write extensions: [shared.extension()]');
  const below = agents.map((each) => withExtensions(each, options.extensions));
  const provider = new LocalToolProvider(
    below.map((each) => agentTool(each, options)),
    { name: 'agentTools' },
  );
  return withCancelOutside(
    provider,
    cancelOfChildren((agentId) => below.find(({ id }) => id === agentId)?.cancelOutside),
  );
}

function withExtensions(agent: Agent, extensions: readonly Extension[] = []): Agent {
  return extensions.length === 0
    ? agent
    : agent.variant({ extensions: [...(agent.options.extensions ?? []), ...extensions] });
}

function agentTool(agent: Agent, { timeoutMs = 0, pass = 'message' }: AgentToolsOptions): Tool {
  const { description = `Asks the agent ${agent.name}.` } = agent.options;
  return tool({
    name: agentToolName(agent),
    description,
    parameters: {
      type: 'object',
      properties: { message: { type: 'string', description: 'What to do, with all that is needed to do it.' } },
      required: ['message'],
    },
    timeoutMs,
    childTurn: ({ idempotencyKey }) => ({ taskId: childTaskId(idempotencyKey), agentId: agent.id }),
    async execute({ message }, context) {
      const { text, value } = await runSubAgent(agent, inputOf(String(message), pass, context), context);
      return value === undefined ? text : value;
    },
  });
}

function inputOf(text: string, pass: NonNullable<AgentToolsOptions['pass']>, context: ToolContext): TurnInput {
  if (pass === 'message') return text;
  const messages = messagesBefore(context);
  const message = { role: 'user' as const, content: text };
  return pass === 'conversation' ? [...messages, message] : pass(messages, message);
}

/** What the calling model was sent, without its answer that makes the call. */
function messagesBefore(context: ToolContext): readonly Message[] {
  const messages = parentTurnOf(context)?.view() ?? [];
  const isCaller = (message: Message) =>
    message.role === 'assistant' && message.toolCalls?.some(({ id }) => id === context.call.id) === true;
  const end = messages.findLastIndex(isCaller);
  return end < 0 ? messages : messages.slice(0, end);
}

/** The name of an agent in the letters that tools may have. */
export function agentToolName({ name }: Pick<Agent, 'name'>): string {
  return name.replaceAll(/[^a-zA-Z0-9_-]+/g, '_').slice(0, 64);
}
