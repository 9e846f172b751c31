import {
  type AgentLoopConfig,
  AgentLoopError,
  type AgentSetup,
  type Extension,
  invalidConfig,
  type LLMProvider,
  type MessageStore,
  shownValue,
  systemClock,
  type ToolProvider,
  textOf,
} from '../core/contracts/index.ts';
import type { AgentChoice } from '../core/journal/index.ts';
import { Agent } from './agent.ts';
import type { AgentSettings, Dependencies, PromptFunction } from './agent-options.ts';
import { agentToolName, agentTools } from './agent-tools.ts';
import type { Opening, OpeningRequest } from './conversation.ts';
import { agent } from './make-agent.ts';
import { setupOf } from './resolve-agent.ts';
import { askRouting, type RoutingLimit, type RoutingRequest, type RoutingStrategy } from './routing.ts';
import { conversationOnly, handOff, joinBy, parallelModel, parallelTools, takeTurns } from './strategies.ts';
import { interceptors, type TeamOptions, teamView, turnOptionsOf } from './team-options.ts';
import type { TeamMembers } from './turn-configs.ts';
import { cancelOfChildren, withCancelOutside } from './turn-controls.ts';

/** The shared properties of a team's agents. */
interface SharedConversation {
  readonly id: string;
  readonly contextId: string;
  readonly messageStore: MessageStore;
}

interface Member {
  /** As it was registered. */
  readonly original: Agent;
  /** With the prompt of the team. */
  readonly member: Agent;
}

/** The registered agents of a team, and the variants that run its turns. */
export class Roster {
  readonly #team: TeamOptions;
  readonly #shared: SharedConversation;
  readonly #members = new Map<string, Member>();
  /** Agents removed while turns run, which keep them until they end. */
  readonly #leaving = new Set<Member>();
  #setups = new Map<string, AgentSetup>();

  constructor(team: TeamOptions, shared: SharedConversation) {
    this.#team = team;
    this.#shared = shared;
  }

