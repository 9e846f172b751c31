import type { Usage } from '../providers/interfaces.ts';
import { AgentLoopError } from './errors.ts';
import { History } from './history.ts';
import {
  type ExtensionRecord,
  isKnownType,
  type JournalRecord,
  journalSchema,
  type LlmDone,
  type LlmStart,
  type Stamped,
  type ToolIntent,
  type ToolResultRecord,
  type TurnRecord,
  type TurnStarted,
} from './records.ts';
import { type LoopFields, LoopState, noUsage, type PendingToolCall, type TurnOutcome, toolMessage } from './state.ts';

/**
 * The state after one more record: the pure step that a live turn, a resumed one and a replay have in common. Errors:
 * `SCHEMA` for a journal or a record that is newer than this version, `POISON` for one that cannot stand where it stands.
 */
export function applyRecord(state: LoopState | undefined, record: JournalRecord): LoopState {
  if (record.type === 'turn.started') return startState(state, record);
  if (state === undefined) throw poison(record, 'a journal starts with turn.started');
  if (record.seq !== state.seq + 1) throw poison(record, `the record before it is ${state.seq}`);
  if (state.isComplete) throw poison(record, 'the turn has ended before it');
  if (!isKnownType(record.type)) {
    throw new AgentLoopError(
      'SCHEMA',
      `Record ${record.seq} of task "${state.turn.taskId}" has the type "${record.type}", which this version does not know; update millrace.`,
      { taskId: state.turn.taskId },
    );
  }
  return changedBy(state, record);
}

/** The state after all records of a journal. Errors as `applyRecord`, and `POISON` for an empty journal. */
export function foldRecords(records: readonly JournalRecord[]): LoopState {
  let state: LoopState | undefined;
  for (const record of records) state = applyRecord(state, record);
  if (state === undefined) throw new AgentLoopError('POISON', 'The journal is empty: it has no turn.started record.');
  return state;
}

function changedBy(state: LoopState, record: Exclude<JournalRecord, Stamped<TurnStarted>>): LoopState {
  switch (record.type) {
    case 'turn.resumed':
      return next(state, record, { resumes: state.resumes + 1, outcome: undefined, trace: record.trace });
    case 'llm.start':
      return next(state, record, llmStarted(state, record));
    case 'llm.done':
      return next(state, record, llmDone(state, record));
    case 'tool.intent':
      return next(state, record, { pendingToolCalls: replaceCall(state, record, { intent: record }) });
    case 'tool.result':
      return next(state, record, toolResult(state, record));
    case 'turn.suspended':
      return next(state, record, {
        outcome: { state: record.state, reason: record.reason, error: undefined, questions: record.questions },
      });
    case 'turn.done':
      return next(state, record, { ...ended('completed', record.reason), finalMessage: record.text });
    case 'turn.failed':
      return next(state, record, ended('failed', record.reason, { code: record.code, message: record.message }));
    case 'turn.canceled':
      return next(state, record, ended('canceled', record.reason));
    default:
      return next(state, record, extended(state, record));
  }
}

function next(state: LoopState, record: JournalRecord, changes: Partial<LoopFields>): LoopState {
  return new LoopState(state, Object.assign(changes, { seq: record.seq, epoch: record.epoch, updatedAt: record.at }));
}

function startState(state: LoopState | undefined, record: Stamped<TurnStarted>): LoopState {
  if (state !== undefined || record.seq !== 1) throw poison(record, 'turn.started is a journal’s first record');
  if (record.schema > journalSchema) {
    throw new AgentLoopError(
      'SCHEMA',
      `The journal of task "${record.taskId}" has schema ${record.schema}, this version reads up to ${journalSchema}; update millrace.`,
      { taskId: record.taskId },
    );
  }
  const { taskId, contextId, agentId, settings, metadata, messages, at } = record;
  return new LoopState({
    turn: { taskId, contextId, agentId, settings, metadata: metadata ?? {}, given: messages.length, createdAt: at },
    iteration: 0,
    attempt: 0,
    phase: 'closed',
    summary: false,
    history: History.of(messages),
    availableTools: [],
    pendingToolCalls: [],
    lastResponse: undefined,
    finalMessage: undefined,
    outcome: undefined,
    usage: noUsage,
    toolCalls: 0,
    commands: [],
    resumes: 0,
    trace: record.trace,
    seq: record.seq,
    epoch: record.epoch,
    updatedAt: at,
  });
}

