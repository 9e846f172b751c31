import { childTaskId } from '../child-task-id.ts';
import {
  AgentLoopError,
  type Clock,
  type HookContext,
  invalidConfig,
  type Message,
  reasonOf,
  shownValue,
} from '../core/contracts/index.ts';
import type { TurnResult } from '../core/journal/index.ts';
import { TurnLost } from '../core/ownership/index.ts';
import { AbortScope, within } from '../core/streams/index.ts';
import { assertKnownOptions } from '../options/option-rules.ts';
import { givenByCaller } from '../tasks/agent-loop.ts';
import { childResult, hookParentOf } from '../tasks/child-turn.ts';
import type { Turn } from '../tasks/turn.ts';
import type { Agent } from './agent.ts';

/** The input of a choice. */
export interface RoutingRequest {
  /** The text of the user's last message. */
  readonly text: string;
  /** The history of the context and the turn's input, with images and files. */
  readonly messages: readonly Message[];
  /** The agents of the team. */
  readonly agents: readonly Agent[];
  /** The agent that answers without a choice. */
  readonly current: Agent;
}

/** The context of a routing function: the turn that it decides for, and a function that asks agents. */
export interface RoutingContext
  extends Pick<HookContext, 'taskId' | 'contextId' | 'traceContext' | 'metadata' | 'authContext' | 'context'> {
  /** Aborted when the turn is cancelled or lost, and after `routingTimeoutMs`. */
  readonly signal: AbortSignal;
  /**
   * Runs an agent in a child turn: its usage counts for the turn, a cancel reaches it, and after a crash it continues, or returns its recorded
   * result. A child turn that still runs when the choice ends is cancelled. Rejects with a `TurnError` if it does not complete.
   */
  readonly ask: <V>(agent: Agent<V>, messages: readonly Message[]) => Promise<TurnResult<V>>;
}

/**
 * Chooses one agent for a message; `undefined` keeps the current one. May return a promise, and call a model. Called once per turn,
 * before the first model call; the choice is recorded, and a resumed turn keeps it. If the process crashes before that record, the next owner
 * calls it again. If it fails, or takes longer than the team's `routingTimeoutMs`, the turn fails with `EXTENSION_FAILED`.
 */
export interface Choice {
  readonly choose: (
    request: RoutingRequest,
    context: RoutingContext,
  ) => string | undefined | Promise<string | undefined>;
  /** Ids of agents that it needs: `removeAgent` refuses them. Default none. */
  readonly needs?: readonly string[];
}

/**
 * A strategy whose turns finish with a value of type `V`, for types only; with `unknown` it is the value of any agent of the team.
 */
export interface Valued<V> {
  readonly '~value'?: V;
}

/** An agent of the team, or its id. An agent provides the type of the turns' value. */
export type AgentRef<V = unknown> = string | Agent<V>;

/** Agents that answer in sequence; see `inSequence`. */
export interface Sequence<V = unknown> extends Valued<V> {
  /** The ids of the agents, in order. */
  readonly sequence: readonly string[];
}

/** Agents that answer in parallel; see `inParallel`. */
export interface Parallel<V = unknown> extends Valued<V> {
  /** The ids of the agents that answer in parallel. */
  readonly parallel: readonly string[];
  /** Merges their answers into one text. */
  readonly join: Join;
  /** The agent that answers instead of `join`. */
  readonly joiner?: string;
}

/** An agent that calls the others; see `supervisor`. */
export interface Supervised<V = unknown> extends Valued<V> {
  /** The id of the agent that calls the others. */
  readonly supervisor: string;
  /** The maximum number of its model calls per turn. */
  readonly maxRounds: number;
  /** Whether it may hand the turn to another agent. */
  readonly mayHandOff: boolean;
}

/** How a team chooses the agent that answers: created by `router`, `byRule`, `byRole`, `inSequence`, `inParallel` or `supervisor`. */
export type RoutingStrategy = Choice | Sequence | Parallel | Supervised;

/** A rule of `byRule`: the agent that answers if `when` matches the text of the last message. */
export interface Rule {
  /** A regular expression for the text, or a function, which may return a promise. */
  readonly when:
    | RegExp
    | ((text: string, request: RoutingRequest, context: RoutingContext) => boolean | Promise<boolean>);
  readonly agentId: string;
}

