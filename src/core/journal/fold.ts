import { AgentLoopError, isMissingPart } from '../contracts/errors.ts';
import { waitingState } from '../contracts/events.ts';
import {
  type AgentUsage,
  addUsed,
  lessUsage,
  type Message,
  noUsage,
  addUsage as sumOfUsage,
  type Usage,
  usageOf,
} from '../contracts/messages.ts';
import { turnCallSettingsOf } from '../contracts/provider.ts';
import { optionsAfter } from './call-settings.ts';
import {
  type AgentChanged,
  type DecisionPoint,
  type Effects,
  type ExtensionRecord,
  isLeftCall,
} from './extension-record.ts';
import {
  addAnswer,
  isRefusal,
  refuseAnswer,
  replaceAnswer,
  showReplaced,
  withholdAnswer,
  withholdRefused,
} from './final-answer.ts';
import { History, PersistentArray } from './history.ts';
import { asOpen, openQuestions, withChild } from './questions.ts';
import type {
  LlmDone,
  LlmStart,
  RecordedCall,
  Stamped,
  TerminalRecord,
  ToolIntent,
  ToolResultRecord,
  TurnAnswered,
  TurnAsked,
  TurnCanceled,
  TurnDone,
  TurnFailed,
  TurnRecord,
  TurnResumed,
  TurnSuspended,
} from './records.ts';
import {
  activeAt,
  type Changes,
  type Draft,
  noAnswers,
  noCalls,
  noChanges,
  noneUsed,
  noSettings,
  openCallIndex,
  type PendingToolCall,
  type TurnOutcome,
  toolMessage,
} from './state.ts';

const noneClosed: readonly PendingToolCall[] = [];

/** The suspended time does not count towards the duration of the turn. */
function endSuspension(draft: Draft, at: number): void {
  if (draft.suspendedAt !== undefined) draft.suspendedMs += at - draft.suspendedAt;
  draft.suspendedAt = undefined;
}

export function resume(draft: Draft, { trace, at, seq, lostAt, waited }: Stamped<TurnResumed>): void {
  // Only a crash counts: a process that released the turn was not stopped by it. Copied records of a retry are progress.
  if (waited) draft.resumes = 0;
  else if (lostAt !== undefined && seq > (draft.turn.copied ?? 0)) draft.resumes++;
  draft.outcome = undefined;
  endSuspension(draft, at);
  // A new owner continues the wait of the previous one.
  if (draft.hold?.until === undefined) draft.hold = undefined;
  else draft.suspendedAt = at;
  draft.trace = trace;
}

export function startCall(draft: Draft, record: Stamped<LlmStart>): void {
  if (draft.hold) endSuspension(draft, record.at);
  draft.hold = undefined;
  draft.call = {
    startedAt: record.at,
    began: draft.call && draft.iteration === record.iteration ? draft.call.began : activeAt(draft, record.at),
    options: optionsAfter(draft.call, record),
  };
  if (record.iteration !== draft.iteration && draft.changes.branches) {
    const { branches: _, ...changes } = draft.changes;
    draft.changes = changes;
  }
  // A model call reads all messages before it.
  if (draft.changes.steered !== undefined) {
    const { late: _, steered: __, ...changes } = draft.changes;
    draft.changes = changes;
  }
  draft.iteration = record.iteration;
  draft.attempt = record.attempt;
  draft.phase = 'llm';
  draft.summary = record.summary === true;
  if (record.tools) draft.availableTools = record.tools;
}

export function endCall(draft: Draft, record: Stamped<LlmDone>): void {
  draft.phase = record.calls.length > 0 ? 'tools' : 'answered';
  if (!draft.summary) draft.history = draft.history.append(record.message, record.at);
  draft.calls = record.calls.length === 0 ? noCalls : new PersistentArray(record.calls.map(pendingCall));
  draft.openCalls = record.calls.length;
  draft.closedCalls = noneClosed;
  draft.lastResponse = record;
  draft.failedAttempts = 0;
  if (record.usage) addOwnUsage(draft, record.usage, record.model);
  draft.resumes = 0;
}

function pendingCall({ callId, call }: RecordedCall): PendingToolCall {
  return {
    callId,
    call,
    attempts: 0,
    intent: undefined,
    question: undefined,
    answers: noAnswers,
    child: undefined,
    childUsage: noneUsed,
    result: undefined,
  };
}

