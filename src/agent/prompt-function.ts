import type { Extension } from '../core/contracts/index.ts';
import type { TurnIdentity } from '../core/journal/index.ts';
import type { PromptFunction } from './agent-options.ts';

/** Puts what a function gives in front of the instructions of each model call, unless the turn has a system prompt of its own: that is for the agent that runs it first. */
export function promptFunction(prompt: PromptFunction): Extension {
  const asked = new WeakMap<TurnIdentity, Promise<string>>();
  return {
    name: 'system-prompt',
    async prepareIteration({ systemPrompt }, context) {
      const { turn, changes, agentChanges } = context.state;
      const given = agentChanges <= 1 && turn.settings.systemPrompt !== undefined;
      if (given || changes.settings.systemPrompt !== undefined) return undefined;
      const answer = asked.get(turn) ?? Promise.resolve(prompt(context));
      asked.set(turn, answer);
      const own = await answer;
      if (typeof own !== 'string') throw new TypeError('systemPrompt must return a string');
      return { view: { systemPrompt: systemPrompt === undefined ? own : `${own}\n\n${systemPrompt}` } };
    },
  };
}
