import type { AgentChoice, TurnRecord } from '../journal/records.ts';
import type { LoopState } from '../journal/state.ts';
import { failed } from '../model-call/response.ts';
import type { RunDeps } from '../turn/turn-deps.ts';

/**
 * The record by which the agent that was chosen takes the turn over, to be written in one append with what closed the iteration:
 * `agent.changed`, or the end of a turn that was handed over more than `maxHandOffs` times. Nothing where no agent was chosen, as long as
 * calls are open, and before `afterIteration` of the agent that leaves was asked: the choice is recorded, and what follows from it is not lost.
 */
export function agentChange(deps: Pick<RunDeps, 'config' | 'hooks'>, state: LoopState): TurnRecord | undefined {
  const agent = state.changes.agent ?? named(state);
  if (agent === undefined || state.outcome || state.phase === 'tools' || state.phase === 'llm') return undefined;
  if (isIterationOpen(deps, state)) return undefined;
  const { maxHandOffs } = deps.config;
  if (agent.reason === 'hand_off' && state.stint.handOffs >= maxHandOffs) {
    const message = `The turn was handed over more than ${maxHandOffs} times (maxHandOffs); agent "${state.agentId}" had it last.`;
    return failed('LIMIT', message, { reason: 'max_hand_offs', details: { maxHandOffs, agentId: state.agentId } });
  }
  return { type: 'agent.changed', from: state.agentId, ...agent };
}

/** The agent that the caller named takes the turn over once the extensions were asked `beforeTurn`. */
function named({ turn, agentChanges }: LoopState): AgentChoice | undefined {
  const { agentId } = turn.settings;
  return agentId === undefined || agentChanges > 0 ? undefined : { to: agentId, reason: 'named' };
}

/** Whether `afterIteration` still has to be asked about the last iteration of the agent that runs the turn. */
export function isIterationOpen({ hooks }: Pick<RunDeps, 'hooks'>, state: LoopState): boolean {
  return state.iteration > state.stint.after && hooks.isDue('afterIteration', state);
}
