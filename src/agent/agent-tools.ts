import { childTaskId } from '../child-task-id.ts';
import {
  AgentLoopError,
  type ErrorCode,
  type Extension,
  invalidConfig,
  isSuspended,
  kindAbove,
  type Message,
  type ToolContext,
  type ToolProvider,
  type UserMessage,
} from '../core/contracts/index.ts';
import { TurnError, type TurnResult } from '../core/journal/index.ts';
import { type ParentTurn, TurnLost } from '../core/ownership/index.ts';
import { assertKnownOptions } from '../options/option-rules.ts';
import { AgentLoop, givenByCaller } from '../tasks/agent-loop.ts';
import { callParentOf, childResult } from '../tasks/child-turn.ts';
import { LocalToolProvider } from '../tools/local-tools.ts';
import { type Tool, tool } from '../tools/tool.ts';
import { Agent } from './agent.ts';
import type { AgentResumeOptions, TurnInput } from './agent-options.ts';
import { cancelOfChildren, withCancelOutside } from './turn-controls.ts';

/** Options of `agentTools`: time limit, shared extensions, and the input of sub-agents. */
export interface AgentToolsOptions {
  /** The time limit of a call, in milliseconds. Default 0: a sub-agent has its own limits. */
  readonly timeoutMs?: number | undefined;
  /** Added to those of each agent: limits and budgets shared with the calling agent. Default none. */
  readonly extensions?: readonly Extension[] | undefined;
  /**
   * The input of an agent: `'message'` (default), only the message of the call; `'conversation'`, the messages of the calling model,
   * including images, then that message; or the result of a function of both.
   */
  readonly pass?:
    | 'message'
    | 'conversation'
    | ((messages: readonly Message[], message: UserMessage) => readonly Message[])
    | undefined;
}

/**
 * Agents as tools of another agent, each under its name, with one argument, the `message`. A call is a child turn, with its own journal in the
 * store of the calling turn and a fresh context; its task id is the call's idempotency key. Its answer is the result of the call; its events are
 * emitted as `internal:sub-agent`. Its spans are below the call's, a cancel reaches it, its questions become the call's, its usage counts for
 * the calling turn and its limits.
 *
 * The process that resumes the calling turn resumes its child turns. Errors: `INVALID_CONFIG`; `DUPLICATE_TOOL` for two agents of one name.
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

/** Failures that no other call of the model changes, and whose cure is the operator's: they fail the calling turn. */
const misconfigured: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['MISSING_PACKAGE', 'INVALID_CONFIG']);

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
      try {
        const { text, value } = await runSubAgent(agent, inputOf(String(message), pass, context), context);
        return value === undefined ? text : value;
      } catch (error) {
        if (error instanceof TurnError && misconfigured.has(error.code)) {
          const failure = { code: error.code, message: `Agent "${agent.id}": ${error.message}` };
          callParentOf(context)?.exceed({ ...failure, fails: true });
        }
        throw error;
      }
    },
  });
}

function inputOf(text: string, pass: NonNullable<AgentToolsOptions['pass']>, context: ToolContext): TurnInput {
  if (pass === 'message') return text;
  const messages = messagesBefore(context);
  const message = { role: 'user' as const, content: text };
  return pass === 'conversation' ? [...messages, message] : pass(messages, message);
}

/** The messages of the calling model, without its answer that makes the call. */
function messagesBefore(context: ToolContext): readonly Message[] {
  const messages = callParentOf(context)?.view() ?? [];
  const isCaller = (message: Message) =>
    message.role === 'assistant' && message.toolCalls?.some(({ id }) => id === context.call.id) === true;
  const end = messages.findLastIndex(isCaller);
  return end < 0 ? messages : messages.slice(0, end);
}

/** The name of an agent in the characters that tool names allow. */
export function agentToolName({ name }: Pick<Agent, 'name'>): string {
  return name.replaceAll(/[^a-zA-Z0-9_-]+/g, '_').slice(0, 64);
}

/**
 * Runs the agent's turn of a tool call, a child turn with a journal in the store of the parent turn and a fresh context; its task id is the
 * call's idempotency key. A repeated call continues the existing turn. The call asks the turn's questions and passes the answers to it.
 */
async function runSubAgent(agent: Agent, input: TurnInput, context: ToolContext): Promise<TurnResult> {
  const parent = callParentOf(context);
  if (!parent) {
    const message = `Agent "${agent.id}" was called as a tool with a copy of the tool context; hand on the context that the tool was given.`;
    throw new AgentLoopError('INVALID_INPUT', message);
  }
  const taskId = childTaskId(context.idempotencyKey);
  const shared = sharedWith(context);
  const { metadata } = context;
  const start = { ...shared, taskId, contextId: taskId, metadata, parent };
  let result = await childResult(parent, () => agent.startTurn(input, start));
  let asked = 0;
  while (isSuspended(result.status)) {
    const [question] = result.questions;
    const prompt =
      question?.prompt ??
      `Agent ${agent.name}: ${question ? `${question.kind} of ${question.toolName}` : result.reason}`;
    const kind = question ? kindAbove(question) : 'input';
    const ask = () => context.ask({ kind, prompt, data: { agentId: agent.id, taskId, ...(question && { question }) } });
    // The child turn has the answers to its earlier questions.
    for (const before = await suspensions(agent, parent, taskId); asked < before - 1; asked++) ask();
    const answer = ask();
    asked++;
    const answers: AgentResumeOptions['answers'] = question ? { [question.id]: answer } : {};
    const resume = (given: AgentResumeOptions) => agent.resume(taskId, { ...shared, ...given, parent });
    try {
      result = await childResult(parent, () => resume({ answers }));
    } catch (error) {
      if (!refusesAnswer(error) || !parent.store) throw error;
      await AgentLoop.cancel(taskId, { store: parent.store, clock: parent.clock, reason: error.cause.message });
      // The turn's usage is counted before the call fails.
      await childResult(parent, () => resume({})).catch(() => undefined);
      throw error.cause;
    }
  }
  return result;
}

/**
 * The journal of the parent turn has an answer that the child turn refuses, for example one of a version that did not validate it. It cannot be
 * changed, so each resume would be lost: the call fails instead, and the model can repeat it.
 */
function refusesAnswer(error: unknown): error is TurnLost & { readonly cause: AgentLoopError } {
  return TurnLost.isInstance(error) && AgentLoopError.isInstance(error.cause) && error.cause.code === 'INVALID_INPUT';
}

function sharedWith(context: ToolContext): AgentResumeOptions {
  return { parentContext: context.traceContext, ...givenByCaller(context) };
}

/** How often the turn has asked and suspended; all but the last time it was answered. A pause before a retried model call is no question. */
async function suspensions(agent: Agent, { store }: ParentTurn, taskId: string): Promise<number> {
  if (store) {
    const records = await store.read(taskId);
    return records.filter((record) => record.type === 'turn.suspended' && isSuspended(record.state)).length;
  }
  const message = `Agent "${agent.id}" waits for an answer, and no store keeps its turn; set the taskStateStore of the calling agent.`;
  throw new AgentLoopError('INVALID_CONFIG', message, { taskId });
}
