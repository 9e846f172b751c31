import { invalidConfig } from '../core/invalid-config.ts';
import type { Agent } from './agent.ts';

/** What a strategy decides by. */
export interface RoutingRequest {
  /** The text of the user's last message. */
  readonly text: string;
  readonly agents: readonly Agent[];
  /** The agent that would answer without a strategy; for a plan, that of the team's own context. */
  readonly current: Agent;
}

/**
 * Chooses one agent by the message, at once; `undefined` leaves it to the current one. That agent's turn is the turn. Where it fails, so does
 * `startTurn`, with `EXTENSION_FAILED`.
 */
export interface Choice {
  readonly choose: (request: RoutingRequest) => string | undefined;
}

/** What an agent is asked within a plan. */
export interface Assignment {
  readonly agentId: string;
  readonly message: string;
}

/** What a plan wants next: answers of agents, asked at the same time, or the end. */
export type PlanStep = { readonly ask: readonly Assignment[] } | { readonly answer: string };

export interface PlanProgress extends RoutingRequest {
  /** The answers so far, round by round, each in the order of its assignments. */
  readonly rounds: readonly (readonly string[])[];
}

/**
 * Several agents for one message. `next` is asked before each round, and again for every round on resume: the same progress has to give
 * the same step. The turn is the team's; those of the agents are below it, see `agentTools`.
 */
export interface Plan {
  readonly next: (progress: PlanProgress) => PlanStep;
}

export type RoutingStrategy = Choice | Plan;

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

/** One after another: the first gets the message, each other one the answer of the one before it; the last answer is the team's. */
export function inSequence(agentIds: readonly string[]): Plan {
  assertIds('inSequence', agentIds);
  return {
    next({ text, rounds }) {
      const message = rounds.at(-1)?.[0] ?? text;
      const agentId = agentIds[rounds.length];
      return agentId === undefined ? { answer: message } : { ask: [{ agentId, message }] };
    },
  };
}

function assertIds(strategy: string, agentIds: readonly string[]): void {
  if (Array.isArray(agentIds) && agentIds.length > 0 && agentIds.every((id) => typeof id === 'string')) return;
  throw invalidConfig(`${strategy} needs ids of agents`, `write ${strategy}(["a", "b"])`);
}

/** What one of several agents answered. */
export interface Answered {
  readonly agentId: string;
  readonly text: string;
}

/** All at the same time, each with the message; `join` makes one answer of theirs, by default a paragraph each. */
export function inParallel(
  agentIds: readonly string[],
  join: (answers: readonly Answered[]) => string = (answers) => answers.map(({ text }) => text).join('\n\n'),
): Plan {
  assertIds('inParallel', agentIds);
  return {
    next({ text, rounds: [answers] }) {
      if (!answers) return { ask: agentIds.map((agentId) => ({ agentId, message: text })) };
      return { answer: join(agentIds.map((agentId, index) => ({ agentId, text: answers[index] ?? '' }))) };
    },
  };
}

/**
 * A router agent names the one that answers: its text is the id, or has it as a word of its own; of several, the first counts. Where it
 * names none, the current one answers.
 */
export function supervisor(routerId: string): Plan {
  if (typeof routerId !== 'string' || routerId === '')
    throw invalidConfig('supervisor needs the id of an agent', 'write supervisor("router")');
  return {
    next({ text, rounds: [routed, answered], agents, current }) {
      const others = agents.filter(({ id }) => id !== routerId);
      if (answered) return { answer: answered[0] ?? '' };
      if (!routed) return { ask: [{ agentId: routerId, message: routerPrompt(text, others) }] };
      const fallback = current.id === routerId ? others[0] : current;
      const chosen = namedIn(routed[0] ?? '', others) ?? fallback;
      return chosen ? { ask: [{ agentId: chosen.id, message: text }] } : { answer: routed[0] ?? '' };
    },
  };
}

function routerPrompt(text: string, agents: readonly Agent[]): string {
  const list = agents.map(({ id, options }) => `- ${id}: ${options.description ?? 'no description'}`);
  return ['Which of these agents shall answer the message below? Answer with its id only.', ...list, '', text].join(
    '\n',
  );
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
