import { type Extension, type HookContext, type IterationView, type Message, textOf } from '../core/contracts/index.ts';

/**
 * Changes what an agent is sent of the messages before it had the turn, those of earlier turns included; the history keeps all of them. `from`
 * is the agent that had the turn before, or the team at the start of a turn.
 */
export type TeamView = (
  messages: readonly Message[],
  change: { readonly from: string; readonly to: string },
) => readonly Message[];

/** A view without tool calls and their results: what was said stays. */
export function withoutCalls(messages: readonly Message[]): readonly Message[] {
  return messages.flatMap((message) => {
    if (message.role === 'tool') return [];
    if (message.role !== 'assistant' || !message.toolCalls) return [message];
    const { toolCalls: _, ...said } = message;
    return textOf(said.content) === '' ? [] : [said];
  });
}

/** Applies a view of a team to what its agents are sent. */
export function teamView(view: TeamView): Extension {
  return {
    name: 'team-view',
    prepareIteration(shown, context) {
      const { from } = context.state.stint;
      const start = ownFrom(shown, context);
      const before = view(shown.messages.slice(0, start), { from, to: context.agentId });
      if (!Array.isArray(before)) throw new TypeError('view of the team must return an array of messages');
      return { view: { messages: [...before, ...shown.messages.slice(start)] } };
    },
  };
}

/** Where the agent's own part of a view begins; other extensions may have shortened what is before it. */
function ownFrom({ messages }: IterationView, { state }: HookContext): number {
  const own = new Set(state.messages.slice(state.stint.messages));
  const start = messages.findIndex((message) => own.has(message));
  return start < 0 ? messages.length : start;
}