export function startTool(draft: Draft, record: Stamped<ToolIntent>): void {
  const at = openCallIndex(draft, record.callId);
  const { callId, call, question, answers, child: known, childUsage } = openCall(draft, record, at);
  const { attempt: attempts, child = known } = record;
  const started = { callId, call, attempts, intent: record, question, answers, child, childUsage, result: undefined };
  if (child && !known) draft.openChildren = [...draft.openChildren, child];
  draft.calls = draft.calls.with(at, started);
}

export function endToolCall(draft: Draft, record: Stamped<ToolResultRecord>): void {
  const at = openCallIndex(draft, record.callId);
  const { callId, call, attempts, intent, answers, child, childUsage } = openCall(draft, record, at);
  const ended = { callId, call, attempts, intent, question: undefined, answers, child, childUsage, result: record };
  if (child) draft.openChildren = draft.openChildren.filter(({ taskId }) => taskId !== child.taskId);
  const calls = draft.calls.with(at, ended);
  draft.toolCalls++;
  if (record.usage) addUsage(draft, record);
  draft.resumes = 0;
  draft.calls = calls;
  draft.openCalls--;
  if (draft.openCalls > 0) return;
  const closed = calls.list;
  for (const pending of closed) {
    if (!pending.result) continue;
    draft.history = draft.history.append(toolMessage(pending.call, pending.result), pending.result.at);
  }
  for (const message of draft.told) draft.history = draft.history.append(message, record.at);
  draft.closedCalls = closed;
  draft.calls = noCalls;
  draft.told = [];
  draft.phase = 'closed';
}

/** Undoes the extensions' changes for the previous agent, except their `data`. */
export function changeAgent(draft: Draft, { from, to, reason, note }: AgentChanged): void {
  const { data, decided, branches, withheld, steered } = draft.changes;
  const { beforeTurn: _, ...others } = decided;
  draft.agentId = to;
  draft.agentChanges++;
  draft.segment = {
    after: draft.iteration,
    messages: draft.history.length,
    from,
    reason,
    handOffs: draft.segment.handOffs + (reason === 'hand_off' ? 1 : 0),
  };
  const settings = turnCallSettingsOf(draft.turn.settings) ?? noSettings;
  const kept = { ...(branches && { branches }), ...(withheld && { withheld }), ...(steered && { steered }) };
  draft.changes = { ...noChanges, settings, data, decided: others, ...kept };
  if (note !== undefined) {
    const message = { role: 'user' as const, content: note, name: from };
    draft.history = draft.history.append(message, draft.updatedAt);
    draft.history.noteAdded([message]);
  }
  if (draft.phase === 'answered') draft.phase = 'closed';
  draft.resumes = 0;
}

/** A question ends the attempt of its tool; a call in doubt stays in doubt until it is answered. */
export function ask(draft: Draft, record: Stamped<TurnAsked>): void {
  const at = openCallIndex(draft, record.question.callId);
  const pending = openCall(draft, record, at);
  const question = withChild(record.question, draft);
  if (pending.question) throw poison(record, draft.turn.taskId, `the call "${question.callId}" has asked already`);
  addUsage(draft, record);
  const intent = question.kind === 'in-doubt' ? pending.intent : undefined;
  const childUsage = addUsed(pending.childUsage, record.usageBy ?? []);
  draft.calls = draft.calls.with(at, {
    ...pending,
    intent,
    question,
    childUsage,
    ...keptOf(record.private),
  });
}

function keptOf(kept: unknown): { readonly kept?: unknown } {
  return kept === undefined ? {} : { kept };
}

/** A suspended turn stays suspended while questions are open, but can be resumed with the answers so far. */
export function answer(draft: Draft, record: Stamped<TurnAnswered>): void {
  const at = openCallIndex(draft, record.callId);
  const pending = openCall(draft, record, at);
  const { question, attempts, kept, ...rest } = pending;
  if (question?.id !== record.questionId)
    throw poison(record, draft.turn.taskId, `there is no open question "${record.questionId}"`);
  const given = { question, answer: record.answer, attempts, ...keptOf(kept) };
  const answers = [...pending.answers, given];
  draft.calls = draft.calls.with(at, {
    ...rest,
    attempts,
    question: undefined,
    answers,
  });
  draft.answers = [...draft.answers, given];
  draft.resumes = 0;
  noteCommand(draft, record.command);
  if (draft.outcome) draft.outcome = stillWaiting(draft, draft.outcome);
}

