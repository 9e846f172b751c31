import { type Observable, Subject } from 'rxjs';
import { AgentLoopError } from '../core/errors.ts';
import type { Extension } from '../core/extension.ts';
import { invalidConfig } from '../core/invalid-config.ts';
import { type Message, textOf } from '../core/messages.ts';
import { shownValue } from '../core/shown-value.ts';
import type { Turn } from '../core/turn.ts';
import type { TurnResult } from '../core/turn-result.ts';
import type { TaskStateStore } from '../stores/interfaces.ts';
import { InMemoryMessageStore } from '../stores/messages/in-memory-message-store.ts';
import type { MessageStore } from '../stores/messages/message-store.ts';
import type { ToolProvider } from '../tools/interfaces.ts';
import { Agent, type AgentResumeOptions, agent, messagesOf, type TurnInput } from './agent.ts';
import type { AgentNotice } from './agent-events.ts';
import { readAlong } from './agent-internals.ts';
import type { AgentSettings, AgentTurnOptions, BusyPolicy, PromptFunction } from './agent-options.ts';
import { agentTools } from './agent-tools.ts';
import { handOff, handOffName } from './hand-off.ts';
import { type Interceptors, interceptors } from './interceptors.ts';
import { planProvider } from './plan-provider.ts';
import type { Plan, RoutingRequest, RoutingStrategy } from './routing.ts';
import { RunningTurns } from './running-turns.ts';
import { type TeamEvent, teamEventsOf } from './team-events.ts';

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

/** Of a plan. */
const mostRounds = 100;
const mostAtATime = 20;

const seams: readonly string[] = [
  ...['clock', 'generateId', 'logger', 'shutdown', 'leaseMs', 'storeDeadlineMs', 'abortGraceMs'],
  ...['enableTracing', 'captureContent', 'redact', 'spanNames'],
];

const optionNames = [
  ...['agents', 'defaultAgentId', 'id', 'systemPrompt', 'routing', 'interceptors', 'handOff'],
  ...['messageStore', 'taskStateStore', 'contextId', 'busy'],
];

/** Makes a team. Calls no provider, store or tool. Errors: `INVALID_CONFIG`, naming the option and the cure. */
export function team(options: TeamOptions): Team {
  return new Team(options);
}

type TurnExtras = Omit<AgentTurnOptions, 'agentId'>;

export interface TeamTurnOptions extends TurnExtras {
  /** Who answers this message; the current agent stays as it is. */
  readonly agentId?: string;
}

/**
 * Several agents over one conversation, of which one answers each message: the one that the message is for, the one that the routing
 * chooses, or the current one. It works with copies of the agents that remember in one place; a context has one turn at a time.
 */
export class Team {
  readonly id: string;
  readonly contextId: string;
  readonly #options: TeamOptions;
  readonly #messageStore: MessageStore;
  readonly #running = new RunningTurns();
  readonly #notices = new Subject<AgentNotice>();
  /** As they were registered. */
  readonly #agents = new Map<string, Agent>();
  /** As they answer in this conversation. */
  readonly #members = new Map<string, Agent>();
  readonly #coordinator: Agent | undefined;
  #current: string;

