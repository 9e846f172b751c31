// What each kind of record does to the state of a turn. The record table says which function belongs to which.

import { AgentLoopError } from '../contracts/errors.ts';
import { waitingState } from '../contracts/task-state.ts';
import type { ChildLink } from '../contracts/tool.ts';
import { addUsed } from '../contracts/usage.ts';
import { addOwnUsage, addUsage, applyEffects } from './apply-effects.ts';
import { optionsAfter } from './call-settings.ts';
import { asOpen, withChild } from './child-questions.ts';
import { CommandIds } from './command-ids.ts';
import { History } from './history.ts';
import { PersistentArray } from './persistent-array.ts';
import {
  type AgentChanged,
  type DecisionPoint,
  type ExtensionRecord,
  type ForkOrigin,
  isLeftCall,
  type JournalRecord,
  journalSchema,
  type LlmDone,
  type LlmStart,
  type RecordedCall,
  type Stamped,
  type TerminalRecord,
  type ToolIntent,
  type ToolResultRecord,
  type TurnAnswered,
  type TurnAsked,
  type TurnCanceled,
  type TurnDone,
  type TurnFailed,
  type TurnRecord,
  type TurnResumed,
  type TurnStarted,
  type TurnSuspended,
} from './records.ts';
import {
  activeAt,
  callIndex,
  type Draft,
  type GivenAnswer,
  LoopState,
  neverOffered,
  noChanges,
  noneUsed,
  openCallOf,
  openQuestions,
  type PendingToolCall,
  type TurnOutcome,
  toolMessage,
} from './state.ts';

const noAnswers: readonly GivenAnswer[] = [];
const noCalls = new PersistentArray<PendingToolCall>([]);
const noneClosed: readonly PendingToolCall[] = [];
const noChildren: readonly ChildLink[] = [];

/** The state after the first record. */
export function startState(state: LoopState | undefined, record: Stamped<TurnStarted>): LoopState {
  if (state !== undefined || record.seq !== 1) throw poison(record, 'turn.started is a journal’s first record');
  if (record.schema > journalSchema) {
    throw new AgentLoopError(
      'SCHEMA',
      `The journal of task "${record.taskId}" has schema ${record.schema}, this version reads up to ${journalSchema}; update millrace.`,
      { taskId: record.taskId },
    );
  }
  const { taskId, contextId, agentId, settings, metadata = {}, messages, parent, forkedFrom, at } = record;
  const given = { taskId, contextId, agentId, settings, metadata, given: messages.length, earlier: 0, createdAt: at };
  const turn = record.schema < 2 ? { ...given, namesNoChildren: true as const } : given;
  return new LoopState({
    turn: parent || forkedFrom ? { ...turn, ...(parent && { parent }), ...originOf(forkedFrom) } : turn,
    agentId,
    agentChanges: 0,
    stint: { after: 0, messages: messages.length, from: agentId, reason: undefined, handOffs: 0 },
    iteration: 0,
    attempt: 0,
    phase: 'closed',
    summary: false,
    history: History.of(messages, at),
    availableTools: neverOffered,
    call: undefined,
    calls: noCalls,
    answers: noAnswers,
    told: [],
    openChildren: noChildren,
    openCalls: 0,
    closedCalls: [],
    lastResponse: undefined,
    finalMessage: undefined,
    value: undefined,
    changes: noChanges,
    outcome: undefined,
    hold: undefined,
    failedAttempts: 0,
    ownUsage: noneUsed,
    childUsage: noneUsed,
    toolCalls: 0,
    commands: CommandIds.none,
    resumes: 0,
    trace: record.trace,
    suspendedMs: 0,
    suspendedAt: undefined,
    seq: record.seq,
    epoch: record.epoch,
    updatedAt: at,
  });
}

function originOf(from: ForkOrigin | undefined): Pick<LoopState['turn'], 'copied' | 'retried'> {
  if (!from) return {};
  return from.retry ? { copied: from.records, retried: from.retry } : { copied: from.records };
}

/** The time until now does not count as time of the turn. */
function endSuspension(draft: Draft, at: number): void {
  if (draft.suspendedAt !== undefined) draft.suspendedMs += at - draft.suspendedAt;
  draft.suspendedAt = undefined;
}

export function resume(draft: Draft, { trace, at, seq, queued }: Stamped<TurnResumed>): void {
  // A retry gets further than the turn that it continues; a turn with another before it cannot get any further.
  if (!queued && seq > (draft.turn.copied ?? 0)) draft.resumes++;
  draft.outcome = undefined;
  endSuspension(draft, at);
  // Whoever takes the turn over waits as long as its owner would have.
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
  const { callId, call, question, answers, child: known, childUsage } = openCall(draft, record, record.callId);
  const { attempt: attempts, child = known } = record;
  const started = { callId, call, attempts, intent: record, question, answers, child, childUsage, result: undefined };
  if (child && !known) draft.openChildren = [...draft.openChildren, child];
  draft.calls = draft.calls.with(callIndex(callId), started);
}