function stillWaiting(draft: Draft, outcome: TurnOutcome): TurnOutcome | undefined {
  const questions = openQuestions(draft);
  return questions.length === 0 ? undefined : { ...outcome, state: waitingState(questions), questions };
}

const decisionPoints: Readonly<Record<DecisionPoint, true>> = {
  beforeTurn: true,
  afterIteration: true,
  beforeFinish: true,
};

export function extend(draft: Draft, record: Stamped<ExtensionRecord>): void {
  const { effects, hook } = record;
  if (hook === 'afterTurn' && effects?.finish) replaceAnswer(draft, effects.finish);
  if (effects?.withhold) refuseAnswer(draft);
  if (effects) applyEffects(draft, effects);
  if (effects?.finish && hook !== 'afterTurn') {
    const finishedBy = hook === 'afterToolCall' ? lastClosed(draft)?.callId : undefined;
    draft.changes = { ...draft.changes, finishedBy };
  }
  if (effects?.messages) noteMessages(draft, record, effects.messages);
  if (record.hook && record.hook in decisionPoints)
    draft.changes = { ...draft.changes, decided: { ...draft.changes.decided, [record.hook]: draft.iteration } };
  if ('data' in record) {
    const name = record.type.slice('x.'.length);
    draft.changes = { ...draft.changes, data: { ...draft.changes.data, [name]: record.data } };
  }
  noteBranch(draft, record);
  if (!isLeftCall(record)) draft.resumes = 0;
  noteCommand(draft, record.command);
}

/** Steering messages are the caller's; all others are of the extension. */
function noteMessages(draft: Draft, { type }: ExtensionRecord, messages: readonly Message[]): void {
  if (type !== 'x.steer') draft.history.noteAdded(messages);
  else draft.changes = { ...draft.changes, steered: [...(draft.changes.steered ?? []), ...messages] };
}

/** The call whose result is the newest: the record of a hook follows the result that it was called for. */
function lastClosed({ calls, closedCalls, phase }: Draft): PendingToolCall | undefined {
  let last: PendingToolCall | undefined;
  for (const call of phase === 'tools' ? calls.list : closedCalls)
    if ((call.result?.seq ?? 0) > (last?.result?.seq ?? 0)) last = call;
  return last;
}

/** A copied record is about a child turn of another task: the same hook here starts its own. */
function noteBranch(draft: Draft, { branch, effects, seq }: Stamped<ExtensionRecord>): void {
  if (branch === undefined || !effects?.usageBy || seq <= (draft.turn.copied ?? 0)) return;
  const { branches } = draft.changes;
  const used = addUsed(branches?.[branch] ?? noneUsed, effects.usageBy);
  draft.changes = { ...draft.changes, branches: { ...branches, [branch]: used } };
}

function noteCommand(draft: Draft, command: string | undefined): void {
  if (command !== undefined) draft.commands = draft.commands.append(command);
}

export function suspend(draft: Draft, record: Stamped<TurnSuspended>): void {
  const { state, reason, questions, hold, usage, commands = [] } = record;
  if (hold || state === 'working') draft.hold = hold ?? {};
  else draft.outcome = { state, reason, error: undefined, questions: asOpen(draft, questions) };
  if (hold?.attempt !== undefined) draft.failedAttempts = hold.attempt;
  if (usage) addOwnUsage(draft, usage);
  draft.suspendedAt = record.at;
  // A process that lacks a part of the turn got no further.
  if (!isMissingPart(hold?.error?.code)) draft.resumes = 0;
  for (const command of commands) noteCommand(draft, command);
}

export function complete(draft: Draft, record: Stamped<TurnDone>): void {
  if (draft.changes.withheld) withholdRefused(draft, record);
  if (draft.changes.replaced) showReplaced(draft);
  const isAnswer = draft.phase === 'answered' && !draft.summary && draft.lastResponse?.message.content === record.text;
  if (!isAnswer) addAnswer(draft, record);
  draft.finalMessage = record.text;
  draft.value = record.value;
  end(draft, record, { state: 'completed', reason: record.reason, error: undefined, questions: [] });
}

export function fail(draft: Draft, record: TurnFailed): void {
  const { code, message, reason, details } = record;
  const error = { code, message, ...(details && { details }) };
  if (isRefusal(code, draft)) withholdAnswer(draft);
  withholdRefused(draft);
  showReplaced(draft);
  end(draft, record, { state: 'failed', reason, error, questions: [] });
}

export function cancel(draft: Draft, record: TurnCanceled): void {
  withholdRefused(draft);
  showReplaced(draft);
  end(draft, record, { state: 'canceled', reason: record.reason, error: undefined, questions: [] });
}

