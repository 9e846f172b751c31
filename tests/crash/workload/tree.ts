import { createHash } from 'node:crypto';
import { Scope } from 'millrace/internals';
import { Random, seedOf } from '../random.ts';
import type { Task } from './order.ts';
import { type AgentCall, isAgentCall, type Plan, type PlannedCall, plannedCall, type ToolName, tools } from './plan.ts';

/** What happens to the processes of a round. */
export type Fault =
  /** The first process dies at one moment that it reaches. */
  | 'moment'
  /** Several, one after the other, die at any time. */
  | 'any-time'
  /** A process is stopped, overtaken and continued. */
  | 'pause'
  /** It is stopped when the intent of a child turn is durable, and nothing else. */
  | 'pause-at-intent'
  /** The owner dies with a watcher beside it. */
  | 'watch'
  /** The store is away for longer than `storeDeadlineMs`, from an append of the parent or of a child on. */
  | 'outage-of-root'
  | 'outage-of-child'
  /** The parent's journal is away, the child's is not; nobody takes the parent over. */
  | 'outage-above-alone'
  /** The same; who takes the parent over dies as well. */
  | 'outage-above'
  /** The child's journal is away, the parent's is not. */
  | 'outage-below'
  /** The server of the remote agent dies at one moment that it reaches, or at any time, and another process takes its port. */
  | 'remote-moment'
  | 'remote-any-time'
  /** It is killed, or stopped, and away until another process has the tree, which finds nobody there. */
  | 'remote-away'
  | 'remote-stopped'
  /** The tree is cancelled while it waits for an answer, or while it runs; who cancels dies at an append. */
  | 'cancel-suspended'
  | 'cancel-running';

/** Turns inside turns, as data. */
export interface Workload {
  /**
   * What each agent does: by iteration, the calls that it makes, which name a tool, `any` tool, another agent, or `>` and the agent that it
   * hands the turn to; in the end it answers. `look:900` is a call that takes so many milliseconds. The first agent is the one at the top.
   */
  readonly agents: Readonly<Record<string, readonly (readonly string[])[]>>;
  /** Where the agents are a team, which has the turn at the top: who answers. */
  readonly team?: 'hand-off' | 'supervisor' | 'sequence' | 'parallel';
  /** Milliseconds: of the turn at the top, and of those below it. */
  readonly leases: { readonly root: number; readonly below: number };
  readonly storeDeadlineMs: number;
  /** The agent that another server has, with a store of its own: the others call it over A2A. */
  readonly remote?: string;
  /** Whether somebody steers the turn at the top once its second agent has it. */
  readonly isSteered?: boolean;
  /** Taken in turn by the rounds. */
  readonly faults: readonly [Fault, ...Fault[]];
}

const deep = {
  root: [['bo', 'any'], ['any']],
  bo: [['any'], ['cy', 'any']],
  cy: [['di'], ['any', 'any']],
  di: [['pay', 'any'], ['any']],
};

const wide = {
  root: [
    ['bo', 'cy', 'di', 'any'],
    ['bo', 'any'],
  ],
  bo: [['any', 'any'], ['pay']],
  cy: [['any'], ['any']],
  di: [['wire', 'book']],
};

const asking = {
  root: [['bo', 'cy', 'any'], ['any']],
  bo: [['any'], ['di', 'any'], ['any']],
  cy: [['any', 'sign'], ['sign']],
  di: [['sign', 'any']],
};

const chain = {
  root: [['bo'], ['any']],
  bo: [['pay'], ['any'], ['cy'], ['any']],
  cy: [['pay', 'any'], ['book'], ['any', 'look'], ['pay']],
};

/** While the first call runs, the lease of the parent can run out, and another owner can take both turns. */
const slow = {
  root: [['bo'], ['any']],
  bo: [['look:900'], ['pay'], ['cy'], ['any']],
  cy: [['pay', 'any'], ['book']],
};

const calling = {
  root: [['far', 'bo'], ['any'], ['far']],
  bo: [['any'], ['far']],
  far: [
    ['any', 'pay'],
    ['book', 'any'],
  ],
};

const handing = {
  ada: [['any'], ['any', '>bo']],
  bo: [['pay', 'any'], ['>cy']],
  cy: [['any'], ['wire']],
};

const led = {
  ada: [
    ['bo', 'any'],
    ['cy', 'bo'],
  ],
  bo: [['any', 'pay']],
  cy: [['any'], ['book']],
};