  /** @internal */
  constructor(options: TeamOptions) {
    checkOptions(options);
    this.#options = { ...options };
    this.id = options.id ?? 'team';
    this.contextId = options.contextId ?? crypto.randomUUID();
    this.#messageStore = options.messageStore ?? new InMemoryMessageStore();
    for (const each of options.agents) this.registerAgent(each);
    const first = options.defaultAgentId ?? options.agents[0]?.id ?? '';
    if (!this.#agents.has(first))
      throw invalidConfig(`defaultAgentId ${shownValue(first)} is not known`, this.#known());
    this.#current = first;
    const { routing } = options;
    if (routing && 'next' in routing) this.#coordinator = this.#joined(this.#coordinatorOf(routing));
  }

  /** In the order of their registration. */
  get agents(): readonly Agent[] {
    return [...this.#agents.values()];
  }

  /** What happens in the conversation, from now on. Never errors. */
  on<T extends TeamEvent['type']>(
    type: T,
    listener: (event: Extract<TeamEvent, { readonly type: T }>) => void,
  ): () => void {
    const isOfType = (event: TeamEvent): event is Extract<TeamEvent, { readonly type: T }> => event.type === type;
    const subscription = this.#notices.subscribe((notice) => {
      for (const event of teamEventsOf(notice)) if (isOfType(event)) listener(event);
    });
    return () => subscription.unsubscribe();
  }

  /** The events of all agents of the team, from now on. Never errors. */
  get events$(): Observable<AgentNotice> {
    return this.#notices.asObservable();
  }

  /** Adds an agent, which can be routed to at once. Errors: `INVALID_CONFIG` where one has its id. */
  registerAgent(added: Agent): void {
    if (!(added instanceof Agent)) throw invalidConfig('a team is made of agents', 'write agent({ … })');
    if (this.#agents.has(added.id) || added.id === this.id) {
      throw invalidConfig(`two agents have the id "${added.id}"`, 'give each its own');
    }
    this.#agents.set(added.id, added);
    this.#members.set(added.id, this.#joined(this.#memberOf(added)));
  }

  /** Who answers the next message that names nobody. */
  getAgent(): Agent {
    return this.#agentOf(this.#current);
  }

  /** Errors: `INVALID_INPUT` for one that is not of the team. */
  setAgentById(id: string): void {
    this.#current = this.#agentOf(id).id;
  }

  /** As `setAgentById`; an agent that is not of the team is added. */
  setAgent(chosen: Agent): void {
    if (!this.#agents.has(chosen.id)) this.registerAgent(chosen);
    this.#current = chosen.id;
  }

  /**
   * One turn: of the agent that answers, or of the team where a plan asks several. Errors: `INVALID_INPUT` for an agent that is not of
   * the team, listing those that are; those of `Agent.startTurn`.
   */
  startTurn(input: TurnInput, { agentId, ...options }: TeamTurnOptions = {}): Turn {
    const messages = messagesOf(input);
    const answering = agentId === undefined ? this.#routed(messages) : this.#member(agentId);
    return answering.startTurn(messages, { contextId: this.contextId, ...options });
  }

  /** The result of one turn; rejects as `Turn.result` does. */
  async ask(input: TurnInput, options: TeamTurnOptions = {}): Promise<TurnResult> {
    return this.startTurn(input, options).result();
  }

  /** Goes on with a turn of the team in any process. Errors: `NOT_FOUND`; `INVALID_INPUT` where its agent is not of the team. */
  async resume(taskId: string, options: AgentResumeOptions = {}): Promise<Turn> {
    for (const member of [...this.#members.values(), ...(this.#coordinator ? [this.#coordinator] : [])]) {
      const task = await member.options.taskStateStore?.load(taskId);
      if (task) return this.#member(task.agentId).resume(taskId, options);
    }
    throw new AgentLoopError(
      'NOT_FOUND',
      `No journal of the team has a turn "${taskId}"; give the team a taskStateStore.`,
    );
  }

  /** Takes no more turns, cancels those that run here, and resolves once they are over. */
  async close(): Promise<void> {
    await Promise.all(
      [...this.#members.values(), ...(this.#coordinator ? [this.#coordinator] : [])].map((each) => each.close()),
    );
    this.#notices.complete();
  }

  #routed(messages: readonly Message[]): Agent {
    const { routing } = this.#options;
    if (!routing) return this.#member(this.#current);
    if ('next' in routing) return this.#member(this.id);
    const text = textOf(messages.findLast(({ role }) => role === 'user')?.content);
    return this.#member(routing.choose(this.#request(text)) ?? this.#current);
  }

  #request(text: string): RoutingRequest {
    return { text, agents: this.agents, current: this.getAgent() };
  }

  #agentOf(id: string): Agent {
    const found = this.#agents.get(id);
    if (found) return found;
    throw new AgentLoopError('INVALID_INPUT', `Agent ${shownValue(id)} is not of the team; ${this.#known()}.`);
  }

  #member(id: string): Agent {
    if (id === this.id && this.#coordinator) return this.#coordinator;
    return this.#members.get(this.#agentOf(id).id) ?? this.#agentOf(id);
  }

  #known(): string {
    return `the agents are: ${[...this.#agents.keys()].join(', ')}`;
  }