function end(draft: Draft, record: TerminalRecord, outcome: TurnOutcome): void {
  if (record.usage) addUsage(draft, record);
  draft.outcome = outcome;
  draft.hold = undefined;
  draft.phase = 'closed';
}

/** A record about one call. */
type CallRecord = Stamped<ToolIntent | ToolResultRecord | TurnAsked | TurnAnswered>;

/** The call that a record is about, at the position that `openCallIndex` found. */
function openCall(draft: Draft, record: CallRecord, at: number): PendingToolCall {
  const pending = draft.calls.at(at);
  if (pending && !pending.result) return pending;
  const { callId } = record.type === 'turn.asked' ? record.question : record;
  const why = pending ? `the call "${callId}" has its result` : `no call "${callId}" is open`;
  throw poison(record, draft.turn.taskId, why);
}

/** The error of a record that is invalid where it stands. `taskId`: undefined where the journal does not say it. */
export function poison(
  record: TurnRecord & { readonly seq: number },
  taskId: string | undefined,
  why: string,
): AgentLoopError {
  const of = taskId === undefined ? '' : ` of task "${taskId}"`;
  return new AgentLoopError(
    'POISON',
    `Record ${record.seq} (${record.type})${of} cannot be read: ${why}; the journal is kept for inspection with read(taskId).`,
    taskId === undefined ? {} : { taskId },
  );
}

/** Folds the effects of an extension: its only ways to change the course of a turn. */
function applyEffects(draft: Draft, effects: Effects): void {
  const {
    messages = [],
    given,
    earlier,
    deleted,
    waitedMs = 0,
    results,
    settings,
    tools,
    repeat,
    finish,
    agent,
    late,
  } = effects;
  if (given) replaceGiven(draft, given, earlier);
  if (deleted) draft.turn = { ...draft.turn, deleted };
  draft.suspendedMs = Math.max(draft.suspendedMs, waitedMs);
  if (results) replaceResults(draft, results);
  if (settings) draft.changes = { ...draft.changes, settings: { ...draft.changes.settings, ...settings } };
  if (tools) draft.changes = { ...draft.changes, tools: toolsBehind(draft.changes.tools, tools) };
  if (messages.length > 0) addMessages(draft, messages);
  if (late) draft.changes = { ...draft.changes, late: (draft.changes.late ?? 0) + messages.length };
  if (repeat) draft.changes = { ...draft.changes, repeated: draft.iteration };
  if (finish) draft.changes = { ...draft.changes, finish };
  if (agent && !draft.changes.agent) draft.changes = { ...draft.changes, agent };
  addUsage(draft, effects);
}

/** Adds usage of model calls of the current agent. */
function addOwnUsage(draft: Draft, usage: Usage, model?: string): void {
  const { agentId, ownUsage } = draft;
  const [first] = ownUsage;
  // Usually one agent with one model: this is the hot path.
  const isSame = first === undefined || (first.agentId === agentId && first.model === model);
  if (ownUsage.length <= 1 && isSame) {
    const sum = sumOfUsage(first?.usage ?? noUsage, usage);
    draft.ownUsage = [model === undefined ? { agentId, usage: sum } : { agentId, model, usage: sum }];
  } else {
    draft.ownUsage = addUsed(ownUsage, [model === undefined ? { agentId, usage } : { agentId, model, usage }]);
  }
}

/** Adds recorded usage of model calls of a tool or an extension, and of their child turns. */
function addUsage(
  draft: Draft,
  { usage, usageBy = [] }: { readonly usage?: Usage; readonly usageBy?: readonly AgentUsage[] },
): void {
  if (!usage) return;
  draft.childUsage = addUsed(draft.childUsage, usageBy);
  const own = usageBy.length === 0 ? usage : lessUsage(usage, usageOf(usageBy));
  if (usageBy.length === 0 || own.totalTokens > 0) addOwnUsage(draft, own);
}

/** Messages that arrive while calls are open enter the history after the results; after the last response they continue the turn. */
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
    if (!message) continue;
    draft.history = draft.history.append(message, before.timeAt(index));
    if (before.isAdded(message)) draft.history.noteAdded([message]);
  }
  draft.turn = { ...draft.turn, given: given.length, earlier: Math.min(earlier, given.length) };
  draft.segment = { ...draft.segment, messages: draft.history.length };
}

/** The results of the last batch are at the end of the history, in call order. */
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
