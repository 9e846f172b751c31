import {
  AgentLoopError,
  type Clock,
  type HookContext,
  invalidConfig,
  type Message,
  messageOf,
  shownValue,
} from '../core/contracts/index.ts';
import type { TurnResult } from '../core/journal/index.ts';
import { childResult, hookParentOf, TurnLost, withParent } from '../core/ownership/index.ts';
import { givenByCaller, type Turn } from '../core/turn/index.ts';
import type { Agent } from './agent.ts';

/** What a choice depends on. */
export interface RoutingRequest {
  /** The text of the user's last message. */
  readonly text: string;
  /** What the context remembers, and what the turn was given, with images and files. */
  readonly messages: readonly Message[];
  /** The agents of the team. */
  readonly agents: readonly Agent[];
  /** The agent that answers without a choice. */
  readonly current: Agent;
}

/** What a routing function receives besides the request: the turn that it decides for, and a way to ask agents. */
export interface RoutingContext
  extends Pick<HookContext, 'taskId' | 'contextId' | 'traceContext' | 'metadata' | 'authContext' | 'context'> {
  /** Aborted when the turn is cancelled or left, and when `routingTimeoutMs` is over. */
  readonly signal: AbortSignal;
  /**
   * Runs an agent in a child turn: what it uses counts for the turn, a cancel reaches it, and after a crash it continues, or has its result at
   * once. A child turn that still runs when the choice ends is cancelled. Rejects with a `TurnError` where it does not complete.
   */
  readonly ask: <V>(agent: Agent<V>, messages: readonly Message[]) => Promise<TurnResult<V>>;
}

/**
 * Chooses one agent for a message; `undefined` leaves it to the current one. It may answer with a promise, and ask a model. Asked once in a turn,
 * before the first model call; the choice is recorded, and a resumed turn keeps it. A process that dies before that record is replaced by one that
 * asks again. Where it fails, or takes longer than the `routingTimeoutMs` of the team, the turn fails with `EXTENSION_FAILED`.
 */
export interface Choice {
  readonly choose: (
    request: RoutingRequest,
    context: RoutingContext,
  ) => string | undefined | Promise<string | undefined>;
  /** Ids of agents that it cannot work without: `removeAgent` refuses them. Default none. */
  readonly needs?: readonly string[];
}

/**
 * A strategy whose turns finish with a value of type `V`, for types only; `unknown` where it does not tell, then it is that of any agent of the team.
 */
export interface Valued<V> {
  readonly '~value'?: V;
}

/** An agent of the team, or its id. An agent tells the type of the value that turns finish with. */
export type AgentRef<V = unknown> = string | Agent<V>;

/** Agents that answer one after another; see `inSequence`. */
export interface Sequence<V = unknown> extends Valued<V> {
  /** The ids of the agents, in order. */
  readonly sequence: readonly string[];
}

/** Agents that answer at the same time; see `inParallel`. */
export interface Parallel<V = unknown> extends Valued<V> {
  /** The ids of the agents that answer at the same time. */
  readonly parallel: readonly string[];
  /** Makes one text of their answers. */
  readonly join: Join;
  /** Answers in place of `join`. */
  readonly joiner?: string;
}

/** An agent that asks the others; see `supervisor`. */
export interface Supervised<V = unknown> extends Valued<V> {
  /** The id of the agent that asks the others. */
  readonly supervisor: string;
  /** How many model calls it may make in a turn. */
  readonly maxRounds: number;
  /** Whether it may hand the turn to another agent. */
  readonly mayHandOff: boolean;
}

/** How a team chooses who answers: made by `router`, `byRule`, `byRole`, `inSequence`, `inParallel` or `supervisor`. */
export type RoutingStrategy = Choice | Sequence | Parallel | Supervised;

/** A rule of `byRule`: the agent that answers where `when` matches the text of the last message. */
export interface Rule {
  /** An expression for the text, or a function, which may answer with a promise. */
  readonly when:
    | RegExp
    | ((text: string, request: RoutingRequest, context: RoutingContext) => boolean | Promise<boolean>);
  readonly agentId: string;
}

/** The agent of the first rule that fits. The rules are tried one after another. */
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

/** The role of a message, maybe as a promise; `undefined` leaves it to the current agent. */
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
 * Agents answer one after another in one turn. Each sees the conversation and the answers before its own; all of them stream, the last is the
 * answer.
 */
export function inSequence<const A extends readonly AgentRef[]>(agents: A): Sequence<LastValue<A>> {
  return { sequence: idsOf('inSequence', agents) };
}

/** The type of value of the last agent of a sequence, which is that of the whole sequence. */
export type LastValue<A> = A extends readonly [...unknown[], infer Last]
  ? Last extends Agent<infer V>
    ? V
    : unknown
  : unknown;

/** What one of several agents answered. */
export interface Answered {
  readonly agentId: string;
  readonly text: string;
}

/**
 * Makes one answer of several, maybe as a promise. `signal` is aborted when the turn is cancelled or left, and when `routingTimeoutMs` is over.
 * A process that dies before the answer is recorded is replaced by one that asks again.
 */
export type Join = (
  answers: readonly Answered[],
  context: { readonly signal: AbortSignal },
) => string | Promise<string>;

/** Options of `inParallel`: what makes one answer of several. */
export interface ParallelOptions {
  /** Makes one answer of theirs. Default: a paragraph each. */
  readonly join?: Join | undefined;
  /** The agent that makes one answer of theirs, in the same turn: it sees the conversation and what they answered. */
  readonly joiner?: AgentRef | undefined;
}

/**
 * Agents answer at the same time, each in a child turn that sees the conversation, and one answer is made of theirs. The text of each is
 * streamed as the artifact `answer-<n>.<index>`, whose name is the agent's id.
 */
