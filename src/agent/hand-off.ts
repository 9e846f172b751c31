import type { Extension, ToolCallOutcome, ToolOutcomeChange, ToolProvider } from '../core/contracts/index.ts';
import { engineTool } from '../tools/engine-tools.ts';
import { LocalToolProvider } from '../tools/local-tools.ts';
import { type Tool, tool } from '../tools/tool.ts';
import type { Agent } from './agent.ts';

const handOffName = 'hand_off';

/**
 * A tool with which an agent hands the turn to another: that one has it from the next model call on, with the same history. `others` are
 * those that a turn can be handed to, when the tool is listed.
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

/** Sequential: of two calls in one response, the second sees that the first was accepted. */
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
        // It was of the team when the tool was listed.
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
  const to = textOf(args, 'agentId') ?? '';
  const note = textOf(args, 'note') ?? '';
  return { agent: { to, reason: 'hand_off', callId, ...(note !== '' && { note }) } };
}

function textOf(args: unknown, name: string): string | undefined {
  const value: unknown = typeof args === 'object' && args !== null ? Reflect.get(args, name) : undefined;
  return typeof value === 'string' ? value : undefined;
}

function lineOf({ id, options }: Agent): string {
  return `${id}: ${options.description ?? 'no description'};`;
}
