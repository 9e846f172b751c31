import {
  AgentLoopError,
  type ChildLink,
  type Clock,
  type ErrorCode,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import {
  foldRecords,
  isTerminal,
  type JournalRecord,
  kindOf,
  type LoopState,
  type ParentLink,
  type RetryOrigin,
  type Stamped,
  type TerminalRecord,
  type ToolResultRecord,
  type TurnStarted,
} from '../core/journal/index.ts';
import { childOf, originOf, otherContext } from '../core/turn/index.ts';
import { writeTask } from './create-task.ts';

interface RetryTaskOptions {
  readonly store: TaskStateStore;
  /** Of the new task. */
  readonly newTaskId: string;
  /** The context that the caller expects the task in, if it passed one. */
  readonly contextId: string | undefined;
  readonly clock: Clock;
  /** If another process writes the new task: wait for it, or error with `BUSY`. Default `wait`. */
  readonly onBusy?: 'wait' | 'fail' | undefined;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Writes the journal of a new task that continues a failed or cancelled one from its last good record; `AgentLoop.resume` runs it. If the
 * new task exists already, only the records are written that it lacks, because its writer died: after its lease of 30 s. Child turns of
 * repeated calls are continued in the same way.
 *
 * Keeps all records up to the failed model call, or up to the response whose calls failed, with the results of the calls that succeeded. After
 * `PARSE_ERROR` the model call is repeated. A call with an unknown outcome stays in doubt, under its original idempotency key; a failed call runs again. Usage and times start anew.
 * Errors: `NOT_FOUND`; `CONFLICT` for a task that has not ended, for a child turn, for another context, and if the new id is taken;
 * `INVALID_INPUT` for a completed task; those of the store.
 */
export async function retryTask(taskId: string, options: RetryTaskOptions): Promise<void> {
  const { store, newTaskId, contextId } = options;
  if ((await copyFound(store, newTaskId, taskId))?.isWhole) return;
  const records = await store.read(taskId);
  checkRetryable(foldRecords(records), contextId);
  await continueAs(newTaskId, records, options);
}

interface Found {
  /** False: its writer still writes, or died. */
  readonly isWhole: boolean;
  readonly hasEnded: boolean;
}

/** What an earlier call wrote of the new task; `undefined` for no task, and for an unrelated one: the creation then fails with `CONFLICT`. */
async function copyFound(store: TaskStateStore, newTaskId: string, taskId: string): Promise<Found | undefined> {
  try {
    const records = await store.read(newTaskId);
    const origin = originOf(records);
    if (!origin?.retry || origin.taskId !== taskId) return undefined;
    return { isWhole: records.length >= origin.records, hasEnded: records.some(isTerminal) };
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

function checkRetryable({ turn, isComplete, outcome }: LoopState, contextId: string | undefined): void {
  const { taskId, parent } = turn;
  const refuse = (code: ErrorCode, message: string) => new AgentLoopError(code, message, { taskId });
  if (parent) throw childOf(taskId, parent);
  if (contextId !== undefined && contextId !== turn.contextId) throw otherContext(taskId);
  if (!isComplete) throw refuse('CONFLICT', `Task "${taskId}" has not ended; continue it with AgentLoop.resume.`);
  if (outcome?.state === 'completed')
    throw refuse(
      'INVALID_INPUT',
      `Task "${taskId}" has completed; start a new turn, or change it with AgentLoop.fork (millrace fork).`,
    );
}

type CopyOptions = Omit<RetryTaskOptions, 'newTaskId' | 'contextId'>;

async function continueAs(
  newTaskId: string,
  records: readonly JournalRecord[],
  options: CopyOptions,
  parent?: ParentLink,
): Promise<void> {
  const kept = keptOf(records);
  const copied: JournalRecord[] = [];
  for (const record of kept.records) {
    if (record.type !== 'tool.intent' || !record.child || !kept.inDoubt.has(record.callId)) copied.push(record);
    else {
      const { callId, child } = record;
      const { turn } = foldRecords(records);
      const below = { taskId: newTaskId, callId, agentId: turn.agentId, rootTaskId: parent?.rootTaskId ?? newTaskId };
      const continued = await continueChild(child, below, options);
      if (continued) copied.push({ ...record, child: continued });
    }
  }
  const { store, clock, onBusy, signal } = options;
  const copy = asNewTask(copied, { newTaskId, parent, at: clock.now(), old: foldRecords(records) }, kept.inDoubt);
  await writeTask(copy, { store, clock, signal, begun: onBusy ?? 'wait' });
}

/** The child turn of a call, continued below the new turn; `undefined` if it was never created: the call starts anew. */
async function continueChild(
  { taskId, agentId }: ChildLink,
  parent: ParentLink,
  options: CopyOptions,
): Promise<ChildLink | undefined> {
  const newTaskId = await childIdOf(`${parent.taskId}:${parent.callId}`);
  try {
    const records = await options.store.read(taskId);
    const found = await copyFound(options.store, newTaskId, taskId);
    // The copy of the parent turn is not whole, so nobody has run this one: it was cancelled as an orphan.
    if (found?.hasEnded) await options.store.delete(newTaskId);
    if (!found?.isWhole || found.hasEnded) await continueAs(newTaskId, records, options, parent);
    return { taskId: newTaskId, agentId };
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

const longestId = 128;

/** Derives the child turn's id from the call's idempotency key, as a call does. */
async function childIdOf(key: string): Promise<string> {
  if (key.length <= longestId) return key;
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(key));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

interface Kept {
  readonly records: readonly JournalRecord[];
  /** Calls of the open batch that were started and have no result. */
  readonly inDoubt: ReadonlySet<string>;
}

const noCalls: ReadonlySet<string> = new Set();

/** The records up to the last good one. */
function keptOf(records: readonly JournalRecord[]): Kept {
  const end = records.at(-1);
  if (!end || !isTerminal(end) || end.type === 'turn.done') return { records, inDoubt: startedCalls(records) };
  const firstLate = records.findIndex((record) => 'effects' in record && record.effects?.late);
  const before = records.slice(0, firstLate === -1 ? -1 : firstLate);
  const inTime = records.slice(before.length, -1).map(inThisTurn);
  const { phase, iteration } = foldRecords(before);
  if (phase === 'llm' || phase === 'answered')
    return { records: numbered([...withoutCall(before, iteration), ...inTime]), inDoubt: noCalls };
  const refused = end.type === 'turn.failed' && end.code === 'PARSE_ERROR';
  const kept = withoutFailures(refused ? before.map(withoutFinish) : before, end, iteration);
  return { ...kept, records: numbered([...kept.records, ...inTime]) };
}

/** Without the gaps that dropped records leave: only such a journal can be folded. */
function numbered(records: readonly JournalRecord[]): readonly JournalRecord[] {
  return records.map((record, index) => (record.seq === index + 1 ? record : { ...record, seq: index + 1 }));
}

/** Steering messages that the turn received too late are in time for its retry. */
function inThisTurn(record: JournalRecord): JournalRecord {
  if (!('effects' in record) || !record.effects?.late) return record;
  const { late: _, ...effects } = record.effects;
  return { ...record, effects };
}

/** Drops the end of a turn whose output was refused: the model call is repeated. */
function withoutFinish(record: JournalRecord): JournalRecord {
  if (!('effects' in record) || !record.effects?.finish) return record;
  const { finish: _, ...effects } = record.effects;
  return { ...record, effects };
}

/** Drops the last model call, which is repeated; steering messages received during it are kept. */
function withoutCall(records: readonly JournalRecord[], iteration: number): readonly JournalRecord[] {
  const start = records.findIndex((record) => record.type === 'llm.start' && record.iteration === iteration);
  return records.filter((record, index) => index < start || record.type === 'x.steer');
}

/** Error codes of calls that were stopped, and so have no outcome. */
const stopped: ReadonlySet<unknown> = new Set<ErrorCode>(['CANCELED', 'TOOL_ABANDONED', 'TOOL_SKIPPED']);

/** Error codes that leave open whether a started call took effect. */
const uncertain: ReadonlySet<unknown> = new Set<ErrorCode>([
  'CANCELED',
  'TOOL_ABANDONED',
  'TOOL_TIMEOUT',
  'OUTCOME_UNKNOWN',
]);

/** Reopens the last batch if its calls failed the turn, or were stopped with it. */
function withoutFailures(records: readonly JournalRecord[], end: TerminalRecord, iteration: number): Kept {
  const answer = records.findLastIndex((record) => record.type === 'llm.done' && record.iteration === iteration);
  const dropped = new Map<string, ToolResultRecord>();
  const isCulprit = ({ error, fails }: ToolResultRecord) => {
    const { code, message } = fails ?? error ?? {};
    return end.type === 'turn.failed' && code === end.code && message === end.message;
  };
  for (const record of records.slice(answer + 1)) {
    if (record.type === 'tool.result' && (isCulprit(record) || stopped.has(record.error?.code)))
      dropped.set(record.callId, record);
  }
  const mayHaveRun = (callId: string) => {
    const result = dropped.get(callId);
    return result === undefined || uncertain.has(result.error?.code);
  };
  let followsDropped = false;
  const kept = records.filter((record, index) => {
    if (index <= answer) return true;
    followsDropped =
      (record.type === 'tool.result' && dropped.has(record.callId)) ||
      (followsDropped && 'hook' in record && record.hook === 'afterToolCall');
    if (followsDropped) return false;
    return record.type !== 'tool.intent' || record.child !== undefined || mayHaveRun(record.callId);
  });
  return { records: kept, inDoubt: startedCalls(numbered(kept)) };
}

function startedCalls(records: readonly JournalRecord[]): ReadonlySet<string> {
  const { pendingToolCalls } = foldRecords(records);
  return new Set(pendingToolCalls.flatMap(({ callId, intent, result }) => (intent && !result ? [callId] : [])));
}

interface NewTask {
  readonly newTaskId: string;
  readonly parent: ParentLink | undefined;
  readonly at: number;
  /** The task that the retry continues. */
  readonly old: LoopState;
}

/** Copies the records under the identity of the new task, which starts now with no usage. */
function asNewTask(
  records: readonly JournalRecord[],
  { newTaskId, parent, at, old }: NewTask,
  inDoubt: ReadonlySet<string>,
): readonly [Stamped<TurnStarted>, ...JournalRecord[]] {
  const [begun, ...rest] = records;
  if (begun?.type !== 'turn.started')
    throw new AgentLoopError('INTERNAL', 'The journal does not begin with turn.started; it is damaged.');
  const { parent: _, trace: __, submitted: ___, ...first } = begun;
  const { iteration, history, pendingToolCalls, toolCalls } = foldRecords(records);
  const { taskId, retried } = old.turn;
  const results = pendingToolCalls.filter(({ result }) => result).length;
  const keys = pendingToolCalls.flatMap(({ callId, intent, child }) =>
    intent && !child && inDoubt.has(callId) ? [[callId, retried?.keys[callId] ?? `${taskId}:${callId}`] as const] : [],
  );
  const retry: RetryOrigin = {
    iterations: iteration,
    messages: history.length + pendingToolCalls.length,
    toolCalls: toolCalls - results,
    keys: Object.fromEntries(keys),
  };
  const forkedFrom = { taskId, at: iteration, records: records.length, retry };
  // The context of a sub-agent is its own turn.
  const contextId = parent && first.contextId === taskId ? newTaskId : first.contextId;
  const started = {
    ...first,
    taskId: newTaskId,
    contextId,
    ...(parent && { parent }),
    forkedFrom,
    seq: 1,
    epoch: 0,
    at,
  };
  const kept = rest.map((record, index) => {
    const { epoch } = record;
    return { ...(kindOf(record.type)?.withoutUsage(record) ?? record), seq: index + 2, epoch, at };
  });
  return [started, ...kept];
}
