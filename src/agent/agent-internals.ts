import type { AgentLoopConfig, AgentUsage, Defined } from '../core/contracts/index.ts';
import type { AgentNotice } from './agent-events.ts';
import type { Dependencies } from './agent-options.ts';
import type { Opening } from './conversation.ts';
import type { ResolvedAgent } from './resolve-agent.ts';
import type { RunningTurns } from './running-turns.ts';
import type { UsageTally } from './usage-tally.ts';

/** What agents that work together in this package share, and users do not see. */
export interface AgentInternals {
  /** One table for all agents of a conversation, so that it has one turn at a time. */
  readonly running?: RunningTurns;
  /** The context remembers what was asked and answered, without the calls between. */
  readonly endsOnly?: boolean;
  /** Where the usage of its turns is counted: that of the agent that it is a variant of. */
  readonly usage?: UsageTally;
  /** Receives the events of its turns: the agent that it is a variant of. */
  readonly relay?: (notice: AgentNotice) => void;
  /** Where the turns are those of a team. */
  readonly members?: TeamMembers;
}

/** The agents of a team, as its turns need them. */
export interface TeamMembers extends Defined<Pick<AgentLoopConfig, 'maxHandOffs'>> {
  /** What each of them brings, with what is overridden for a turn. Errors: `INVALID_INPUT` where none of them depends on anything. */
  readonly agentsWith: (dependencies: Dependencies | undefined) => NonNullable<AgentLoopConfig['agents']>;
  /** Chooses the one that answers first. */
  readonly choose: Opening;
  /** Counts the model calls that each of them made in a turn of the team. */
  readonly count: (used: readonly AgentUsage[]) => void;
  /** Its context management compacts contexts between turns. */
  readonly compactedBy: ResolvedAgent;
}
