import {
  type Agent,
  agent,
  agentTools,
  type Clock,
  inParallel,
  inSequence,
  type MessageStore,
  type RoutingStrategy,
  supervisor,
  type TaskStateStore,
  type Team,
  team,
} from 'millrace';
import type { Task } from './order.ts';
import { type OnModelCall, plannedModel } from './planned-model.ts';
import { helpersOf, planOfAgent, rootAgentOf, type TreeTurn, teamId, turnsOf, type Workload } from './tree.ts';
import { type Actor, worldTools } from './world-tools.ts';

export interface TreeActor extends Actor {
  readonly store: TaskStateStore;
  /** Of the conversations of a team. */
  readonly messageStore: MessageStore;
  readonly clock?: Clock;
  /** The remote agent, where this process calls it. */
  readonly remote?: Agent | undefined;
}

export interface TreeAgents {
  /** By id; the team too, where they are one. */
  readonly agents: ReadonlyMap<string, Agent>;
  readonly team?: Team;
}

/** The agents of a workload as one process has them. */
export function treeAgents(workload: Workload, tasks: readonly Task[], actor: TreeActor): TreeAgents {
  const { life, world, pid, running, store: taskStateStore, messageStore, clock, remote } = actor;
  const turns = tasks.flatMap((task) => turnsOf(workload, task)).filter(({ isRelay }) => !isRelay);
  const made = new Map<string, Agent>(remote ? [[remote.id, remote]] : []);
  const make = (id: string): Agent => {
    const known = made.get(id);
    if (known) return known;
    const helpers = helpersOf(workload, id).map(make);
    const turnOf = (seed: number) => turns.find((turn) => turn.seed === seed && speaksIn(turn, id));
    const onCall: OnModelCall = (seed, iteration, heard, request) => {
      const task = turnOf(seed)?.taskId ?? '';
      world.note({ type: 'model', task, agent: id, iteration, ...heard, pid, at: Date.now() });
      running?.beginRequest(task, iteration, request);
    };
    const { root, below } = workload.leases;
    const one = agent({
      id,
      provider: plannedModel(life, onCall, (seed) => turnOf(seed)?.plan ?? planOfAgent(workload, id, seed)),
      toolProviders: [worldTools(actor), ...(helpers.length > 0 ? [agentTools(helpers)] : [])],
      taskStateStore,
      toolConcurrency: 4,
      leaseMs: id === rootAgentOf(workload) ? root : below,
      storeDeadlineMs: workload.storeDeadlineMs,
      contextManagement: null,
      enableTracing: false,
      ...(clock && { clock }),
    });
    made.set(id, one);
    return one;
  };
  const ids = Object.keys(workload.agents);
  const agents = ids.map(make);
  if (!workload.team) return { agents: made };
  const routing = routingOf(workload, ids);
  const all = team({
    agents,
    id: teamId,
    taskStateStore,
    messageStore,
    handOff: workload.team === 'hand-off',
    ...routing,
  });
  return { agents: made.set(teamId, all.asAgent()), team: all };
}

function speaksIn({ agentId, speakers }: TreeTurn, id: string): boolean {
  return speakers ? speakers.includes(id) : agentId === id;
}

function routingOf({ team: kind }: Workload, ids: readonly string[]): { readonly routing?: RoutingStrategy } {
  switch (kind) {
    case 'sequence':
      return { routing: inSequence(ids) };
    case 'parallel':
      return { routing: inParallel(ids) };
    case 'supervisor':
      return { routing: supervisor(ids[0] ?? '') };
    default:
      return {};
  }
}
