import { type Observable, Subject } from 'rxjs';
import { AgentLoopError, messageOf } from '../core/errors.ts';
import { invalidConfig } from '../core/invalid-config.ts';
import { type Message, textOf } from '../core/messages.ts';
import { shownValue } from '../core/shown-value.ts';
import type { Turn } from '../core/turn.ts';
import type { TurnResult } from '../core/turn-result.ts';
import { InMemoryMessageStore } from '../stores/messages/in-memory-message-store.ts';
import type { Agent, AgentResumeOptions } from './agent.ts';
import type { AgentNotice } from './agent-events.ts';
import type { AgentTurnOptions } from './agent-options.ts';
import { handOffName, takerOf } from './hand-off.ts';
import { Roster } from './roster.ts';
import type { Choice, RoutingRequest } from './routing.ts';
import { RunningTurns } from './running-turns.ts';
import { type TeamEvent, teamEventsOf } from './team-events.ts';
import { checkTeamOptions, type TeamOptions } from './team-options.ts';
import { messagesOf, type TurnInput } from './turn-input.ts';

/** Makes a team. Calls no provider, store or tool. Errors: `INVALID_CONFIG`, naming the option and the cure. */
export function team(options: TeamOptions): Team {
  return Team.of(options);
}

/** Errors: `EXTENSION_FAILED`; what carries a code passes as it is. */
function chosen(routing: Choice, request: RoutingRequest): string | undefined {
  try {
    const id: unknown = routing.choose(request);
    if (id === undefined || typeof id === 'string') return id;
    throw new TypeError(
      `choose must return the id of an agent, or undefined, without a promise, not ${shownValue(id)}`,
    );
  } catch (error) {
    if (AgentLoopError.isInstance(error)) throw error;
    throw new AgentLoopError('EXTENSION_FAILED', `The routing of the team failed: ${messageOf(error)}`, {
      cause: error,
    });
  }
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
  readonly #notices = new Subject<AgentNotice>();
  readonly #roster: Roster;
  /** As they answer in this conversation. */
  readonly #members = new Map<string, Agent>();
  readonly #coordinator: Agent | undefined;
  /** By context; in those that are not here the default answers. Memory: an id for each context whose agent was changed. */
  readonly #current = new Map<string, string>();
  readonly #default: string;

  private constructor(options: TeamOptions) {
    checkTeamOptions(options);
    this.#options = { ...options };
    this.id = options.id ?? 'team';
    this.contextId = options.contextId ?? crypto.randomUUID();
    const { messageStore = new InMemoryMessageStore() } = options;
    const { id, contextId } = this;
    this.#roster = new Roster(this.#options, { id, contextId, messageStore, running: new RunningTurns() });
    for (const each of options.agents) this.registerAgent(each);
    const first = options.defaultAgentId ?? options.agents[0]?.id ?? '';
    if (!this.#roster.has(first))
      throw invalidConfig(`defaultAgentId ${shownValue(first)} is not known`, this.#roster.known);
    this.#default = first;
    const { routing } = options;
    if (routing && 'next' in routing)
      this.#coordinator = this.#joined(this.#roster.coordinatorOf(routing, (text) => this.#request(text)));
  }

  /** @internal */
  static of(options: TeamOptions): Team {
    return new Team(options);
  }

  /** In the order of their registration. */
  get agents(): readonly Agent[] {
    return this.#roster.all;
  }

  /** What happens in the conversation, from now on. What a listener throws is logged. */
  on<T extends TeamEvent['type']>(
    type: T,
    listener: (event: Extract<TeamEvent, { readonly type: T }>) => void,
  ): () => void {
    const isOfType = (event: TeamEvent): event is Extract<TeamEvent, { readonly type: T }> => event.type === type;
    const subscription = this.#notices.subscribe((notice) => {
      for (const event of teamEventsOf(notice)) if (isOfType(event)) this.#tell(() => listener(event), type);
    });
    return () => subscription.unsubscribe();
  }

  /** The events of all agents of the team, from now on. Never errors. */
  get events$(): Observable<AgentNotice> {
    return this.#notices.asObservable();
  }

  /** Adds an agent, which can be routed to at once. Errors: `INVALID_CONFIG` where one has its id. */
  registerAgent(added: Agent): void {
    this.#roster.add(added);
    this.#members.set(added.id, this.#joined(this.#roster.memberOf(added)));
  }

  /** Who answers the next message of a context that names nobody. */
  getAgent(contextId: string = this.contextId): Agent {
    return this.#roster.agentOf(this.#current.get(contextId) ?? this.#default);
  }

  /** In one context; the others keep theirs. Errors: `INVALID_INPUT` for one that is not of the team. */
  setAgentById(id: string, contextId: string = this.contextId): void {
    this.#current.set(contextId, this.#roster.agentOf(id).id);
  }

  /** As `setAgentById`; an agent that is not of the team is added. */
  setAgent(chosen: Agent, contextId: string = this.contextId): void {
    if (!this.#roster.has(chosen.id)) this.registerAgent(chosen);
    this.setAgentById(chosen.id, contextId);
  }

  /**
   * One turn: of the agent that answers, or of the team where a plan asks several. Errors: `INVALID_INPUT` for an agent that is not of
   * the team, listing those that are; those of `Agent.startTurn`.
   */
  startTurn(input: TurnInput, { agentId, ...options }: TeamTurnOptions = {}): Turn {
    const messages = messagesOf(input);
    const { contextId = this.contextId } = options;
    const answering = agentId === undefined ? this.#routed(messages, contextId) : this.#member(agentId);
    return answering.startTurn(messages, { ...options, contextId });
  }

  /** The result of one turn; rejects as `Turn.result` does. */
  async ask(input: TurnInput, options: TeamTurnOptions = {}): Promise<TurnResult> {
    return this.startTurn(input, options).result();
  }

  /** Goes on with a turn of the team in any process. Errors: `NOT_FOUND`; `INVALID_INPUT` where its agent is not of the team. */
  async resume(taskId: string, options: AgentResumeOptions = {}): Promise<Turn> {
    return (await this.#memberOf(taskId)).resume(taskId, options);
  }

  /** Cancels a turn of the team, as `Agent.cancel` does. Errors: as `resume`, and `UNAVAILABLE`. */
  async cancel(taskId: string, reason = 'canceled'): Promise<void> {
    return (await this.#memberOf(taskId)).cancel(taskId, reason);
  }

  /** Whose turn it is. */
  async #memberOf(taskId: string): Promise<Agent> {
    for (const member of this.#all) {
      const task = await member.options.taskStateStore?.load(taskId);
      if (task) return this.#member(task.agentId);
    }
    throw new AgentLoopError(
      'NOT_FOUND',
      `No journal of the team has a turn "${taskId}"; give the team a taskStateStore.`,
    );
  }

  /** Takes no more turns, cancels those that run here, and resolves once they are over. */
  async close(): Promise<void> {
    await Promise.all(this.#all.map((each) => each.close()));
    this.#notices.complete();
  }

  /** What a listener throws is logged where the current agent logs. */
  #tell(listen: () => void, type: TeamEvent['type']): void {
    try {
      listen();
    } catch {
      this.getAgent().options.logger?.error('listener failed', { team: this.id, type });
    }
  }

  #routed(messages: readonly Message[], contextId: string): Agent {
    const { routing } = this.#options;
    const current = this.getAgent(contextId);
    if (!routing) return this.#member(current.id);
    if ('next' in routing) return this.#member(this.id);
    const text = textOf(messages.findLast(({ role }) => role === 'user')?.content);
    return this.#member(chosen(routing, { text, agents: this.agents, current }) ?? current.id);
  }

  /** Of a plan, whose rounds do not say their context. */
  #request(text: string): RoutingRequest {
    return { text, agents: this.agents, current: this.getAgent() };
  }

  get #all(): readonly Agent[] {
    return [...this.#members.values(), ...(this.#coordinator ? [this.#coordinator] : [])];
  }

  #member(id: string): Agent {
    if (id === this.id && this.#coordinator) return this.#coordinator;
    return this.#members.get(this.#roster.agentOf(id).id) ?? this.#roster.agentOf(id);
  }

  /** Passes on what it tells, and follows a conversation that is handed over. */
  #joined(member: Agent): Agent {
    member.events$.subscribe((notice) => {
      this.#notices.next(notice);
      if (notice.kind !== 'internal:tool-complete' || notice.toolName !== handOffName || !notice.success) return;
      const id = takerOf(notice.arguments);
      if (id !== undefined && this.#roster.has(id)) this.setAgentById(id, notice.contextId);
    });
    return member;
  }
}