const side = {
  ada: [['any', 'pay']],
  bo: [['any'], ['any']],
  cy: [['wire', 'any']],
};

const equal = { root: 600, below: 600 };

/** A new workload is a line here: what runs, how long its leases are, and what happens to it. */
export const workloads = {
  'tree-deep': {
    agents: deep,
    leases: equal,
    storeDeadlineMs: 3_000,
    faults: ['moment', 'any-time', 'pause', 'watch'],
  },
  'tree-wide': {
    agents: wide,
    leases: equal,
    storeDeadlineMs: 3_000,
    faults: ['moment', 'any-time', 'pause', 'watch'],
  },
  'tree-asks': {
    agents: asking,
    leases: equal,
    storeDeadlineMs: 3_000,
    faults: ['moment', 'any-time', 'watch'],
  },
  /** The leases of child turns last for longer than any round. */
  'tree-long': {
    agents: chain,
    leases: { root: 500, below: 60_000 },
    storeDeadlineMs: 3_000,
    faults: ['pause-at-intent', 'any-time', 'moment', 'watch'],
  },
  'tree-short': {
    agents: chain,
    leases: { root: 1_500, below: 300 },
    storeDeadlineMs: 3_000,
    faults: ['outage-above', 'any-time', 'pause-at-intent', 'moment'],
  },
  'tree-outage': {
    agents: slow,
    leases: equal,
    storeDeadlineMs: 500,
    faults: ['outage-above-alone', 'outage-above', 'outage-of-root', 'outage-below', 'outage-of-child'],
  },
  'tree-cancel': {
    agents: asking,
    leases: equal,
    storeDeadlineMs: 3_000,
    faults: ['cancel-suspended', 'cancel-suspended', 'cancel-running'],
  },
  'tree-remote': {
    agents: calling,
    remote: 'far',
    leases: equal,
    // Longer than a process is stopped: it is FENCED then, not told that the store was away.
    storeDeadlineMs: 10_000,
    faults: [
      'remote-any-time',
      'remote-away',
      'moment',
      'remote-stopped',
      'remote-moment',
      'any-time',
      'remote-away',
      'pause',
      'watch',
    ],
  },
  'team-hand-off': {
    agents: handing,
    team: 'hand-off',
    leases: equal,
    storeDeadlineMs: 3_000,
    isSteered: true,
    faults: ['moment', 'any-time', 'moment', 'pause', 'watch'],
  },
  'team-led': {
    agents: led,
    team: 'supervisor',
    leases: equal,
    storeDeadlineMs: 3_000,
    faults: ['moment', 'any-time', 'pause', 'watch'],
  },
  'team-sequence': {
    agents: side,
    team: 'sequence',
    leases: equal,
    storeDeadlineMs: 3_000,
    faults: ['moment', 'any-time', 'pause', 'watch'],
  },
  'team-parallel': {
    agents: side,
    team: 'parallel',
    leases: equal,
    storeDeadlineMs: 3_000,
    faults: ['moment', 'any-time', 'pause', 'watch'],
  },
} as const satisfies Record<string, Workload>;

export type TreeMode = keyof typeof workloads;

export const treeModes = Object.keys(workloads).filter((name): name is TreeMode => name in workloads);

export function workloadOf(name: string): Workload {
  const found = Object.entries(workloads).find(([known]) => known === name);
  if (found) return found[1];
  throw new Error(`There is no workload ${name}.`);
}

/** The agent at the top; of a team, the one that answers first. */
export function rootAgentOf({ agents }: Workload): string {
  return Object.keys(agents)[0] ?? '';
}

export const teamId = 'team';

/** The agents that an agent has as tools; the team gives its agents theirs. */
export function helpersOf({ agents, team }: Workload, agentId: string): readonly string[] {
  if (team) return [];
  const called = (agents[agentId] ?? []).flat().filter((name) => name in agents);
  return [...new Set(called)];
}

/** What an agent of a workload does in the turn that a seed stands for. */
export function planOfAgent(workload: Workload, agentId: string, seed: number): Plan {
  const random = new Random(seedOf(seed, agentId));
  return (workload.agents[agentId] ?? []).map((names) => names.map((name) => callOf(workload, name, random)));
}