/** The agent of the first rule that matches. The rules are evaluated in order. */
export function byRule(rules: readonly Rule[]): Choice {
  const isRule = ({ when, agentId }: Rule) =>
    (when instanceof RegExp || typeof when === 'function') && typeof agentId === 'string';
  if (!Array.isArray(rules) || !rules.every((rule) => typeof rule === 'object' && rule !== null && isRule(rule)))
    throw invalidConfig('byRule needs rules', 'write byRule([{ when: /contract/i, agentId: "lawyer" }])');
  return {
    async choose(request, context) {
      for (const { when, agentId } of rules) if (await fits(when, request, context)) return agentId;
      return undefined;
    },
  };
}

/** Returns the role of a message, or a promise of it; `undefined` keeps the current agent. */
export type RoleOf = (
  text: string,
  request: RoutingRequest,
  context: RoutingContext,
) => string | undefined | Promise<string | undefined>;

/** The first agent whose `metadata.role` is the role of the message. */
export function byRole(roleOf: RoleOf): Choice {
  if (typeof roleOf !== 'function') throw invalidConfig('byRole needs a function', 'write byRole((text) => "sales")');
  return {
    async choose(request, context) {
      const { text, agents } = request;
      const role = await roleOf(text, request, context);
      return role === undefined ? undefined : agents.find(({ options }) => options.metadata?.['role'] === role)?.id;
    },
  };
}

/**
 * Agents answer in sequence in one turn. Each receives the conversation and the preceding answers; all of them stream, and the last one's is the
 * answer.
 */
export function inSequence<const A extends readonly AgentRef[]>(agents: A): Sequence<LastValue<A>> {
  return { sequence: idsOf('inSequence', agents) };
}

/** The value type of the last agent of a sequence, which is that of the whole sequence. */
export type LastValue<A> = A extends readonly [...unknown[], infer Last]
  ? Last extends Agent<infer V>
    ? V
    : unknown
  : unknown;

/** The answer of one of several agents. */
export interface Answered {
  readonly agentId: string;
  readonly text: string;
}

/**
 * Merges several answers into one, also asynchronously. `signal` is aborted when the turn is cancelled or lost, and after `routingTimeoutMs`.
 * If the process crashes before the answer is recorded, the next owner calls it again.
 */
export type Join = (
  answers: readonly Answered[],
  context: { readonly signal: AbortSignal },
) => string | Promise<string>;

/** Options of `inParallel`: how the answers are merged. */
export interface ParallelOptions {
  /** Merges the answers. Default: a paragraph each. */
  readonly join?: Join | undefined;
  /** The agent that merges the answers, in the same turn: it receives the conversation and the answers. */
  readonly joiner?: AgentRef | undefined;
}

/**
 * Agents answer in parallel, each in a child turn that receives the conversation, and their answers are merged into one. The text of each is
 * streamed as the artifact `answer-<n>.<index>`, whose name is the agent's id.
 */
export function inParallel<V = undefined>(
  agents: readonly AgentRef[],
  options?: ParallelOptions & { readonly joiner?: Agent<V> | undefined },
): Parallel<V>;
export function inParallel(agents: readonly AgentRef[], options: ParallelOptions): Parallel;
export function inParallel(agents: readonly AgentRef[], options: ParallelOptions = {}): Parallel {
  const parallel = idsOf('inParallel', agents);
  assertKnownOptions('inParallel', options, { join: true, joiner: true });
  const { join = paragraphs, joiner } = options;
  if (typeof join !== 'function') throw invalidConfig('inParallel: join must be a function', 'or leave it out');
  if (joiner === undefined) return { parallel, join };
  const id = idOf(joiner);
  if (id === undefined) throw invalidConfig('inParallel: joiner must be an agent or its id', 'or leave it out');
  return { parallel, join, joiner: id };
}

function paragraphs(answers: readonly Answered[]): string {
  return answers.map(({ text }) => text).join('\n\n');
}

/** Options of `supervisor`. */
export interface SupervisorOptions {
  /** The maximum number of the supervisor's model calls per turn. Default 20. */
  readonly maxRounds?: number | undefined;
  /** Whether it may hand the turn to another agent, which then answers. Default true. */
  readonly mayHandOff?: boolean | undefined;
}

