import type { Message } from '../contracts/messages.ts';
import {
  type AgentUsage,
  addUsed,
  lessUsage,
  noUsage,
  addUsage as sumOfUsage,
  type Usage,
  usageOf,
} from '../contracts/usage.ts';
import { History } from './history.ts';
import type { Effects } from './records.ts';
import { type Changes, type Draft, toolMessage } from './state.ts';

/** Folds what an extension did into a state: the only ways in which one can change the course of a turn. */
export function applyEffects(draft: Draft, effects: Effects): void {
  const { messages = [], given, earlier, waitedMs = 0, results, settings, tools, finish, agent } = effects;
  if (given) replaceGiven(draft, given, earlier);
  draft.suspendedMs = Math.max(draft.suspendedMs, waitedMs);
  if (results) replaceResults(draft, results);
  if (settings) draft.changes = { ...draft.changes, settings: { ...draft.changes.settings, ...settings } };
  if (tools) draft.changes = { ...draft.changes, tools: toolsBehind(draft.changes.tools, tools) };
  if (messages.length > 0) addMessages(draft, messages);
  if (finish) draft.changes = { ...draft.changes, finish };
  if (agent && !draft.changes.agent) draft.changes = { ...draft.changes, agent };
  addUsage(draft, effects);
}

/** Counts model calls of the agent that runs the turn. */
export function addOwnUsage(draft: Draft, usage: Usage, model?: string): void {
  const { agentId, ownUsage } = draft;
  const [first] = ownUsage;
  // Mostly one agent with one model: this is the hot path.
  const isSame = first === undefined || (first.agentId === agentId && first.model === model);
  if (ownUsage.length <= 1 && isSame) {
    const sum = sumOfUsage(first?.usage ?? noUsage, usage);
    draft.ownUsage = [model === undefined ? { agentId, usage: sum } : { agentId, model, usage: sum }];
  } else {
    draft.ownUsage = addUsed(ownUsage, [model === undefined ? { agentId, usage } : { agentId, model, usage }]);
  }
}

/** Counts what a record says of model calls of a tool or an extension, and of their child turns. */
export function addUsage(
  draft: Draft,
  { usage, usageBy = [] }: { readonly usage?: Usage; readonly usageBy?: readonly AgentUsage[] },
): void {
  if (!usage) return;
  draft.childUsage = addUsed(draft.childUsage, usageBy);
  const own = usageBy.length === 0 ? usage : lessUsage(usage, usageOf(usageBy));
  if (usageBy.length === 0 || own.totalTokens > 0) addOwnUsage(draft, own);
}

/** Messages that come while calls are open enter the history after their results; after the last response the turn continues. */
function addMessages(draft: Draft, messages: readonly Message[]): void {
  if (draft.phase === 'tools') {
    draft.told = [...draft.told, ...messages];
    return;
  }
  for (const message of messages) draft.history = draft.history.append(message, draft.updatedAt);
  if (draft.phase === 'answered') draft.phase = 'closed';
  if (draft.changes.finish) draft.changes = { ...draft.changes, finish: undefined };
}

function replaceGiven(draft: Draft, given: readonly Message[], earlier = draft.turn.earlier): void {
  const { history: before } = draft;
  draft.history = History.of(given, draft.updatedAt);
  for (let index = draft.turn.given; index < before.length; index++) {
    const message = before.at(index);
    if (message) draft.history = draft.history.append(message, before.timeAt(index));
  }
  draft.turn = { ...draft.turn, given: given.length, earlier: Math.min(earlier, given.length) };
  draft.stint = { ...draft.stint, messages: draft.history.length };
}

/** The results of the last batch stand at the end of the history, in call order. */
function replaceResults(draft: Draft, results: NonNullable<Effects['results']>): void {
  const replacements = new Map<number, Message>();
  for (const { callId, call, result } of draft.closedCalls) {
    const content = results[callId];
    if (content === undefined || !result) continue;
    const index = lastResultOf(draft.history, call.id);
    if (index >= 0) replacements.set(index, toolMessage(call, { ...result, content }));
  }
  draft.history = draft.history.with(replacements);
  draft.closedCalls = draft.closedCalls.map((closed) => {
    const content = results[closed.callId];
    return content === undefined || !closed.result ? closed : { ...closed, result: { ...closed.result, content } };
  });
}

function lastResultOf(history: History, toolCallId: string): number {
  for (let index = history.length - 1; index >= 0; index--) {
    const message = history.at(index);
    if (message?.role === 'tool' && message.toolCallId === toolCallId) return index;
  }
  return -1;
}

function toolsBehind(
  before: Changes['tools'],
  { add = [], remove = [] }: NonNullable<Effects['tools']>,
): Changes['tools'] {
  const { added, removed } = before ?? { added: [], removed: [] };
  const without = (names: readonly string[], gone: readonly string[]) => names.filter((name) => !gone.includes(name));
  return {
    added: [...new Set([...without(added, remove), ...without(add, remove)])],
    removed: [...new Set([...without(removed, add), ...remove])],
  };
}
