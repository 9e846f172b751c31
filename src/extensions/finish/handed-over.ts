import type { HookContext, ToolOutcomeChange } from '../../core/contracts/index.ts';

/**
 * The outcome of a call that would end the turn, where a call before it in the same response handed the turn to another agent: the first
 * counts, and the model of the taker reads so. `undefined` where no agent was chosen.
 */
export function handedOver({ state }: HookContext): ToolOutcomeChange | undefined {
  const { agent } = state.changes;
  if (agent === undefined) return undefined;
  const content = `Not taken: the turn is handed to ${agent.to} already, which ends it; the first of such calls counts.`;
  return { result: { content, success: false } };
}