export function inParallel<V = undefined>(
  agents: readonly AgentRef[],
  options?: ParallelOptions & { readonly joiner?: Agent<V> | undefined },
): Parallel<V>;
export function inParallel(agents: readonly AgentRef[], options: ParallelOptions): Parallel;
export function inParallel(agents: readonly AgentRef[], options: ParallelOptions = {}): Parallel {
  const parallel = idsOf('inParallel', agents);
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

/** Options of `supervisor`: its model calls, and whether it may hand the turn over. */
export interface SupervisorOptions {
  /** How many model calls the supervisor may make in a turn. Default 20. */
  readonly maxRounds?: number | undefined;
  /** Whether it may hand the turn to another agent, which answers in its place. Default true. */
  readonly mayHandOff?: boolean | undefined;
}

/**
 * An agent that answers with the help of the others: they are its tools, see `agentTools`, and it may ask them as often as it likes. Each sees
 * the conversation, with images, and the message of the call.
 */
export function supervisor<V>(
  agent: Agent<V>,
  options: SupervisorOptions & { readonly mayHandOff: false },
): Supervised<V>;
export function supervisor(agent: AgentRef, options?: SupervisorOptions): Supervised;
export function supervisor(agent: AgentRef, options: SupervisorOptions = {}): Supervised {
  const { maxRounds = 20, mayHandOff = true } = options;
  const agentId = assertId('supervisor', agent);
  if (!Number.isSafeInteger(maxRounds) || maxRounds < 1)
    throw invalidConfig('supervisor: maxRounds must be an integer of at least 1', 'or leave it out for 20');
  if (typeof mayHandOff !== 'boolean')
    throw invalidConfig('supervisor: mayHandOff must be true or false', 'or leave it out for true');
  return { supervisor: agentId, maxRounds, mayHandOff };
}

/**
 * A model chooses the agent that answers: the given agent reads the conversation in a child turn and answers with an id, alone or among other
 * words; of several, the first counts. Where it names none, the current one answers.
 */
export function router(agent: AgentRef): Choice {
  const agentId = assertId('router', agent);
  return {
    needs: [agentId],
    async choose({ messages, agents, current }, { ask }) {
      const asked = agents.find(({ id }) => id === agentId);
      if (!asked) throw invalidConfig(`router: "${agentId}" is not of the team`, 'add it to agents');
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

/** The first that stands as a word of its own; of two at one place the longer, since one id may begin with another. */
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

/** A global expression would remember where it was. */
function fits(when: Rule['when'], request: RoutingRequest, context: RoutingContext): boolean | Promise<boolean> {
  const { text } = request;
  if (typeof when === 'function') return when(text, request, context);
  return new RegExp(when.source, when.flags.replace(/[gy]/g, '')).test(text);
}

/** How long a function of the application may take. */
export interface RoutingLimit {
  readonly clock: Clock;
  /** Milliseconds; 0 means no limit. */
  readonly ms: number;
}

/**
 * Asks a choice once. Its child turns end with it, whichever way it ends. Errors: what carries a code as it is; `EXTENSION_FAILED` with the
 * cause for any other error, for a wrong answer and for a choice that takes longer than the limit; `TurnLost` where a child turn is lost:
 * the process that resumes the turn asks again.
 */
export async function askRouting(
  { choose }: Choice,
  request: RoutingRequest,
  { context, limit }: { readonly context: HookContext; readonly limit: RoutingLimit },
): Promise<string | undefined> {
  const children = new RoutingChildren(context);
  const failed = (cause: unknown) =>
    new AgentLoopError('EXTENSION_FAILED', `The routing of the team failed: ${messageOf(cause)}`, { cause });
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
 * What a function of the application answers, which gets a signal of its own: aborted with `signal`, and when the time is over. Rejects at once
 * then, whether the function stops or not. Errors: `EXTENSION_FAILED` for the limit; the reason of the signal; what the function throws.
 */
export async function limited<T>(
  who: string,
  call: (signal: AbortSignal) => T | Promise<T>,
  { signal, limit: { clock, ms } }: { readonly signal: AbortSignal | undefined; readonly limit: RoutingLimit },
): Promise<T> {
  signal?.throwIfAborted();
  const own = new AbortController();
  let stop = () => {};
  const stopped = new Promise<never>((_, reject) => {
    const end = (reason: unknown) => {
      own.abort(reason);
      reject(reason);
    };
    const aborted = () => end(signal?.reason);
    const late = () =>
      end(new AgentLoopError('EXTENSION_FAILED', `${who} did not answer within ${ms} ms (routingTimeoutMs).`));
    signal?.addEventListener('abort', aborted, { once: true });
    const stopTimer = ms > 0 ? clock.schedule(ms, late) : () => {};
    stop = () => {
      signal?.removeEventListener('abort', aborted);
      stopTimer();
    };
  });
  try {
    return await Promise.race([call(own.signal), stopped]);
  } finally {
    stop();
  }
}

/** The child turns that a choice has begun. */
class RoutingChildren {
  readonly #context: HookContext;
  readonly #running = new Set<Turn>();
  #asked = 0;
  #over = false;
  /** A child turn that this process lost loses the turn, also where the choice handles its error. */
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
    if (!parent) throw new AgentLoopError('INTERNAL', 'The routing of a team was asked without its turn.');
    const { taskId, contextId, traceContext, iteration } = context;
    const own = { taskId: `${taskId}.${iteration}.${name}`, contextId, parentContext: traceContext };
    const start = withParent({ ...own, ...givenByCaller(context) }, parent);
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

  /** Cancels those that still run, unless a turn that was lost is asked again elsewhere. Those that are left with their turn are so already, and stay open. */
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
