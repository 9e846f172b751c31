import { childResult, hookParentOf, TurnLost, withParent } from '../core/child-turns.ts';
import type { AgentLoopConfig, AgentSetup } from '../core/config.ts';
import { AgentLoopError, messageOf } from '../core/errors.ts';
import type { Extension } from '../core/extension.ts';
import { givenByCaller } from '../core/given-by-caller.ts';
import { invalidConfig } from '../core/invalid-config.ts';
import { textOf } from '../core/messages.ts';
import type { AgentChoice } from '../core/records.ts';
import { shownValue } from '../core/shown-value.ts';
import type { LLMProvider } from '../providers/interfaces.ts';
import type { MessageStore } from '../stores/messages/message-store.ts';
import type { ToolProvider } from '../tools/interfaces.ts';
import { Agent, agent } from './agent.ts';
import type { TeamMembers } from './agent-internals.ts';
import type { AgentSettings, Dependencies, PromptFunction } from './agent-options.ts';
import { agentTools } from './agent-tools.ts';
import { cancelOfChildren, withCancelOutside } from './cancel-outside.ts';
import type { Opening, OpeningRequest } from './conversation.ts';
import { handOff } from './hand-off.ts';
import { interceptors } from './interceptors.ts';
import type { RoutingContext, RoutingRequest, RoutingStrategy } from './routing.ts';
import { conversationOnly, joinBy, parallelModel, parallelTools, takeTurns } from './strategies.ts';
import { type TeamOptions, turnOptionsOf } from './team-options.ts';
import { teamView } from './team-view.ts';

/** What the agents of a team have in common. */
export interface SharedConversation {
  readonly id: string;
  readonly contextId: string;
  readonly messageStore: MessageStore;
}

/** The agents of a team as they were registered, and what the team makes of them. */
export class Roster {
  readonly #team: TeamOptions;
  readonly #shared: SharedConversation;
  readonly #agents = new Map<string, Agent>();
  /** With the prompt of the team. */
  readonly #members = new Map<string, Agent>();
  #setups = new Map<string, AgentSetup>();

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
    if (added.isTeam && this.#mayHaveTheTurn(added.id))
      throw invalidConfig(
        `agent "${added.id}" is a team, which cannot be handed a turn`,
        'add its agents, or give it to agentTools',
      );
    if (this.has(added.id) || added.id === this.#shared.id) {
      throw invalidConfig(`two agents have the id "${added.id}"`, 'give each its own');
    }
    this.#agents.set(added.id, added);
    this.#members.set(added.id, added.variant(this.#changesOf(added)));
    this.#setups = new Map();
  }