export function endToolCall(draft: Draft, record: Stamped<ToolResultRecord>): void {
  const { callId, call, attempts, intent, answers, child, childUsage } = openCall(draft, record, record.callId);
  const ended = { callId, call, attempts, intent, question: undefined, answers, child, childUsage, result: record };
  if (child) draft.openChildren = draft.openChildren.filter(({ taskId }) => taskId !== child.taskId);
  const calls = draft.calls.with(callIndex(callId), ended);
  draft.toolCalls++;
  addUsage(draft, record);
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

/** What extensions changed for the agent before is undone, but for what they recorded. */
export function changeAgent(draft: Draft, { from, to, reason, note }: AgentChanged): void {
  const { data, decided } = draft.changes;
  const { beforeTurn: _, ...others } = decided;
  draft.agentId = to;
  draft.agentChanges++;
  draft.stint = {
    after: draft.iteration,
    messages: draft.history.length,
    from,
    reason,
    handOffs: draft.stint.handOffs + (reason === 'hand_off' ? 1 : 0),
  };
  draft.changes = { ...noChanges, data, decided: others };
  if (note !== undefined)
    draft.history = draft.history.append({ role: 'user', content: note, name: from }, draft.updatedAt);
  if (draft.phase === 'answered') draft.phase = 'closed';
  draft.resumes = 0;
}

/** A tool that asks has ended that attempt; a call in doubt stays in doubt until it is answered. */
export function ask(draft: Draft, record: Stamped<TurnAsked>): void {
  const pending = openCall(draft, record, record.question.callId);
  const question = withChild(record.question, draft);
  if (pending.question) throw poison(record, `the call "${question.callId}" has asked already`);
  addUsage(draft, record);
  const intent = question.kind === 'in-doubt' ? pending.intent : undefined;
  const childUsage = addUsed(pending.childUsage, record.usageBy ?? []);
  draft.calls = draft.calls.with(callIndex(pending.callId), { ...pending, intent, question, childUsage });
}

/** A suspended turn keeps waiting while questions are open, though it can be resumed with the answers so far. */
export function answer(draft: Draft, record: Stamped<TurnAnswered>): void {
  const pending = openCall(draft, record, record.callId);
  const { question, attempts } = pending;
  if (question?.id !== record.questionId) throw poison(record, `there is no open question "${record.questionId}"`);
  const given = { question, answer: record.answer, attempts };
  const answers = [...pending.answers, given];
  draft.calls = draft.calls.with(callIndex(pending.callId), { ...pending, question: undefined, answers });
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
  if (record.effects) applyEffects(draft, record.effects);
  if (record.hook && record.hook in decisionPoints)
    draft.changes = { ...draft.changes, decided: { ...draft.changes.decided, [record.hook]: draft.iteration } };
  if ('data' in record) {
    const name = record.type.slice('x.'.length);
    draft.changes = { ...draft.changes, data: { ...draft.changes.data, [name]: record.data } };
  }
  if (!isLeftCall(record)) draft.resumes = 0;
  noteCommand(draft, record.command);
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
  draft.resumes = 0;
  for (const command of commands) noteCommand(draft, command);
}

export function complete(draft: Draft, record: TurnDone): void {
  draft.finalMessage = record.text;
  draft.value = record.value;
  end(draft, record, { state: 'completed', reason: record.reason, error: undefined, questions: [] });
}

export function fail(draft: Draft, record: TurnFailed): void {
  const { code, message, reason, details } = record;
  const error = { code, message, ...(details && { details }) };
  end(draft, record, { state: 'failed', reason, error, questions: [] });
}

export function cancel(draft: Draft, record: TurnCanceled): void {
  end(draft, record, { state: 'canceled', reason: record.reason, error: undefined, questions: [] });
}

function end(draft: Draft, record: TerminalRecord, outcome: TurnOutcome): void {
  if (record.usage) addUsage(draft, record);
  draft.outcome = outcome;
  draft.hold = undefined;
  draft.phase = 'closed';
}

/** The call that a record is about. */
function openCall(draft: Draft, record: JournalRecord, callId: string): PendingToolCall {
  const pending = openCallOf(draft, callId);
  if (!pending) throw poison(record, `no call "${callId}" is open`);
  if (pending.result) throw poison(record, `the call "${callId}" has its result`);
  return pending;
}

export function poison(record: TurnRecord & { readonly seq: number }, why: string): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `Record ${record.seq} (${record.type}) cannot be read: ${why}; the journal is kept for inspection with read(taskId).`,
  );
}
