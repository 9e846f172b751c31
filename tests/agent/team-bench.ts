import { type Agent, type TeamOptions, team } from 'millrace';
import type { ScriptedLLM, ScriptedLLMStep } from 'millrace/testing';
import type { AgentSettings, GivenTools } from 'millrace/types';
import { agentBench } from './agent-bench.ts';

export interface Player {
  readonly agent: Agent;
  readonly model: ScriptedLLM;
}

/** Agents of teams, with scripted models on a bench of agents. */
export function teamBench() {
  const on = agentBench();
  return {
    on,
    player(id: string, steps: readonly ScriptedLLMStep[], options: Partial<AgentSettings> & GivenTools = {}): Player {
      const model = on.bench.model(steps);
      return { model, agent: on.agent([], { id, provider: model, contextId: `of-${id}`, ...options }) };
    },
    /** A team in the context `c`. */
    made: (players: readonly Player[], options: Partial<TeamOptions> = {}) =>
      team({ agents: players.map((each) => each.agent), contextId: 'c', ...options }),
  };
}

export const answer = (text: string) => [{ text }];
export const lastOf = ({ model }: Player) => model.calls.at(-1)?.messages;

/** A model that hands the turn over. */
export const handing = (agentId: string, note?: string) => ({
  toolCalls: [{ name: 'hand_off', arguments: { agentId, ...(note !== undefined && { note }) } }],
});