function callOf({ agents }: Workload, name: string, random: Random): PlannedCall | AgentCall {
  if (name in agents) {
    const seed = random.seed();
    return { tool: name, agent: name, seed, arguments: JSON.stringify({ message: String(seed) }) };
  }
  if (name.startsWith('>')) {
    const agent = name.slice(1);
    return { tool: 'hand_off', agent, arguments: JSON.stringify({ agentId: agent, note: `It is for ${agent}.` }) };
  }
  const [tool = '', longMs] = name.split(':');
  return plannedCall(random, isTool(tool) ? tool : undefined, longMs === undefined ? undefined : Number(longMs));
}

/** The turn of a team, through all the agents that have it. */
export interface TeamPlan {
  readonly plan: Plan;
  /** By iteration, the last one included. */
  readonly speakers: readonly string[];
}

function teamPlanOf(workload: Workload, seed: number): TeamPlan {
  const ids = Object.keys(workload.agents);
  const planOfOne = (id: string) => planOfAgent(workload, id, seed);
  switch (workload.team) {
    case 'parallel':
      return {
        plan: [ids.map((id) => ({ tool: id, agent: id, seed, arguments: '{"message":""}' }))],
        speakers: [teamId, teamId],
      };
    case 'sequence': {
      const plans = ids.map((id) => [...planOfOne(id), []]);
      const speakers = plans.flatMap((plan, index) => plan.map(() => ids[index] ?? ''));
      return { plan: plans.flat().slice(0, -1), speakers };
    }
    case 'hand-off': {
      const plan: (readonly (PlannedCall | AgentCall)[])[] = [];
      const speakers: string[] = [];
      for (let id: string | undefined = ids[0]; id !== undefined; ) {
        const own = planOfOne(id);
        plan.push(...own);
        speakers.push(...own.map(() => id ?? ''));
        const taker: AgentCall | undefined = own.at(-1)?.find(isAgentCall);
        if (!taker) speakers.push(id);
        id = taker?.agent;
      }
      return { plan, speakers };
    }
    default: {
      const plan = planOfOne(ids[0] ?? '');
      return { plan, speakers: [...plan, []].map(() => ids[0] ?? '') };
    }
  }
}

function isTool(name: string): name is ToolName {
  return name in tools;
}

/** A turn of a tree, as the seed of its root has it. */
export interface TreeTurn {
  readonly taskId: string;
  readonly agentId: string;
  readonly seed: number;
  readonly plan: Plan;
  /** Of the turn of a team, by iteration: which agent has it. */
  readonly speakers?: readonly string[];
  /** The turn of a remote agent on this side: one call, which sends the message that the turn on the other side begins with. */
  readonly isRelay?: boolean;
  /** The turn whose call it answers. */
  readonly parent?: { readonly turn: TreeTurn; readonly callId: string };
}

/** Whom the server of a remote agent takes its caller for. */
export const callerId = 'root';

/** The id of the task that a relay begins at the server, which makes it of the id of the message, and that is made of the call. */
function remoteTaskId(agentId: string, callId: string): string {
  const messageId = createHash('sha256').update(callId).digest('hex').slice(0, 32);
  return new Scope(agentId, JSON.stringify(['', callerId])).taskOf(messageId);
}

/** All turns of a tree, each behind its parent; those of a remote agent on both sides. */
export function turnsOf(workload: Workload, { taskId, seed }: Task): readonly TreeTurn[] {
  const turns: TreeTurn[] = [];
  const add = (turn: TreeTurn) => {
    turns.push(turn);
    for (const [iteration, calls] of turn.plan.entries()) {
      for (const [index, call] of calls.entries()) {
        if (!isAgentCall(call) || call.seed === undefined) continue;
        const callId = `${iteration + 1}:${index}`;
        const ofCall = `${turn.taskId}:${callId}`;
        const { agent: agentId, seed } = call;
        const below = { agentId, seed, parent: { turn, callId } };
        if (agentId === workload.remote && !turn.isRelay)
          add({ ...below, taskId: ofCall, plan: [[{ ...call, tool: 'send_message' }]], isRelay: true });
        else
          add({
            ...below,
            taskId: turn.isRelay ? remoteTaskId(agentId, ofCall) : ofCall,
            plan: planOfAgent(workload, agentId, seed),
          });
      }
    }
  };
  const agentId = rootAgentOf(workload);
  if (workload.team) add({ taskId, agentId: teamId, seed, ...teamPlanOf(workload, seed) });
  else add({ taskId, agentId, seed, plan: planOfAgent(workload, agentId, seed) });
  return turns;
}