/**
 * An agent that answers with the help of the others: they are its tools, see `agentTools`, and it may call them any number of times. Each receives
 * the conversation, with images, and the message of the call.
 */
export function supervisor<V>(
  agent: Agent<V>,
  options: SupervisorOptions & { readonly mayHandOff: false },
): Supervised<V>;
export function supervisor(agent: AgentRef, options?: SupervisorOptions): Supervised;
export function supervisor(agent: AgentRef, options: SupervisorOptions = {}): Supervised {
  assertKnownOptions('supervisor', options, { maxRounds: true, mayHandOff: true });
  const { maxRounds = 20, mayHandOff = true } = options;
  const agentId = assertId('supervisor', agent);
  if (!Number.isSafeInteger(maxRounds) || maxRounds < 1)
    throw invalidConfig('supervisor: maxRounds must be an integer of at least 1', 'or leave it out for 20');
  if (typeof mayHandOff !== 'boolean')
    throw invalidConfig('supervisor: mayHandOff must be true or false', 'or leave it out for true');
  return { supervisor: agentId, maxRounds, mayHandOff };
}

/**
 * A model chooses the agent that answers: the passed agent receives the conversation in a child turn and answers with an id, possibly among other
 * words; the first id counts. If it names none, the current agent answers.
 */
export function router(agent: AgentRef): Choice {
  const agentId = assertId('router', agent);
  return {
    needs: [agentId],
    async choose({ messages, agents, current }, { ask }) {
      const asked = agents.find(({ id }) => id === agentId);
      if (!asked) throw invalidConfig(`router: "${agentId}" is not in the team`, 'add it to agents');
      const others = agents.filter(({ id }) => id !== agentId);
      const { text } = await ask(asked, [...messages, { role: 'user', content: questionOf(others) }]);
      return namedIn(text, others)?.id ?? (current.id === agentId ? others[0]?.id : undefined);
    },
  };
}

function idsOf(strategy: string, agents: readonly AgentRef[]): readonly string[] {
  const ids = Array.isArray(agents) ? agents.map(idOf) : [];
  if (ids.length > 0 && ids.every((id) => id !== undefined)) return ids;
  throw invalidConfig(`${strategy} needs agents or their ids`, `write ${strategy}(["a", "b"])`);
}

function assertId(strategy: string, agent: AgentRef): string {
  const id = idOf(agent);
  if (id !== undefined && id !== '') return id;
  throw invalidConfig(`${strategy} needs an agent or its id`, `write ${strategy}("lead")`);
}

function idOf(agent: unknown): string | undefined {
  const id: unknown = typeof agent === 'object' && agent !== null && 'id' in agent ? agent.id : agent;
  return typeof id === 'string' ? id : undefined;
}

function questionOf(agents: readonly Agent[]): string {
  const list = agents.map(({ id, options }) => `- ${id}: ${options.description ?? 'no description'}`);
  return ['Which of these agents shall answer the message above? Answer with its id only.', ...list].join('\n');
}

/** The first id that is a separate word; at equal positions the longer one, since one id may begin with another. */
function namedIn(text: string, agents: readonly Agent[]): Agent | undefined {
  const named = agents.flatMap((agent) => placesOf(agent.id, text).map((place) => ({ agent, place })));
  return named.sort((a, b) => a.place - b.place || b.agent.id.length - a.agent.id.length)[0]?.agent;
}

function placesOf(word: string, text: string): readonly number[] {
  const places: number[] = [];
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    const around = [text[at - 1] ?? ' ', text[at + word.length] ?? ' '];
    if (!around.some((letter) => /[\p{L}\p{N}_-]/u.test(letter))) places.push(at);
  }
  return places;
}

/** A global regular expression would keep its `lastIndex`. */
function fits(when: Rule['when'], request: RoutingRequest, context: RoutingContext): boolean | Promise<boolean> {
  const { text } = request;
  if (typeof when === 'function') return when(text, request, context);
  return new RegExp(when.source, when.flags.replace(/[gy]/g, '')).test(text);
}

/** The time limit of an application's function. */
export interface RoutingLimit {
  readonly clock: Clock;
  /** Milliseconds; 0 means no limit. */
  readonly ms: number;
}