  /** In the order of their registration. */
  get all(): readonly Agent[] {
    return [...this.#members.values()].map(({ original }) => original);
  }

  /** For error messages. */
  get known(): string {
    return `the agents are: ${[...this.#members.keys()].join(', ')}`;
  }

  has(id: string): boolean {
    return this.#members.has(id);
  }

  /** Errors: `INVALID_CONFIG` if an agent, or the team, has the same id. */
  add(added: Agent): void {
    if (!(added instanceof Agent)) throw invalidConfig('a team is made of agents', 'write agent({ … })');
    if (added.isTeam && this.#mayHaveTheTurn(added.id))
      throw invalidConfig(
        `agent "${added.id}" is a team, which cannot be handed a turn`,
        'add its agents, or give it to agentTools',
      );
    if (this.has(added.id) || added.id === this.#shared.id) {
      throw invalidConfig(`two agents have the id "${added.id}"`, 'use a different id for each');
    }
    this.#members.set(added.id, { original: added, member: added.variant(this.#changesOf(added)) });
    this.#setups = new Map();
  }

  /**
   * Stops routing and hand-offs to the agent. Call the returned function once the turns that run now have ended; until
   * then they find it. Errors: `INVALID_INPUT` for an agent outside the team, `INVALID_CONFIG` for one that the team needs.
   */
  remove(id: string, defaultId: string): () => void {
    this.agentOf(id);
    if (id === defaultId)
      throw invalidConfig(`agent "${id}" is the default of the team`, 'make a team with another defaultAgentId');
    if (neededBy(this.#team.routing).includes(id))
      throw invalidConfig(`the routing of the team needs agent "${id}"`, 'make a team with another routing');
    const leaving = this.#members.get(id);
    if (!leaving) return () => {};
    this.#members.delete(id);
    this.#leaving.add(leaving);
    this.#setups = new Map();
    return () => {
      this.#leaving.delete(leaving);
      this.#setups = new Map();
    };
  }

  /** Also finds a removed agent while turns of that time run. */
  #find(id: string): Member | undefined {
    return this.#members.get(id) ?? [...this.#leaving].find(({ original }) => original.id === id);
  }

  get #limit(): RoutingLimit {
    const { clock = this.all[0]?.options.clock ?? systemClock, routingTimeoutMs: ms = 120_000 } = this.#team;
    return { clock, ms };
  }

  /** Other agents are called in child turns only. */
  #mayHaveTheTurn(id: string): boolean {
    const { routing, handOff: handsOff = false } = this.#team;
    if (isParallel(routing)) return routing.joiner === id;
    return !isSupervised(routing) || routing.supervisor === id || routing.mayHandOff || handsOff;
  }

  /** Errors: `INVALID_INPUT`. */
  agentOf(id: string): Agent {
    const found = this.#members.get(id);
    if (found) return found.original;
    throw new AgentLoopError('INVALID_INPUT', `Agent ${shownValue(id)} is not in the team; ${this.known}.`);
  }

  /** The agent that runs the turns of the team, with hand-offs to its members. */
  coordinator(defaultId: string): Agent {
    const { busy = 'reject', interceptors: intercepting, routing } = this.#team;
    const { id, contextId, messageStore } = this.#shared;
    const first = this.agentOf(defaultId);
    const options = {
      ...turnOptionsOf(this.all[0]?.options ?? {}),
      ...turnOptionsOf(this.#team),
      ...this.#ownPart(routing),
      id,
      ...(this.#team.contextId !== undefined && { contextId }),
      messageStore,
      busy,
      contextManagement: null,
      extensions: [
        ...(intercepting ? [interceptors(intercepting)] : []),
        ...(this.#team.extensions ?? []),
        ...(isParallel(routing) && routing.joiner !== undefined ? [joinBy(id, routing.joiner)] : []),
      ],
    };
    const members: TeamMembers = {
      maxHandOffs: this.#team.maxHandOffs ?? 10,
      agentsWith: (dependencies) => this.#agentsWith(dependencies),
      choose: this.#opening(defaultId),
      count: (used) => {
        for (const { agentId, usage } of used) this.#find(agentId)?.original.countUsage(usage);
      },
      compactedBy: first.resolved,
    };
    return agent(options).withInternals({}, { contextId, members, endsOnly: isParallel(routing) });
  }

  /** The team's own provider and tools: empty, except for parallel answers. */
  #ownPart(routing: RoutingStrategy | undefined): Pick<AgentSettings, 'provider'> & Partial<AgentSettings> {
    if (!isParallel(routing)) return { provider: nobody };
    const asked = () => routing.parallel.map((id) => this.#childOf(id));
    const tools: { made?: ToolProvider } = {};
    const made = () => {
      tools.made ??= parallelTools(asked());
      return tools.made;
    };
    return {
      provider: parallelModel(routing, (id) => this.agentOf(id), this.#limit),
      maxIterations: mostRounds,
      toolConcurrency: mostAtATime,
      toolFailureMode: 'fail',
      toolProviders: [
        withCancelOutside<ToolProvider>(
          {
            name: this.#shared.id,
            getTools: (context) => made().getTools(context),
            executeTool: (call, context) => made().executeTool(call, context),
          },
          cancelOfChildren((agentId) => (this.has(agentId) ? this.#childOf(agentId).cancelOutside : undefined)),
        ),
      ],
    };
  }

  #agentsWith(dependencies: Dependencies | undefined): NonNullable<AgentLoopConfig['agents']> {
    if (dependencies === undefined) return (id) => this.#kept(id);
    if (!this.all.some(({ resolved }) => resolved.toolsDepend)) {
      const message = `No agent of the team "${this.#shared.id}" has dependencies to override; make its tools a function of them: tools: (dependencies) => […].`;
      throw new AgentLoopError('INVALID_INPUT', message);
    }
    const setups = new Map<string, AgentSetup | undefined>();
    return (id) => {
      if (!setups.has(id)) setups.set(id, this.#setupOf(id, dependencies));
      return setups.get(id);
    };
  }

  #kept(id: string): AgentSetup | undefined {
    const setup = this.#setups.get(id) ?? this.#setupOf(id, {});
    if (setup) this.#setups.set(id, setup);
    return setup;
  }

  /** A member's setup for a turn, with the additions of the team and its strategy. */
  #setupOf(id: string, dependencies: Dependencies): AgentSetup | undefined {
    const member = this.#find(id)?.member;
    const own = member && setupOf(member.resolved, dependencies);
    if (!own) return undefined;
    const { routing, view, handOff: handsOff = false } = this.#team;
    const leads = isSupervised(routing) && routing.supervisor === id ? routing : undefined;
    const others = () => this.all.filter((each) => each.id !== id);
    const extensions: readonly Extension[] = [
      ...(own.extensions ?? []),
      ...(view ? [teamView(view)] : []),
      ...(handsOff || leads?.mayHandOff === true ? [handOff(others)] : []),
      ...(isSequence(routing) ? [takeTurns(routing)] : []),
    ];
    if (!leads) return { ...own, extensions };
    const helpers = others().map((each) => this.#childOf(each.id));
    const asked = agentTools(helpers, { pass: (messages, message) => [...conversationOnly(messages), message] });
    const toolProviders = [...(own.toolProviders ?? []), asked];
    const staying = this.#refuseRemoved(helpers);
    return { ...own, extensions: [...extensions, staying], toolProviders, maxIterations: leads.maxRounds };
  }

  /** A running turn keeps its tools: calls of a helper that was removed since are refused. */
  #refuseRemoved(helpers: readonly Agent[]): Extension {
    const ids = new Map(helpers.map((each) => [agentToolName(each), each.id]));
    return {
      name: 'team-helpers',
      beforeToolCall: ({ call }) => {
        const id = ids.get(call.function.name);
        if (id === undefined || this.has(id)) return undefined;
        return { deny: `agent "${id}" was removed from the team; ${this.known}` };
      },
    };
  }

  /** The variant of a member for child turns. */
  #childOf(id: string): Agent {
    const { incoming } = this.#team.interceptors ?? {};
    const { original, member } = this.#members.get(id) ?? { original: this.agentOf(id), member: this.agentOf(id) };
    if (!incoming) return member;
    return member.variant({ extensions: [interceptors({ incoming }), ...(original.options.extensions ?? [])] });
  }

  #changesOf({ options }: Agent): Partial<AgentSettings> {
    const { systemPrompt, taskStateStore } = this.#team;
    return {
      ...(systemPrompt === undefined ? {} : { systemPrompt: joinedPrompt(systemPrompt, options.systemPrompt) }),
      ...(taskStateStore && { taskStateStore }),
    };
  }

  /** Errors: `EXTENSION_FAILED` if the routing fails; errors with a code are passed on. */
  #opening(defaultId: string): Opening {
    const { routing } = this.#team;
    return async (request) => {
      const current = this.agentOf(this.currentId(request.current, defaultId));
      if (isSequence(routing)) return { agent: this.#routed(routing.sequence[0]) };
      if (isSupervised(routing)) return { agent: this.#routed(routing.supervisor) };
      if (isParallel(routing)) return {};
      if (!routing) return { agent: { to: current.id, reason: 'current' } };
      const { context } = request;
      const id = await askRouting(routing, this.#requestOf(request, current), { context, limit: this.#limit });
      const agent: AgentChoice = id === undefined ? { to: current.id, reason: 'current' } : this.#routed(id);
      return { agent };
    };
  }

  /** The agent that answers next, from the message store; the default if it has none, or one that left the team. */
  currentId(stored: string | undefined, defaultId: string): string {
    return stored !== undefined && this.has(stored) ? stored : defaultId;
  }

  #routed(id = ''): AgentChoice {
    return { to: this.agentOf(id).id, reason: 'route' };
  }

  #requestOf({ messages, added }: OpeningRequest, current: Agent): RoutingRequest {
    const text = textOf(added.findLast(({ role }) => role === 'user')?.content);
    return { text, messages, agents: this.all, current };
  }
}

/** For parallel answers. */
const mostRounds = 100;
const mostAtATime = 20;

/** The provider of a team: a turn makes no model call before it has an agent. */
const nobody: LLMProvider = {
  call: () => Promise.reject(new AgentLoopError('INTERNAL', 'The team made a model call without an agent.')),
};

/** The agents without which every turn would fail. */
function neededBy(routing: RoutingStrategy | undefined): readonly string[] {
  if (isSequence(routing)) return routing.sequence;
  if (isSupervised(routing)) return [routing.supervisor];
  if (isParallel(routing)) return [...routing.parallel, ...(routing.joiner === undefined ? [] : [routing.joiner])];
  return routing?.needs ?? [];
}

function isSequence(routing: RoutingStrategy | undefined) {
  return routing !== undefined && 'sequence' in routing;
}

function isParallel(routing: RoutingStrategy | undefined) {
  return routing !== undefined && 'parallel' in routing;
}

function isSupervised(routing: RoutingStrategy | undefined) {
  return routing !== undefined && 'supervisor' in routing;
}

/** The team's prompt, followed by the agent's. */
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