  /** Others are asked in child turns only. */
  #mayHaveTheTurn(id: string): boolean {
    const { routing, handOff: handsOff = false } = this.#team;
    if (isParallel(routing)) return routing.joiner === id;
    return !isSupervised(routing) || routing.supervisor === id || routing.mayHandOff || handsOff;
  }

  /** Errors: `INVALID_INPUT`. */
  agentOf(id: string): Agent {
    const found = this.#agents.get(id);
    if (found) return found;
    throw new AgentLoopError('INVALID_INPUT', `Agent ${shownValue(id)} is not of the team; ${this.known}.`);
  }

  /** Runs the turns of the team: its agents are those that a turn is handed to. */
  coordinator(defaultId: string): Agent {
    const { busy = 'reject', interceptors: intercepting, routing } = this.#team;
    const { id, contextId, messageStore } = this.#shared;
    const first = this.agentOf(defaultId);
    const options = {
      ...turnOptionsOf(this.all[0]?.options ?? {}),
      ...turnOptionsOf(this.#team),
      ...this.#ownPart(routing),
      id,
      contextId,
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
        for (const { agentId, usage } of used) this.#agents.get(agentId)?.countUsage(usage);
      },
      compactedBy: first,
    };
    return agent(options).withInternals({}, { members, endsOnly: isParallel(routing) });
  }

  /** What the team itself runs a turn with: nothing but for answers in parallel. */
  #ownPart(routing: RoutingStrategy | undefined): Pick<AgentSettings, 'provider'> & Partial<AgentSettings> {
    if (!isParallel(routing)) return { provider: nobody };
    const asked = () => routing.parallel.map((id) => this.#childOf(id));
    const tools: { made?: ToolProvider } = {};
    const made = () => {
      tools.made ??= parallelTools(asked());
      return tools.made;
    };
    return {
      provider: parallelModel(routing, (id) => this.agentOf(id)),
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
    if (!this.all.some(({ toolsDepend }) => toolsDepend)) {
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

  /** What a member brings to a turn, with what the team and its strategy add. */
  #setupOf(id: string, dependencies: Dependencies): AgentSetup | undefined {
    const own = this.#members.get(id)?.setupWith(dependencies);
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
    const helpers = agentTools(
      others().map((each) => this.#childOf(each.id)),
      { pass: (messages, message) => [...conversationOnly(messages), message] },
    );
    const toolProviders = [...(own.toolProviders ?? []), helpers];
    return { ...own, extensions, toolProviders, maxIterations: leads.maxRounds };
  }

  /** A member as it answers in a child turn. */
  #childOf(id: string): Agent {
    const { incoming } = this.#team.interceptors ?? {};
    const original = this.agentOf(id);
    const member = this.#members.get(id) ?? original;
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

  /** Errors: `EXTENSION_FAILED` where the routing fails; what carries a code passes as it is. */
  #opening(defaultId: string): Opening {
    const { routing } = this.#team;
    return async (request) => {
      const current = this.agentOf(this.currentId(request.current, defaultId));
      if (isSequence(routing)) return { agent: this.#routed(routing.sequence[0]) };
      if (isSupervised(routing)) return { agent: this.#routed(routing.supervisor) };
      if (isParallel(routing)) return {};
      if (!routing) return { agent: { to: current.id, reason: 'current' } };
      const id = await chosen(routing, this.#requestOf(request, current), contextOf(request));
      const agent: AgentChoice = id === undefined ? { to: current.id, reason: 'current' } : this.#routed(id);
      return { agent };
    };
  }

  /** The agent that answers next, as the message store has it; the default where it has none, or one that is not of the team any more. */
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

/** Of answers in parallel. */
const mostRounds = 100;
const mostAtATime = 20;

/** A turn of a team makes no model call before it has an agent. */
const nobody: LLMProvider = {
  call: () => Promise.reject(new AgentLoopError('INTERNAL', 'The team made a model call without an agent.')),
};

function isSequence(routing: RoutingStrategy | undefined) {
  return routing !== undefined && 'sequence' in routing;
}

function isParallel(routing: RoutingStrategy | undefined) {
  return routing !== undefined && 'parallel' in routing;
}

function isSupervised(routing: RoutingStrategy | undefined) {
  return routing !== undefined && 'supervisor' in routing;
}

function contextOf({ context }: OpeningRequest): RoutingContext {
  const { taskId, contextId, traceContext, signal, iteration } = context;
  let asked = 0;
  const ask: RoutingContext['ask'] = (agent, messages) => {
    const name = asked === 0 ? 'route' : `route${asked}`;
    asked++;
    const parent = hookParentOf(context, name);
    if (!parent) throw new AgentLoopError('INTERNAL', 'The routing of a team was asked without its turn.');
    const own = { taskId: `${taskId}.${iteration}.${name}`, contextId, parentContext: traceContext };
    const start = withParent({ ...own, ...givenByCaller(context) }, parent);
    return childResult(parent, () => agent.startTurn(messages, start));
  };
  return { taskId, contextId, traceContext, signal, ask };
}

async function chosen(
  routing: Extract<RoutingStrategy, { choose: unknown }>,
  request: RoutingRequest,
  context: RoutingContext,
): Promise<string | undefined> {
  try {
    const id: unknown = await routing.choose(request, context);
    if (id === undefined || typeof id === 'string') return id;
    throw new TypeError(`choose must return the id of an agent, or undefined, not ${shownValue(id)}`);
  } catch (error) {
    if (AgentLoopError.isInstance(error) || TurnLost.isInstance(error)) throw error;
    throw new AgentLoopError('EXTENSION_FAILED', `The routing of the team failed: ${messageOf(error)}`, {
      cause: error,
    });
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
