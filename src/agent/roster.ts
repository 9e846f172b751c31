import { AgentLoopError } from '../core/errors.ts';
import type { Extension } from '../core/extension.ts';
import { invalidConfig } from '../core/invalid-config.ts';
import { shownValue } from '../core/shown-value.ts';
import type { MessageStore } from '../stores/messages/message-store.ts';
import type { ToolProvider } from '../tools/interfaces.ts';
import { Agent, agent } from './agent.ts';
import { readAlong } from './agent-internals.ts';
import type { AgentSettings, PromptFunction } from './agent-options.ts';
import { agentTools } from './agent-tools.ts';
import { agentBelow, withAgents } from './agents-below.ts';
import { handOff } from './hand-off.ts';
import { interceptors } from './interceptors.ts';
import { planProvider } from './plan-provider.ts';
import type { Plan, RoutingRequest } from './routing.ts';
import type { RunningTurns } from './running-turns.ts';
import type { TeamOptions } from './team-options.ts';

/** What the agents of a team have in common. */
export interface SharedConversation {
  readonly id: string;
  readonly contextId: string;
  readonly messageStore: MessageStore;
  readonly running: RunningTurns;
}

/** Of a plan. */
const mostRounds = 100;
const mostAtATime = 20;

const seams: readonly string[] = [
  ...['clock', 'generateId', 'logger', 'shutdown', 'leaseMs', 'storeDeadlineMs', 'abortGraceMs'],
  ...['enableTracing', 'captureContent', 'redact', 'spanNames'],
];

/** The agents of a team as they were registered, and what the team makes of them. */
export class Roster {
  readonly #team: TeamOptions;
  readonly #shared: SharedConversation;
  readonly #agents = new Map<string, Agent>();

  constructor(team: TeamOptions, shared: SharedConversation) {
    this.#team = team;
    this.#shared = shared;
  }

  /** In the order of their registration. */
  get all(): readonly Agent[] {
    return [...this.#agents.values()];
  }

  /** For a sentence. */
  get known(): string {
    return `the agents are: ${[...this.#agents.keys()].join(', ')}`;
  }

  has(id: string): boolean {
    return this.#agents.has(id);
  }

  /** Errors: `INVALID_CONFIG` where an agent, or the team, has its id. */
  add(added: Agent): void {
    if (!(added instanceof Agent)) throw invalidConfig('a team is made of agents', 'write agent({ … })');
    if (this.has(added.id) || added.id === this.#shared.id) {
      throw invalidConfig(`two agents have the id "${added.id}"`, 'give each its own');
    }
    this.#agents.set(added.id, added);
  }

  /** Errors: `INVALID_INPUT`. */
  agentOf(id: string): Agent {
    const found = this.#agents.get(id);
    if (found) return found;
    throw new AgentLoopError('INVALID_INPUT', `Agent ${shownValue(id)} is not of the team; ${this.known}.`);
  }

  /** An agent as it answers in the conversation. */
  memberOf(original: Agent): Agent {
    const { interceptors: intercepting, handOff: handsOff } = this.#team;
    const durable = (this.#team.taskStateStore ?? original.options.taskStateStore) !== undefined;
    const extensions: readonly Extension[] = [
      ...(intercepting ? [interceptors(intercepting)] : []),
      ...(original.options.extensions ?? []),
      ...(handsOff ? [this.#handOff(original, durable)] : []),
    ];
    const changes = { ...this.#changesOf(original), extensions, busy: this.#team.busy ?? 'reject' };
    return original.withInternals(
      { ...changes, contextId: this.#shared.contextId, messageStore: this.#shared.messageStore },
      { running: this.#shared.running },
    );
  }

  #handOff(original: Agent, durable: boolean): Extension {
    return handOff({
      durable,
      others: () => this.all.filter(({ id }) => id !== original.id),
      inContext: (id, contextId) => this.#inContext(this.agentOf(id), contextId),
    });
  }

  /** An agent that knows what the conversation says, and adds nothing to it by itself. */
  #inContext(original: Agent, contextId: string): Agent {
    const { incoming } = this.#team.interceptors ?? {};
    const extensions = [...(incoming ? [interceptors({ incoming })] : []), ...(original.options.extensions ?? [])];
    const messageStore = readAlong(this.#shared.messageStore, contextId);
    return original.with({ ...this.#changesOf(original), extensions, messageStore });
  }

  #changesOf({ options }: Agent): Partial<AgentSettings> {
    const { systemPrompt, taskStateStore } = this.#team;
    return {
      ...(systemPrompt === undefined ? {} : { systemPrompt: joinedPrompt(systemPrompt, options.systemPrompt) }),
      ...(taskStateStore && { taskStateStore }),
    };
  }

  /** Turns of a plan use the clock, the shutdown, the tracing of the first agent. */
  #seams(): Partial<AgentSettings> {
    const { options = {} } = this.all[0] ?? {};
    return Object.fromEntries(Object.entries(options).filter(([name]) => seams.includes(name)));
  }

  /** Runs the turns of a plan: it calls agents in the place of a model that calls tools. */
  coordinatorOf(plan: Plan, request: (text: string) => RoutingRequest): Agent {
    const { busy = 'reject', interceptors: intercepting, taskStateStore } = this.#team;
    const members = (contextId: string) => agentTools(this.all.map((each) => this.#inContext(each, contextId)));
    const asTools: ToolProvider = {
      name: this.#shared.id,
      getTools: (context) => members(context.contextId).getTools(context),
      executeTool: (call, context) => members(context.contextId).executeTool(call, context),
    };
    withAgents(asTools, (call) => agentBelow([members(call.contextId)], call));
    const provider = planProvider({
      plan,
      agentOf: (id) => this.agentOf(id),
      request,
    });
    const options = {
      ...this.#seams(),
      id: this.#shared.id,
      contextId: this.#shared.contextId,
      provider,
      messageStore: this.#shared.messageStore,
      contextManagement: null,
      busy,
      maxIterations: mostRounds,
      toolConcurrency: mostAtATime,
      toolFailureMode: 'fail' as const,
      extensions: intercepting ? [interceptors(intercepting)] : [],
      toolProviders: [asTools],
    };
    return agent(taskStateStore ? { ...options, taskStateStore } : options).withInternals(
      {},
      { running: this.#shared.running, endsOnly: true },
    );
  }
}

/** The prompt of the team in front of that of the agent. */
function joinedPrompt(
  first: string | PromptFunction,
  second: string | PromptFunction | undefined,
): string | PromptFunction {
  if (second === undefined) return first;
  if (typeof first === 'string' && typeof second === 'string') return `${first}\n\n${second}`;
  const textOfPrompt: (prompt: string | PromptFunction) => PromptFunction = (prompt) => (context) =>
    typeof prompt === 'string' ? prompt : prompt(context);
  return async (context) => `${await textOfPrompt(first)(context)}\n\n${await textOfPrompt(second)(context)}`;
}
