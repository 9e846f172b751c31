import type { Extension } from '../core/extension.ts';
import { invalidConfig } from '../core/invalid-config.ts';
import { assertKnownOptions } from '../stores/known-options.ts';
import type { ToolProvider } from '../tools/interfaces.ts';
import { LocalToolProvider } from '../tools/local-tools.ts';
import { type Tool, tool } from '../tools/tool.ts';
import { Agent } from './agent.ts';
import { withAgents } from './agents-below.ts';
import { runSubAgent } from './sub-agent.ts';

export interface AgentToolsOptions {
  /** Of a call, in milliseconds. Default 0: a sub-agent has the limits of its own. */
  readonly timeoutMs?: number;
  /** Added to those of each agent: limits and budgets that they share with the agent that calls them. Default none. */
  readonly extensions?: readonly Extension[];
}

/**
 * Agents as tools of another agent, each by its name, with one argument, the `message`. A call is a turn of its own, with its own journal
 * and a fresh context; its task id is the call's idempotency key. What it answers is the result; what it does is shown as
 * `internal:tool-progress`, see `SubAgentUpdate`. Its spans are below the call's, a cancel reaches it, its questions become the call's.
 *
 * A turn that is resumed goes on with the sub-agent's turn where that has a `taskStateStore`; without one the outcome of a call that was
 * cut off is unknown. Errors: `INVALID_CONFIG`; `DUPLICATE_TOOL` for two agents of one name.
 */
export function agentTools(agents: readonly Agent[], options: AgentToolsOptions = {}): ToolProvider {
  if (!Array.isArray(agents) || !agents.every((each) => each instanceof Agent)) {
    throw invalidConfig('agentTools needs agents', 'write agentTools([agent({ … }), …])');
  }
  assertKnownOptions('agentTools', options, { timeoutMs: true, extensions: true });
  if (options.extensions !== undefined && !Array.isArray(options.extensions))
    throw invalidConfig('agentTools: extensions must be an array', 'write extensions: [shared.extension()]');
  const below = agents.map((each) => withExtensions(each, options.extensions));
  const provider = new LocalToolProvider(
    below.map((each) => agentTool(each, options)),
    { name: 'agentTools' },
  );
  return withAgents(provider, ({ toolName }) => below.find((each) => agentToolName(each) === toolName));
}

function withExtensions(agent: Agent, extensions: readonly Extension[] = []): Agent {
  return extensions.length === 0
    ? agent
    : agent.with({ extensions: [...(agent.options.extensions ?? []), ...extensions] });
}

function agentTool(agent: Agent, { timeoutMs = 0 }: AgentToolsOptions): Tool {
  const { description = `Asks the agent ${agent.name}.`, taskStateStore } = agent.options;
  return tool({
    name: agentToolName(agent),
    description,
    parameters: {
      type: 'object',
      properties: { message: { type: 'string', description: 'What to do, with all that is needed to do it.' } },
      required: ['message'],
    },
    timeoutMs,
    ...(taskStateStore ? { idempotent: true, onInDoubt: 'retry' as const } : {}),
    async execute({ message }, context) {
      const { text, value } = await runSubAgent(agent, message, context);
      return value === undefined ? text : value;
    },
  });
}

/** The name of an agent in the letters that tools may have. */
export function agentToolName({ name }: Pick<Agent, 'name'>): string {
  return name.replaceAll(/[^a-zA-Z0-9_-]+/g, '_').slice(0, 64);
}
