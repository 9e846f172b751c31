import type { Observable } from 'rxjs';
import { callListener } from '../call-listener.ts';
import {
  AgentLoopError,
  type ComparedByMembers,
  invalidConfig,
  type MessageStore,
  shownValue,
  type Tool,
} from '../core/contracts/index.ts';
import type { TurnResult } from '../core/journal/index.ts';
import type { Turn } from '../tasks/turn.ts';
import type { Agent } from './agent.ts';
import { type AgentNotice, checkListener } from './agent-events.ts';
import type { AgentResumeOptions, AgentTurnOptions, TurnInput } from './agent-options.ts';
import type { UsageSummary } from './lifecycle.ts';
import { settleTurnsAhead } from './open-turns.ts';
import { messagesOf } from './resolve-agent.ts';
import { Roster } from './roster.ts';
import type { RoutingStrategy, Valued } from './routing.ts';
import { isTeamEvent, type TeamEvent, teamEventsOf, teamEventTypes } from './team-events.ts';
import { checkTeamOptions, type TeamOptions } from './team-options.ts';

/** The value type of an agent's turns. */
export type ValueOf<A> = A extends Agent<infer T> ? T : never;

/** The tools of agents whose calls have typed events. */
export type ToolsOf<A> = A extends Agent<infer _, infer __, infer X> ? X : never;

/** The value type of routed turns: that of the strategy, unless a hand-off may change it; else that of any agent of the team. */
export type RoutedValue<R, H, M> = [H] extends [true] ? M : R extends Valued<infer V> ? (unknown extends V ? M : V) : M;

/**
 * Creates a team. Calls no provider, store or tool. Errors: `INVALID_CONFIG`, naming the option and the fix.
 *
 * The value type of its turns is that of any of its agents; with `inSequence` that of the last one, with `inParallel` that of the
 * `joiner`, with `supervisor(agent, { mayHandOff: false })` that of the agent, if these are passed as agents, not ids.
 */
export function team<
  const A extends readonly Agent[],
  R extends RoutingStrategy | undefined,
  H extends boolean | undefined = undefined,
>(
  options: TeamOptions & { readonly agents: A; readonly routing?: R; readonly handOff?: H },
): Team<RoutedValue<R, H, ValueOf<A[number]>>, ToolsOf<A[number]>, ValueOf<A[number]>>;
export function team(options: TeamOptions): Team {
  return Team.of(options);
}

type TurnExtras = Omit<AgentTurnOptions, 'agentId'>;

/** Options of a turn of a team. */
export interface TeamTurnOptions extends TurnExtras {
  /** The agent that answers this message; does not change the current agent. */
  readonly agentId?: string | undefined;
}

/**
 * Several agents in one conversation. Every turn belongs to the team: it is run by the agent that the caller names, the one that the routing chooses, or
 * the current one; with hand-offs, several agents run it in sequence, on the same history. A context has one turn at a time. The current agent
 * is stored with the conversation, in its `messageStore`.
 * `T`: the value type of its turns. `X`: the tools whose calls have typed events. `M`: the value type of turns of any of its agents.
 */
export class Team<T = unknown, X extends Tool = Tool, M = T> {
  /** Never there: see `ComparedByMembers`. */
  declare readonly '~tools'?: ComparedByMembers<X>;
  readonly id: string;
  readonly contextId: string;
  readonly #messageStore: MessageStore;
  readonly #roster: Roster;
  readonly #coordinator: Agent;
  readonly #default: string;

  private constructor(options: TeamOptions) {
    checkTeamOptions(options);
    this.id = options.id ?? 'team';
    this.contextId = options.contextId ?? crypto.randomUUID();
    const { messageStore = messagesOf(options.taskStateStore ?? options.agents[0]?.options.taskStateStore) } = options;
    const { id, contextId } = this;
    this.#messageStore = messageStore;
    this.#roster = new Roster({ ...options }, { id, contextId, messageStore });
    for (const each of options.agents) this.#roster.add(each);
    const first = options.defaultAgentId ?? options.agents[0]?.id ?? '';
    if (!this.#roster.has(first))
      throw invalidConfig(`defaultAgentId ${shownValue(first)} is not known`, this.#roster.known);
    this.#default = first;
    this.#coordinator = this.#roster.coordinator(first);
  }

  /** @internal */
  static of(options: TeamOptions): Team {
    return new Team(options);
  }

  /** In the order of their registration. */
  get agents(): readonly Agent[] {
    return this.#roster.all;
  }

  /** Listens to live events of the conversation. Exceptions of a listener are logged. */
  on<E extends TeamEvent['type']>(
    type: E,
    listener: (event: Extract<TeamEvent<X>, { readonly type: E }>) => void,
  ): () => void {
    checkListener('team', { kind: type, listener, kinds: teamEventTypes });
    const subscription = this.#notices$().subscribe((notice) => {
      const { logger } = this.#coordinator.options;
      for (const event of teamEventsOf(notice))
        if (isTeamEvent(event, type)) callListener(listener, event, { logger, fields: { team: this.id, type } });
    });
    return () => subscription.unsubscribe();
  }

  /** Live events of all turns of the team; each names the agent that ran the turn at that time. Never errors. */
  get events$(): Observable<AgentNotice<X>> {
    return this.#notices$();
  }

