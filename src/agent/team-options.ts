import {
  type AssistantMessage,
  type Extension,
  type HookContext,
  type IterationView,
  invalidConfig,
  type Message,
  type MessageStore,
  type TaskStateStore,
  textOf,
} from '../core/contracts/index.ts';
import {
  aBoolean,
  aFunction,
  aName,
  checkNames,
  checkOptions,
  hasMethods,
  type OptionRule,
  wholeNumber,
} from '../options/option-rules.ts';
import type { Agent } from './agent.ts';
import type { AgentSettings, BusyPolicy, PromptFunction } from './agent-options.ts';
import type { RoutingStrategy } from './routing.ts';

/** Options of the turns of a team, which apply to all its agents. */
const turnOptions = [
  ...(['clock', 'generateId', 'logger', 'shutdown', 'leaseMs', 'storeDeadlineMs', 'queueTimeoutMs'] as const),
  ...([
    'abortGraceMs',
    'maxResumes',
    'retryPlan',
    'enableTracing',
    'captureContent',
    'redact',
    'spanNames',
    'subAgentEvents',
  ] as const),
  'taskStateStore' as const,
];

type TurnOption = (typeof turnOptions)[number];

/** The options that are set. */
export function turnOptionsOf(
  options: Partial<Pick<AgentSettings, TurnOption>>,
): Partial<Pick<AgentSettings, TurnOption>> {
  const names: readonly string[] = turnOptions;
  const given = Object.entries(options).filter(([name, value]) => names.includes(name) && value !== undefined);
  return Object.fromEntries(given);
}

/** Unset options of turns, such as `shutdown` and `leaseMs`, default to those of the first of `agents`. */
export interface TeamOptions extends Partial<Pick<AgentSettings, Exclude<TurnOption, 'taskStateStore'>>> {
  /** At least one; their ids differ. */
  readonly agents: readonly Agent[];
  /** The first agent to answer. Default: the first of `agents`. */
  readonly defaultAgentId?: string | undefined;
  /** The team's id in records, and in events before an agent has the turn. Default `team`. */
  readonly id?: string | undefined;
  /** Prepended to the system prompt of each agent, with an empty line in between. */
  readonly systemPrompt?: string | PromptFunction | undefined;
  /** Chooses the agent for a message without an `agentId`. Default: the current agent. */
  readonly routing?: RoutingStrategy | undefined;
  /**
   * The time limit of routing functions: `choose` with its child turns, rules, `join`. In milliseconds; default 120,000; 0 means
   * no limit. After it the turn fails with `EXTENSION_FAILED`.
   */
  readonly routingTimeoutMs?: number | undefined;
  /** Functions that change messages and answers. Default none. */
  readonly interceptors?: Interceptors | undefined;
  /** Extensions of all turns: limits, budgets, guardrails. They run before those of the agents. Default none. */
  readonly extensions?: readonly Extension[] | undefined;
  /**
   * Adds a tool `hand_off` to each agent, with which it hands the turn to another; that one becomes the current agent. Default false.
   */
  readonly handOff?: boolean | undefined;
  /** The maximum number of hand-offs per turn; beyond it the turn fails with `LIMIT`. From 0; default 10. */
  readonly maxHandOffs?: number | undefined;
  /**
   * Which earlier messages an agent receives when it takes a turn over. Default: all. `withoutCalls` removes the tool calls of the
   * others.
   */
  readonly view?: TeamView | undefined;
  /** The store of the conversation; replaces those of the agents. Default: in the memory of this process. */
  readonly messageStore?: MessageStore | undefined;
  /** The store of journals; replaces those of the agents. Default: that of the first agent. */
  readonly taskStateStore?: TaskStateStore | undefined;
  /** The context of turns without a `contextId`. Default: a new one. */
  readonly contextId?: string | undefined;
  /** Default `'reject'`. */
  readonly busy?: BusyPolicy | undefined;
}

const optionNames: readonly string[] = [
  ...turnOptions.filter((name) => name !== 'taskStateStore'),
  ...['agents', 'defaultAgentId', 'id', 'systemPrompt', 'routing', 'routingTimeoutMs', 'interceptors', 'handOff'],
  ...['maxHandOffs', 'view', 'extensions'],
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
  checkNames(options, optionNames, 'a team');
  checkRouting(options.routing);
  checkInterceptors(options.interceptors);
  checkOptions(options, rules);
}