function llmStarted(state: LoopState, record: LlmStart): Partial<LoopFields> {
  return {
    iteration: record.iteration,
    attempt: record.attempt,
    phase: 'llm',
    summary: record.summary === true,
    availableTools: record.tools ?? state.availableTools,
  };
}

function llmDone(state: LoopState, record: Stamped<LlmDone>): Partial<LoopFields> {
  return {
    phase: record.calls.length > 0 ? 'tools' : 'answered',
    history: state.summary ? state.history : state.history.append(record.message),
    pendingToolCalls: record.calls.map(({ callId, call }) => ({ callId, call, intent: undefined, result: undefined })),
    lastResponse: record,
    usage: record.usage ? addUsage(state.usage, record.usage) : state.usage,
    resumes: 0,
  };
}

function toolResult(state: LoopState, record: Stamped<ToolResultRecord>): Partial<LoopFields> {
  const calls = replaceCall(state, record, { result: record });
  const counted = { toolCalls: state.toolCalls + 1, resumes: 0 };
  if (calls.some((pending) => !pending.result)) return { ...counted, pendingToolCalls: calls };
  let history = state.history;
  for (const { call, result } of calls) if (result) history = history.append(toolMessage(call, result));
  return { ...counted, pendingToolCalls: [], history, phase: 'closed' };
}

function extended(state: LoopState, record: Stamped<ExtensionRecord>): Partial<LoopFields> {
  let history = state.history;
  for (const message of record.effects?.messages ?? []) history = history.append(message);
  return {
    history,
    phase: state.phase === 'answered' ? 'closed' : state.phase,
    resumes: 0,
    ...followed(state, record.command),
  };
}

function ended(
  state: 'completed' | 'failed' | 'canceled',
  reason: string,
  error?: TurnOutcome['error'],
): Pick<LoopFields, 'outcome' | 'phase'> {
  return { outcome: { state, reason, error, questions: [] }, phase: 'closed' };
}

function followed(state: LoopState, command: string | undefined): Partial<LoopFields> {
  return command === undefined ? {} : { commands: [...state.commands, command] };
}

function replaceCall(
  state: LoopState,
  record: Stamped<ToolIntent> | Stamped<ToolResultRecord>,
  change: Partial<PendingToolCall>,
): readonly PendingToolCall[] {
  const index = state.pendingToolCalls.findIndex((pending) => pending.callId === record.callId);
  const pending = state.pendingToolCalls[index];
  if (pending === undefined) throw poison(record, `no call "${record.callId}" is open`);
  if (pending.result) throw poison(record, `the call "${record.callId}" has its result`);
  const calls = state.pendingToolCalls.slice();
  calls[index] = { ...pending, ...change };
  return calls;
}

/** The sum of two usages; optional members are kept where either has them. */
export function addUsage(a: Usage, b: Usage): Usage {
  const sum = {
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    totalTokens: a.totalTokens + b.totalTokens,
  };
  return {
    ...sum,
    ...optionalSum('cachedTokens', a, b),
    ...optionalSum('reasoningTokens', a, b),
    ...optionalSum('cost', a, b),
    ...(a.estimated || b.estimated ? { estimated: true } : {}),
  };
}

function optionalSum(name: 'cachedTokens' | 'reasoningTokens' | 'cost', a: Usage, b: Usage): Partial<Usage> {
  return a[name] === undefined && b[name] === undefined ? {} : { [name]: (a[name] ?? 0) + (b[name] ?? 0) };
}

function poison(record: TurnRecord & { readonly seq: number }, why: string): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `Record ${record.seq} (${record.type}) cannot be read: ${why}; the journal is kept for inspection with read(taskId).`,
  );
}