  #notices$(): Observable<AgentNotice<X>>;
  #notices$(): Observable<AgentNotice> {
    return this.#coordinator.events$;
  }

  /** The usage of its turns, with all their child turns; the `usage` of an agent is its own. */
  get usage(): UsageSummary | undefined {
    return this.#coordinator.usage;
  }

  /**
   * Adds an agent, which can be routed to at once. A process that resumes a turn of it needs it too, see `resume`. Errors: `INVALID_CONFIG` if
   * the id exists.
   */
  registerAgent(added: Agent<M>): void {
    this.#roster.add(added);
  }

  /**
   * Removes an agent: from now on no turn is routed or handed to it and no supervisor calls it. Turns that it runs here continue to their end;
   * contexts whose current agent it is use the default agent, until an agent of that id is registered again. Resolves once the turns of the team
   * that run here at the call have ended; the agent itself is not closed. Errors: `INVALID_INPUT` for an agent outside the team, `INVALID_CONFIG` for
   * the default agent and for one that the routing names.
   */
  async removeAgent(id: string): Promise<void> {
    const left = this.#roster.remove(id, this.#default);
    await Promise.allSettled(this.#coordinator.runningTurns.map(({ settled }) => settled));
    left();
  }

  /**
   * The agent that answers the next message of a context without an `agentId`, from the message store; the default agent if the stored one
   * left the team. Errors: `UNAVAILABLE`.
   */
  async currentAgent(contextId: string = this.contextId): Promise<Agent> {
    await this.#saveEnded(contextId);
    const { agentId } = await this.#messageStore.load(contextId, { limit: 0 });
    return this.#roster.agentOf(this.#roster.currentId(agentId, this.#default));
  }

  /** Sets the current agent of one context. Errors: `INVALID_INPUT` for an agent outside the team; `UNAVAILABLE`. */
  async setAgentById(id: string, contextId: string = this.contextId): Promise<void> {
    const { id: agentId } = this.#roster.agentOf(id);
    await this.#saveEnded(contextId);
    await this.#messageStore.setAgent(contextId, agentId);
  }

  /** As `setAgentById`; an agent outside the team is added. */
  async setAgent(chosen: Agent<M>, contextId: string = this.contextId): Promise<void> {
    if (!this.#roster.has(chosen.id)) this.registerAgent(chosen);
    await this.setAgentById(chosen.id, contextId);
  }

  /** Runs one turn. Errors: `INVALID_INPUT` for an agent outside the team, listing its agents; those of `Agent.startTurn`. */
  startTurn(input: TurnInput, options?: TeamTurnOptions & { readonly agentId?: undefined }): Turn<T, X>;
  startTurn(input: TurnInput, options: TeamTurnOptions): Turn<T | M, X>;
  startTurn(input: TurnInput, options: TeamTurnOptions = {}): Turn {
    const { agentId, ...rest } = options;
    const named = agentId === undefined ? {} : { agentId: this.#roster.agentOf(agentId).id };
    return this.#coordinator.startTurn(input, { ...rest, ...named });
  }

  /** The result of one turn; its `agentId` is the agent that answered. Rejects as `Turn.result` does. */
  ask(input: TurnInput, options?: TeamTurnOptions & { readonly agentId?: undefined }): Promise<TurnResult<T>>;
  ask(input: TurnInput, options: TeamTurnOptions): Promise<TurnResult<T | M>>;
  async ask(input: TurnInput, options: TeamTurnOptions = {}): Promise<TurnResult> {
    return this.startTurn(input, options).result();
  }

  /**
   * Resumes a turn of the team in any process, with the agent that ran it. The turn errors with `MISSING_AGENT` if that one is not in the team
   * here, and can be resumed again after `registerAgent`. Errors: `NOT_FOUND`; those of `Agent.resume`.
   */
  async resume(taskId: string, options?: AgentResumeOptions): Promise<Turn<T | M, X>>;
  async resume(taskId: string, options: AgentResumeOptions = {}): Promise<Turn> {
    await this.#assertKnown(taskId);
    return this.#coordinator.resume(taskId, options);
  }

  /** Cancels a turn of the team, as `Agent.cancel` does. Errors: as `resume`, and `UNAVAILABLE`. */
  async cancel(taskId: string, reason = 'canceled'): Promise<void> {
    return this.#coordinator.cancel(taskId, reason);
  }

  /**
   * The team as one agent, for `a2aServer`, `agentTools` and the command line. Its turns are those of the team, and close with
   * it.
   */
  asAgent(): Agent<T | M, unknown, X>;
  asAgent(): Agent {
    return this.#coordinator;
  }

  /** As `Agent.close`. */
  async close(): Promise<void> {
    await this.#coordinator.close();
  }

  /** First saves a turn whose process crashed after its end was recorded: it determines the current agent. */
  async #saveEnded(contextId: string): Promise<void> {
    const { taskStateStore: journal } = this.#coordinator.options;
    if (journal) await settleTurnsAhead({ messageStore: this.#messageStore, journal }, contextId, '');
  }

  async #assertKnown(taskId: string): Promise<void> {
    const { taskStateStore } = this.#coordinator.options;
    if (await taskStateStore?.load(taskId)) return;
    throw new AgentLoopError(
      'NOT_FOUND',
      `No journal of the team has a turn "${taskId}"; set the taskStateStore of the team.`,
    );
  }
}
