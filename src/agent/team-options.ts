import { invalidConfig } from '../core/invalid-config.ts';
import type { TaskStateStore } from '../stores/interfaces.ts';
import type { MessageStore } from '../stores/messages/message-store.ts';
import type { Agent } from './agent.ts';
import type { BusyPolicy, PromptFunction } from './agent-options.ts';
import type { Interceptors } from './interceptors.ts';
import type { RoutingStrategy } from './routing.ts';

export interface TeamOptions {
  /** At least one; their ids differ. */
  readonly agents: readonly Agent[];
  /** Who answers first. Default: the first of `agents`. */
  readonly defaultAgentId?: string;
  /** Stands in records of plans. Default `team`. */
  readonly id?: string;
  /** In front of the system prompt of each agent, with an empty line between. */
  readonly systemPrompt?: string | PromptFunction;
  /** Who answers a message that names nobody. Default: the current agent. */
  readonly routing?: RoutingStrategy;
  readonly interceptors?: Interceptors;
  /** Gives each agent a tool `hand_off`, with which it hands the conversation to another. Default false. */
  readonly handOff?: boolean;
  /** Of the conversation; in place of those of the agents. Default: in the memory of this process. */
  readonly messageStore?: MessageStore;
  /** Where turns are journaled; in place of those of the agents. Default: each agent's own. */
  readonly taskStateStore?: TaskStateStore;
  /** The context of turns that name none. Default: a new one. */
  readonly contextId?: string;
  /** Default `'reject'`. */
  readonly busy?: BusyPolicy;
}

const optionNames = [
  ...['agents', 'defaultAgentId', 'id', 'systemPrompt', 'routing', 'interceptors', 'handOff'],
  ...['messageStore', 'taskStateStore', 'contextId', 'busy'],
];

/** Errors: `INVALID_CONFIG`. */
export function checkTeamOptions(options: TeamOptions): void {
  if (
    typeof options !== 'object' ||
    options === null ||
    !Array.isArray(options.agents) ||
    options.agents.length === 0
  ) {
    throw invalidConfig('a team needs agents', 'write team({ agents: [agent({ … }), …] })');
  }
  const stray = Object.keys(options).find((name) => !optionNames.includes(name));
  if (stray !== undefined)
    throw invalidConfig(`${stray} is not an option of a team`, `the options are: ${optionNames.join(', ')}`);
  const { routing } = options;
  if (routing === undefined || 'next' in routing || 'choose' in routing) return;
  throw invalidConfig('routing must be a strategy', 'give byRule([…]), supervisor("id"), inSequence([…]), …');
}