const rules: Readonly<Partial<Record<keyof TeamOptions, OptionRule>>> = {
  id: { ...aName, must: 'be a non-empty text' },
  handOff: aBoolean,
  routingTimeoutMs: {
    fits: (value) => Number.isFinite(value) && Number(value) >= 0,
    must: 'be milliseconds from 0',
  },
  maxHandOffs: { ...wholeNumber(0), must: 'be an integer of at least 0' },
  view: { ...aFunction, cure: 'or give withoutCalls' },
};

function checkRouting(routing: unknown): void {
  if (routing === undefined || hasMethods(routing, ['choose'])) return;
  const made = ['sequence', 'parallel', 'supervisor'];
  if (typeof routing === 'object' && routing !== null && made.some((name) => name in routing)) return;
  throw invalidConfig(
    'routing must be a strategy',
    'give byRule([…]), router("id"), supervisor("id"), inSequence([…]), …',
  );
}

function checkInterceptors(interceptors: unknown): void {
  const known = (name: string) => name === 'outgoing' || name === 'incoming';
  const areFine = (value: object) => Object.keys(value).every((name) => known(name) && hasMethods(value, [name]));
  if (interceptors === undefined) return;
  if (typeof interceptors === 'object' && interceptors !== null && areFine(interceptors)) return;
  throw invalidConfig('interceptors must be functions', 'write interceptors: { outgoing, incoming }, or one of them');
}

/** Functions that change messages; models, stores and listeners receive the returned ones. */
export interface Interceptors {
  /** The user's messages, before any other use. */
  readonly outgoing?: (
    messages: readonly Message[],
    context: HookContext,
  ) => readonly Message[] | Promise<readonly Message[]>;
  /** An answer without calls, before it is recorded. Its streamed text has been emitted by then. */
  readonly incoming?: (message: AssistantMessage, context: HookContext) => AssistantMessage | Promise<AssistantMessage>;
}

export function interceptors({ outgoing, incoming }: Interceptors): Extension {
  return {
    name: 'interceptors',
    ...(outgoing && {
      beforeTurn: async (context) => ({ given: await outgoing(context.state.messages, context) }),
    }),
    ...(incoming && {
      async afterLLMCall(response, context) {
        const { message, toolCalls = [] } = response;
        if (message.role !== 'assistant' || toolCalls.length > 0 || (message.toolCalls ?? []).length > 0)
          return undefined;
        return { response: { ...response, message: await incoming(message, context) } };
      },
    }),
  };
}

/**
 * Changes the messages before its turn that an agent receives, including those of earlier turns; the history keeps all of them. `from`
 * is the previous agent, or the team at the start of a turn.
 */
export type TeamView = (
  messages: readonly Message[],
  change: { readonly from: string; readonly to: string },
) => readonly Message[];

/** A view without tool calls and their results: text is kept. */
export function withoutCalls(messages: readonly Message[]): readonly Message[] {
  return messages.flatMap((message) => {
    if (message.role === 'tool') return [];
    if (message.role !== 'assistant' || !message.toolCalls) return [message];
    const { toolCalls: _, ...said } = message;
    return textOf(said.content) === '' ? [] : [said];
  });
}

/** Applies a view of a team to the messages of its agents. */
export function teamView(view: TeamView): Extension {
  return {
    name: 'team-view',
    prepareIteration(shown, context) {
      const { from } = context.state.segment;
      const start = ownFrom(shown, context);
      const before = view(shown.messages.slice(0, start), { from, to: context.agentId });
      if (!Array.isArray(before)) throw new TypeError('view of the team must return an array of messages');
      return { view: { messages: [...before, ...shown.messages.slice(start)] } };
    },
  };
}

/** Where the agent's own part of a view begins; other extensions may have shortened the part before it. */
function ownFrom({ messages }: IterationView, { state }: HookContext): number {
  const own = new Set(state.messages.slice(state.segment.messages));
  const start = messages.findIndex((message) => own.has(message));
  return start < 0 ? messages.length : start;
}
