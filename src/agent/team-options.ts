import { invalidConfig } from '../core/invalid-config.ts';
import { shownValue } from '../core/shown-value.ts';
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
  checkRouting(options.routing);
  checkInterceptors(options.interceptors);
  const { id, handOff } = options;
  if (id !== undefined && (typeof id !== 'string' || id === ''))
    throw invalidConfig(`id must be a non-empty text, not ${shownValue(id)}`, 'or leave it out');
  if (handOff !== undefined && typeof handOff !== 'boolean')
    throw invalidConfig(`handOff must be true or false, not ${shownValue(handOff)}`, 'or leave it out');
}

function checkRouting(routing: unknown): void {
  if (routing === undefined || hasFunction(routing, 'next') || hasFunction(routing, 'choose')) return;
  throw invalidConfig('routing must be a strategy', 'give byRule([…]), supervisor("id"), inSequence([…]), …');
}

function checkInterceptors(interceptors: unknown): void {
  const known = (name: string) => name === 'outgoing' || name === 'incoming';
  const areFine = (value: object) => Object.keys(value).every((name) => known(name) && hasFunction(value, name));
  if (interceptors === undefined) return;
  if (typeof interceptors === 'object' && interceptors !== null && areFine(interceptors)) return;
  throw invalidConfig('interceptors must be functions', 'write interceptors: { outgoing, incoming }, or one of them');
}

function hasFunction(value: unknown, name: string): boolean {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, name) === 'function';
}