/**
 * Calls a choice once. Its child turns end with it. Errors: an error with a code is passed on; `EXTENSION_FAILED` with the
 * cause for any other error, for an invalid answer and after the time limit; `TurnLost` if a child turn is lost:
 * the process that resumes the turn calls it again.
 */
export async function askRouting(
  { choose }: Choice,
  request: RoutingRequest,
  { context, limit }: { readonly context: HookContext; readonly limit: RoutingLimit },
): Promise<string | undefined> {
  const children = new RoutingChildren(context);
  const failed = (cause: unknown) =>
    new AgentLoopError('EXTENSION_FAILED', `The routing of the team failed: ${reasonOf(cause)}`, { cause });
  try {
    const ask = (signal: AbortSignal) => choose(request, routingContext(context, signal, children));
    const id: unknown = await limited('The routing of the team', ask, { signal: context.signal, limit });
    if (children.lost) throw children.lost;
    if (id === undefined || typeof id === 'string') return id;
    throw failed(new TypeError(`choose must return the id of an agent, or undefined, not ${shownValue(id)}`));
  } catch (error) {
    throw children.lost ?? (AgentLoopError.isInstance(error) || TurnLost.isInstance(error) ? error : failed(error));
  } finally {
    await children.end();
  }
}

/**
 * Calls a function of the application with its own signal: aborted with `signal`, and after the time limit. Rejects at once
 * then, even if the function does not stop. Errors: `EXTENSION_FAILED` for the limit; the reason of the signal; those of the function.
 */
export async function limited<T>(
  who: string,
  call: (signal: AbortSignal) => T | Promise<T>,
  { signal, limit: { clock, ms } }: { readonly signal: AbortSignal | undefined; readonly limit: RoutingLimit },
): Promise<T> {
  signal?.throwIfAborted();
  const own = new AbortScope();
  if (signal) own.follow(signal);
  const late = () => {
    const error = new AgentLoopError('EXTENSION_FAILED', `${who} did not answer within ${ms} ms (routingTimeoutMs).`);
    own.abort(error);
    return error;
  };
  return within({ ms, clock, signal: own.signal, late }, () => call(own.signal)).finally(() => own.release());
}

/** The child turns that a choice has started. */
class RoutingChildren {
  readonly #context: HookContext;
  readonly #running = new Set<Turn>();
  #asked = 0;
  #over = false;
  /** A lost child turn loses the turn, even if the choice handles its error. */
  lost: TurnLost | undefined;

  constructor(context: HookContext) {
    this.#context = context;
  }

  readonly ask: RoutingContext['ask'] = async <V>(agent: Agent<V>, messages: readonly Message[]) => {
    const context = this.#context;
    if (this.#over) throw new AgentLoopError('INVALID_INPUT', 'ask was called after its choice had ended.');
    const name = this.#asked === 0 ? 'route' : `route${this.#asked}`;
    this.#asked++;
    const parent = hookParentOf(context, name);
    if (!parent) throw new AgentLoopError('INTERNAL', 'The routing of a team was called without its turn.');
    const { taskId, contextId, traceContext, iteration } = context;
    const own = { taskId: childTaskId(`${taskId}.${iteration}.${name}`), contextId, parentContext: traceContext };
    const start = { ...own, ...givenByCaller(context), parent };
    let turn: Turn | undefined;
    const open = () => {
      const opened = agent.startTurn(messages, start);
      turn = opened;
      this.#running.add(opened);
      return opened;
    };
    try {
      return await childResult(parent, open);
    } catch (error) {
      if (TurnLost.isInstance(error)) this.lost ??= error;
      throw error;
    } finally {
      if (turn) this.#running.delete(turn);
    }
  };

  /** Cancels those that still run, unless the turn was lost and the choice is called again elsewhere. Child turns lost with their turn stay open. */
  async end(): Promise<void> {
    this.#over = true;
    if (this.lost) return;
    await Promise.allSettled([...this.#running].map((turn) => turn.cancel('the routing has ended')));
  }
}

function routingContext(context: HookContext, signal: AbortSignal, { ask }: RoutingChildren): RoutingContext {
  const { taskId, contextId, traceContext, metadata, authContext } = context;
  return { taskId, contextId, traceContext, metadata, authContext, context: context.context, signal, ask };
}
