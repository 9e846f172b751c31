import type { HookContext } from '../core/extension.ts';
import { invalidConfig } from '../core/invalid-config.ts';
import type { Message } from '../core/messages.ts';
import type { TurnResult } from '../core/turn-result.ts';
import type { Agent } from './agent.ts';

/** What a choice depends on. */
export interface RoutingRequest {
  /** The text of the user's last message. */
  readonly text: string;
  /** What the context remembers, and what the turn was given, with images and files. */
  readonly messages: readonly Message[];
  readonly agents: readonly Agent[];
  /** The agent that answers without a choice. */
  readonly current: Agent;
}

export interface RoutingContext extends Pick<HookContext, 'taskId' | 'contextId' | 'traceContext'> {
  /** Aborted when the turn is cancelled or left. */
  readonly signal: AbortSignal;
  /**
   * Runs an agent in a child turn: what it uses counts for the turn, a cancel reaches it, and after a crash it continues, or has its result at
   * once. Rejects with a `TurnError` where it does not complete.
   */
  readonly ask: (agent: Agent, messages: readonly Message[]) => Promise<TurnResult>;
}

/**
 * Chooses one agent for a message; `undefined` leaves it to the current one. It may ask a model. Asked once in a turn, before the first model
 * call; the choice is recorded, and a resumed turn keeps it. Where it fails, the turn fails with `EXTENSION_FAILED`.
 */
export interface Choice {
  readonly choose: (
    request: RoutingRequest,
    context: RoutingContext,
  ) => string | undefined | Promise<string | undefined>;
}

/** Agents that answer one after another; see `inSequence`. */
export interface Sequence {
  readonly sequence: readonly string[];
}

/** Agents that answer at the same time; see `inParallel`. */
export interface Parallel {
  readonly parallel: readonly string[];
  readonly join: (answers: readonly Answered[]) => string;
  /** Answers in place of `join`. */
  readonly joiner?: string;
}

/** An agent that asks the others; see `supervisor`. */
export interface Supervised {
  readonly supervisor: string;
  readonly maxRounds: number;
  readonly mayHandOff: boolean;
}

export type RoutingStrategy = Choice | Sequence | Parallel | Supervised;

export interface Rule {
  /** An expression or a function of the text. */
  readonly when: RegExp | ((text: string) => boolean);
  readonly agentId: string;
}

/** The agent of the first rule that fits. */
export function byRule(rules: readonly Rule[]): Choice {
  const isRule = ({ when, agentId }: Rule) =>
    (when instanceof RegExp || typeof when === 'function') && typeof agentId === 'string';
  if (!Array.isArray(rules) || !rules.every((rule) => typeof rule === 'object' && rule !== null && isRule(rule)))
    throw invalidConfig('byRule needs rules', 'write byRule([{ when: /contract/i, agentId: "lawyer" }])');
  return { choose: ({ text }) => rules.find(({ when }) => fits(when, text))?.agentId };
}

/** The first agent whose `metadata.role` is the role of the message. */
export function byRole(roleOf: (text: string) => string | undefined): Choice {
  if (typeof roleOf !== 'function') throw invalidConfig('byRole needs a function', 'write byRole((text) => "sales")');
  return {
    choose({ text, agents }) {
      const role = roleOf(text);
      return role === undefined ? undefined : agents.find(({ options }) => options.metadata?.['role'] === role)?.id;
    },
  };
}

/**
 * Agents answer one after another in one turn. Each sees the conversation and the answers before its own; all of them stream, the last is the
 * answer.
 */
export function inSequence(agentIds: readonly string[]): Sequence {
  assertIds('inSequence', agentIds);
  return { sequence: [...agentIds] };
}

/** What one of several agents answered. */
export interface Answered {
  readonly agentId: string;
  readonly text: string;
}

export interface ParallelOptions {
  /** Makes one answer of theirs. Default: a paragraph each. */
  readonly join?: ((answers: readonly Answered[]) => string) | undefined;
  /** The agent that makes one answer of theirs, in the same turn: it sees the conversation and what they answered. */
  readonly joiner?: string | undefined;
}

/**
 * Agents answer at the same time, each in a child turn that sees the conversation, and one answer is made of theirs. The text of each is
 * streamed as the artifact `answer-<n>.<index>`, whose name is the agent's id.
 */
export function inParallel(agentIds: readonly string[], options: ParallelOptions = {}): Parallel {
  assertIds('inParallel', agentIds);
  const { join = paragraphs, joiner } = options;
  if (typeof join !== 'function') throw invalidConfig('inParallel: join must be a function', 'or leave it out');
  if (joiner !== undefined && typeof joiner !== 'string')
    throw invalidConfig('inParallel: joiner must be the id of an agent', 'or leave it out');
  return { parallel: [...agentIds], join, ...(joiner !== undefined && { joiner }) };
}

function paragraphs(answers: readonly Answered[]): string {
  return answers.map(({ text }) => text).join('\n\n');
}

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
export function supervisor(agentId: string, options: SupervisorOptions = {}): Supervised {
  const { maxRounds = 20, mayHandOff = true } = options;
  assertId('supervisor', agentId);
  if (!Number.isSafeInteger(maxRounds) || maxRounds < 1)
    throw invalidConfig('supervisor: maxRounds must be an integer of at least 1', 'or leave it out for 20');
  if (typeof mayHandOff !== 'boolean')
    throw invalidConfig('supervisor: mayHandOff must be true or false', 'or leave it out for true');
  return { supervisor: agentId, maxRounds, mayHandOff };
}

/**
 * A model chooses the agent that answers: the agent `agentId` reads the conversation in a child turn and answers with an id, alone or among other
 * words; of several, the first counts. Where it names none, the current one answers.
 */
export function router(agentId: string): Choice {
  assertId('router', agentId);
  return {
    async choose({ messages, agents, current }, { ask }) {
      const asked = agents.find(({ id }) => id === agentId);
      if (!asked) throw invalidConfig(`router: "${agentId}" is not of the team`, 'add it to agents');
      const others = agents.filter(({ id }) => id !== agentId);
      const { text } = await ask(asked, [...messages, { role: 'user', content: questionOf(others) }]);
      return namedIn(text, others)?.id ?? (current.id === agentId ? others[0]?.id : undefined);
    },
  };
}

function assertIds(strategy: string, agentIds: readonly string[]): void {
  if (Array.isArray(agentIds) && agentIds.length > 0 && agentIds.every((id) => typeof id === 'string')) return;
  throw invalidConfig(`${strategy} needs ids of agents`, `write ${strategy}(["a", "b"])`);
}

function assertId(strategy: string, agentId: string): void {
  if (typeof agentId === 'string' && agentId !== '') return;
  throw invalidConfig(`${strategy} needs the id of an agent`, `write ${strategy}("lead")`);
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
function fits(when: Rule['when'], text: string): boolean {
  return typeof when === 'function' ? when(text) : new RegExp(when.source, when.flags.replace(/[gy]/g, '')).test(text);
}
