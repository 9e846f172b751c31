import type { Extension } from '../core/extension.ts';
import { engineTool } from '../tools/engine-tools.ts';
import type { ToolProvider } from '../tools/interfaces.ts';
import { LocalToolProvider } from '../tools/local-tools.ts';
import { tool } from '../tools/tool.ts';
import type { Agent } from './agent.ts';
import { withAgents } from './agents-below.ts';
import { runSubAgent } from './sub-agent.ts';

export const handOffName = 'hand_off';

export interface HandOffOptions {
  /** Those that a conversation can be handed to, when the tool is listed. */
  readonly others: () => readonly Agent[];
  /** The agent as it answers in this context. */
  readonly inContext: (agentId: string, contextId: string) => Agent;
  /** Whether the process goes on with it in this one. */
  readonly durable: boolean;
}

/**
 * A tool with which an agent hands the conversation to another: that one's turn is below the call, and its answer ends the turn as the
 * last message of the assistant.
 */
export function handOff({ others, inContext, durable }: HandOffOptions): Extension {
  const handOffTool = () =>
    engineTool(
      tool({
        name: handOffName,
        description: `Hands the conversation to another agent, which answers in your place. ${others().map(lineOf).join(' ')}`,
        parameters: {
          type: 'object',
          properties: {
            agentId: { type: 'string', enum: others().map(({ id }) => id), description: 'Who takes over.' },
            message: { type: 'string', description: 'What that agent has to know and do.' },
          },
          required: ['agentId', 'message'],
        },
        timeoutMs: 0,
        ...(durable ? { idempotent: true, onInDoubt: 'retry' as const } : {}),
        async execute({ agentId, message }, context) {
          const { text } = await runSubAgent(inContext(String(agentId), context.contextId), String(message), context);
          return text;
        },
      }),
    );
  const provider: ToolProvider = {
    name: 'hand-off',
    // An enumeration of nobody is refused by some vendors.
    getTools: () => new LocalToolProvider(others().length === 0 ? [] : [handOffTool()]).getTools(),
    executeTool: (call, context) => new LocalToolProvider([handOffTool()]).executeTool(call, context),
  };
  withAgents(provider, ({ toolName, arguments: args, contextId }) => {
    const taker = toolName === handOffName ? others().find(({ id }) => id === takerOf(args)) : undefined;
    return taker && inContext(taker.id, contextId);
  });
  return {
    name: 'hand-off',
    toolProviders: [provider],
    afterToolCall({ call, result }) {
      if (call.function.name !== handOffName || !result.success || typeof result.content !== 'string') return undefined;
      const { content } = result;
      return { messages: [{ role: 'assistant', content }], finish: { text: content, reason: 'handed_off' } };
    },
  };
}

/** The id of the agent that a call hands the conversation to. */
export function takerOf(args: unknown): string | undefined {
  const id = typeof args === 'object' && args !== null && 'agentId' in args ? args.agentId : undefined;
  return typeof id === 'string' ? id : undefined;
}

function lineOf({ id, options }: Agent): string {
  return `${id}: ${options.description ?? 'no description'};`;
}