  /** Passes on what it tells, and follows a conversation that is handed over. */
  #joined(member: Agent): Agent {
    member.events$.subscribe((notice) => {
      this.#notices.next(notice);
      if (notice.kind !== 'internal:tool-complete' || notice.toolName !== handOffName || !notice.success) return;
      const { arguments: args } = notice;
      const id = typeof args === 'object' && args !== null && 'agentId' in args ? args.agentId : undefined;
      if (typeof id === 'string' && this.#agents.has(id)) this.#current = id;
    });
    return member;
  }

  #memberOf(original: Agent): Agent {
    const { interceptors: intercepting, handOff: handsOff } = this.#options;
    const durable = (this.#options.taskStateStore ?? original.options.taskStateStore) !== undefined;
    const extensions: readonly Extension[] = [
      ...(intercepting ? [interceptors(intercepting)] : []),
      ...(original.options.extensions ?? []),
      ...(handsOff ? [this.#handOff(original, durable)] : []),
    ];
    const shared = { ...this.#shared(original), extensions, busy: this.#options.busy ?? 'reject' };
    return original.with(
      { ...shared, contextId: this.contextId, messageStore: this.#messageStore },
      { running: this.#running },
    );
  }

  #handOff(original: Agent, durable: boolean): Extension {
    return handOff({
      durable,
      others: () => this.agents.filter(({ id }) => id !== original.id),
      inContext: (id, contextId) => this.#inContext(this.#agentOf(id), contextId),
    });
  }

  /** An agent that knows what the conversation says, and adds nothing to it by itself. */
  #inContext(original: Agent, contextId: string): Agent {
    const { incoming } = this.#options.interceptors ?? {};
    const extensions = [...(incoming ? [interceptors({ incoming })] : []), ...(original.options.extensions ?? [])];
    const messageStore = readAlong(this.#messageStore, contextId);
    return original.with({ ...this.#shared(original), extensions, messageStore });
  }

  #shared({ options }: Agent): Partial<AgentSettings> {
    const { systemPrompt, taskStateStore } = this.#options;
    return {
      ...(systemPrompt === undefined ? {} : { systemPrompt: joinedPrompt(systemPrompt, options.systemPrompt) }),
      ...(taskStateStore && { taskStateStore }),
    };
  }

  /** Turns of a plan use the clock, the shutdown, the tracing of the first agent. */
  #seams(): Partial<AgentSettings> {
    const { options = {} } = this.agents[0] ?? {};
    return Object.fromEntries(Object.entries(options).filter(([name]) => seams.includes(name)));
  }

  #coordinatorOf(plan: Plan): Agent {
    const { busy = 'reject', interceptors: intercepting, taskStateStore } = this.#options;
    const members = (contextId: string) => agentTools(this.agents.map((each) => this.#inContext(each, contextId)));
    const asTools: ToolProvider = {
      name: this.id,
      getTools: (context) => members(context.contextId).getTools(context),
      executeTool: (call, context) => members(context.contextId).executeTool(call, context),
    };
    const provider = planProvider({
      plan,
      agentOf: (id) => this.#agentOf(id),
      request: (text) => this.#request(text),
    });
    const options = {
      ...this.#seams(),
      id: this.id,
      contextId: this.contextId,
      provider,
      messageStore: this.#messageStore,
      contextManagement: null,
      busy,
      maxIterations: mostRounds,
      toolConcurrency: mostAtATime,
      toolFailureMode: 'fail' as const,
      extensions: intercepting ? [interceptors(intercepting)] : [],
      toolProviders: [asTools],
    };
    return agent(taskStateStore ? { ...options, taskStateStore } : options).with(
      {},
      { running: this.#running, endsOnly: true },
    );
  }
}

/** Errors: `INVALID_CONFIG`. */
function checkOptions(options: TeamOptions): void {
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
