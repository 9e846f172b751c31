import { type Context, isSpanContextValid, TraceFlags, trace } from '@opentelemetry/api';
import {
  AgentLoopError,
  type Clock,
  type Lease,
  type StartOptions,
  systemClock,
  type TaskStateStore,
  type ToolCall,
  type TurnCallSettings,
  textOf,
} from '../core/contracts/index.ts';
import type { TurnStart } from '../core/journal/index.ts';
import {
  applyRecord,
  type Deadline,
  foldRecords,
  type JournalRecord,
  journalSchema,
  type LlmDone,
  type LoopState,
  type Question,
  type RecordStamp,
  ready,
  type Stamped,
  type Submission,
  type ToolIntent,
  type ToolResultRecord,
  type TurnRecord,
  type TurnStarted,
  taskState,
} from '../core/journal/index.ts';
import { releaseUnused } from '../core/ownership/index.ts';
import { pause } from '../core/streams/index.ts';
import { checkSameTurn, otherContext } from '../core/turn/index.ts';
import { checkForkOptions, type ForkEdits, type ForkOptions } from '../options/turn-options.ts';

/** Options of `AgentLoop.submit`: settings that the journal keeps, so that any process can run the turn. */
export interface SubmitOptions
  extends TurnCallSettings,
    Pick<
      StartOptions,
      'taskId' | 'agentId' | 'contextId' | 'parentContext' | 'systemPrompt' | 'maxIterations' | 'metadata' | 'retryPlan'
    > {
  /** The tenant, for a queue shared by several. Default: none. */
  readonly tenant?: string | undefined;
  /** Priority in the worker queue, from 1 (first) to 2^21 - 1. Default: the queue decides. */
  readonly priority?: number | undefined;
  /** The earliest start by a worker, in milliseconds since 1970. Default: at once. */
  readonly notBefore?: number | undefined;
}

/** A submitted task. */
export interface SubmittedTask {
  readonly taskId: string;
  readonly contextId: string;
  /** False if the task existed already. */
  readonly created: boolean;
}

interface SubmitTask {
  readonly store: TaskStateStore;
  readonly deadline: Deadline;
  readonly start: TurnStart;
  /** As the caller passed it; `undefined` matches an existing task of any context. */
  readonly contextId: string | undefined;
  readonly parentContext: Context;
}

/** Writes the journal of a new turn and acquires no lease. Errors: `CONFLICT` if the task exists and is another turn; those of the store. */
export async function submitTask({
  store,
  deadline,
  start,
  contextId,
  parentContext,
}: SubmitTask): Promise<SubmittedTask> {
  const { taskId } = start;
  const record = {
    type: 'turn.started' as const,
    schema: journalSchema,
    ...start,
    seq: 1,
    epoch: 0,
    at: deadline.clock.now(),
    submitted: submissionFrom(parentContext),
  };
  const { created, started } = await ready(() => store.create(taskId, record), deadline);
  if (!created) {
    checkSameTurn(record, started);
    if (contextId !== undefined && contextId !== started.contextId) throw otherContext(taskId);
  }
  return { taskId, contextId: started.contextId, created };
}

function submissionFrom(parentContext: Context): Submission {
  const above = trace.getSpanContext(parentContext);
  if (!above || !isSpanContextValid(above)) return {};
  const { traceId, spanId, traceFlags } = above;
  const sampled = (traceFlags & TraceFlags.SAMPLED) === 0 ? { sampled: false as const } : {};
  return { trace: { traceId, spanId, ...sampled } };
}

/** The task that a fork created. */
export interface ForkedTask {
  readonly taskId: string;
  readonly contextId: string;
}

const leaseMs = 30_000;
const recordsPerAppend = 200;

/**
 * Starts a new task from the first iterations of another, which is not changed and may have ended, be suspended or run elsewhere. The
 * edited records are copied into a new journal; nothing runs before `AgentLoop.resume`.
 *
 * The first record of the new task names its origin (`forkedFrom`). Times are shifted so that the kept part ends now.
 * Idempotency keys are those of the new task. Errors: `NOT_FOUND`; `INVALID_INPUT`, naming the iterations and calls that exist; `CONFLICT`
 * if the new id is taken; those of the store. A partly written fork is deleted again.
 */
export async function forkTask(taskId: string, options: ForkOptions): Promise<ForkedTask> {
  checkForkOptions(options);
  const { store, at, edits = {}, clock = systemClock } = options;
  const kept = prefixOf(await store.read(taskId), at);
  const identity = { taskId: options.taskId ?? crypto.randomUUID(), contextId: options.contextId };
  const records = renumbered(editRecords(kept, structuredClone(edits)), {
    ...identity,
    from: { taskId, at },
    now: clock.now(),
  });
  const { turn } = foldRecords(records);
  await writeTask(records, { store, clock });
  return { taskId: turn.taskId, contextId: turn.contextId };
}

/** The records up to the end of an iteration, including the change of agent at its end. */
function prefixOf(records: readonly JournalRecord[], at: number): readonly JournalRecord[] {
  const lengths = [1];
  let state: LoopState | undefined;
  for (const [index, record] of records.entries()) {
    state = applyRecord(state, record);
    const ends = lengths[state.iteration] === undefined || record.type === 'agent.changed';
    if (hasClosedIteration(state) && ends) lengths[state.iteration] = index + 1;
  }
  const length = lengths[at];
  if (length !== undefined) return records.slice(0, length);
  const { taskId } = foldRecords(records).turn;
  const message = `Task "${taskId}" has no end of iteration ${at}; it can be cut after: ${[...lengths.keys()].join(', ')}.`;
  throw new AgentLoopError('INVALID_INPUT', message, { taskId });
}

/** Whether the last iteration has all its results; the closing summary of a turn is not an iteration. */
function hasClosedIteration({ phase, iteration, summary, outcome }: LoopState): boolean {
  return iteration > 0 && !summary && !outcome && (phase === 'closed' || phase === 'answered');
}

interface ForkIdentity {
  readonly taskId: string;
  readonly contextId: string | undefined;
  readonly from: { readonly taskId: string; readonly at: number };
  readonly now: number;
}

/** Copies the records under the identity, seqs and times of the new task. */
function renumbered(records: readonly JournalRecord[], fork: ForkIdentity): Copy {
  const [begun, ...rest] = records;
  if (begun?.type !== 'turn.started')
    throw new AgentLoopError(
      'INTERNAL',
      `The journal of task "${fork.from.taskId}" does not begin with turn.started; it is damaged.`,
    );
  // A fork of a child turn has no parent turn, and a fork of a submitted turn is resumed as any fork.
  const { parent: _, submitted: __, follows = { before: fork.from.taskId }, ...first } = begun;
  const shift = fork.now - (records.at(-1) ?? first).at;
  const { taskId, contextId = first.contextId } = fork;
  // It has the place of the turn that it copies, which another context does not have.
  const place = contextId === first.contextId ? { follows } : {};
  const forkedFrom = { ...fork.from, records: records.length };
  const started = { ...first, ...place, taskId, contextId, forkedFrom, seq: 1, epoch: 0, at: first.at + shift };
  return [started, ...rest.map((record, index) => ({ ...record, seq: index + 2, at: record.at + shift }))];
}

type Copy = readonly [Stamped<TurnStarted>, ...JournalRecord[]];

interface WriteTask {
  readonly store: TaskStateStore;
  readonly clock: Clock;
  /**
   * Completes a copy that another writer began. One that still writes, or died less than a lease ago, is waited for, or is an error with `BUSY`.
   * Absent: any task of this id is a `CONFLICT`.
   */
  readonly begun?: 'wait' | 'fail' | undefined;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
}

const firstLookMs = 20;
const longestLookMs = 1_000;

/**
 * Writes the journal of a task that copies another. What fails halfway is deleted again, unless another writer has the lease by then.
 * Errors: `CONFLICT` if another task has the id; those of the store.
 */
export async function writeTask(copy: Copy, options: WriteTask): Promise<void> {
  const [started] = copy;
  const { store, clock, begun, signal } = options;
  for (let waitMs = firstLookMs; ; waitMs = Math.min(2 * waitMs, longestLookMs)) {
    const { created, started: found } = await store.create(started.taskId, started);
    if (!created && !(begun && isSameCopy(started, found))) throw taken(started.taskId);
    if (copy.length === 1 || (await appendMissing(copy, options, created))) return;
    await pause(waitMs, clock, signal);
    signal?.throwIfAborted();
  }
}

function isSameCopy({ forkedFrom: asked }: TurnStarted, { forkedFrom: found }: TurnStarted): boolean {
  return (
    found?.retry !== undefined &&
    asked?.retry !== undefined &&
    found.taskId === asked.taskId &&
    found.records === asked.records
  );
}

function taken(taskId: string): AgentLoopError {
  return new AgentLoopError('CONFLICT', `Task "${taskId}" exists; use another task id, or none.`, { taskId });
}

/** Appends the records that the journal lacks. False if another writer has the lease, and the journal is not complete. */
async function appendMissing(copy: Copy, { store, clock, begun }: WriteTask, created: boolean): Promise<boolean> {
  const [{ taskId }] = copy;
  const askedAt = clock.now();
  try {
    const lease = await store.acquire(taskId, `fork-${crypto.randomUUID()}`, leaseMs);
    await appendFrom(copy, store, lease);
    // Nothing was run under a lease that an earlier writer lost.
    await releaseUnused(store, { ...lease, abandonedAt: null });
    return true;
  } catch (error) {
    const code = AgentLoopError.isInstance(error) ? error.code : undefined;
    if (begun && code === 'TERMINAL') return true;
    const elsewhere = code === 'BUSY' || code === 'FENCED' || code === 'NOT_FOUND';
    if (begun && elsewhere) {
      if (await isComplete(copy, store)) return true;
      if (begun === 'wait') return false;
    } else if (created && !elsewhere && clock.now() - askedAt < leaseMs) {
      const undo = async () => store.delete(taskId);
      await undo().catch(() => {});
    }
    throw error;
  }
}

async function appendFrom(copy: Copy, store: TaskStateStore, lease: Lease): Promise<void> {
  let state = foldRecords(copy.slice(0, lease.seq));
  for (let from = lease.seq; from < copy.length; from += recordsPerAppend) {
    const records = copy.slice(from, from + recordsPerAppend).map((record) => ({ ...record, epoch: lease.epoch }));
    state = records.reduce<LoopState>(applyRecord, state);
    await store.append(lease, records, { status: taskState(state), barrier: true });
  }
}

async function isComplete(copy: Copy, store: TaskStateStore): Promise<boolean> {
  try {
    return (await store.read(copy[0].taskId, { from: copy.length })).length > 0;
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return false;
    throw error;
  }
}

/**
 * The kept records of a fork with its edits. Errors: `INVALID_INPUT` for an iteration or a call that is not kept, and for new arguments of
 * a call that a question was asked about.
 */
function editRecords(records: readonly JournalRecord[], edits: ForkEdits): readonly JournalRecord[] {
  checkEdits(records, edits);
  const edited = records.map((record) => editRecord(record, edits));
  const { append = [] } = edits;
  const last = records.at(-1);
  if (append.length === 0 || !last) return edited;
  const edit = { type: 'x.edit' as const, effects: { messages: [...append] } };
  return [...edited, { ...edit, seq: last.seq + 1, epoch: last.epoch, at: last.at }];
}

function editRecord(record: JournalRecord, edits: ForkEdits): JournalRecord {
  switch (record.type) {
    case 'turn.started':
      return editStart(record, edits);
    case 'llm.done':
      return editAnswer(record, edits);
    case 'tool.intent':
      return editIntent(record, edits);
    case 'tool.result':
      return editResult(record, edits);
    default:
      record.type satisfies
        | 'turn.resumed'
        | 'llm.start'
        | 'turn.asked'
        | 'turn.answered'
        | 'turn.suspended'
        | 'agent.changed'
        | 'turn.done'
        | 'turn.failed'
        | 'turn.canceled'
        | `x.${string}`;
      return record;
  }
}

type Edited<R extends TurnRecord> = R & RecordStamp;

function editStart(record: Edited<TurnStarted>, { messages = record.messages, settings }: ForkEdits): JournalRecord {
  return { ...record, messages: [...messages], settings: { ...record.settings, ...settings } };
}

function editAnswer(record: Edited<LlmDone>, { answers = {}, arguments: given = {} }: ForkEdits): JournalRecord {
  const calls = record.calls.map(({ callId, call }) => {
    const value = given[callId];
    return { callId, call: value === undefined ? call : withArguments(call, value) };
  });
  const { [record.iteration]: content = record.message.content } = answers;
  const toolCalls = calls.length > 0 ? { toolCalls: calls.map(({ call }) => call) } : {};
  return { ...record, calls, message: { ...record.message, content, ...toolCalls } };
}

function withArguments(call: ToolCall, value: object): ToolCall {
  return { ...call, function: { name: call.function.name, arguments: JSON.stringify(value) } };
}

function editIntent(record: Edited<ToolIntent>, { arguments: given = {} }: ForkEdits): JournalRecord {
  const value = given[record.callId];
  return value === undefined ? record : { ...record, arguments: value };
}

function editResult(record: Edited<ToolResultRecord>, edits: ForkEdits): JournalRecord {
  const given = edits.arguments?.[record.callId];
  const edit = edits.results?.[record.callId];
  // A fork continues after the iteration, even if one of its calls failed the turn.
  const { fails: _, ...kept } = record;
  const { error: __, arguments: refused, ...rest } = kept;
  const args = refused === undefined ? {} : { arguments: given ?? refused };
  if (!edit) return given === undefined ? kept : { ...kept, ...args };
  const { content, success = true } = edit;
  const failure = success ? {} : { error: { code: 'TOOL_FAILED' as const, message: textOf(content) } };
  return { ...rest, ...args, content, success, ...failure };
}

function checkEdits(records: readonly JournalRecord[], { answers, arguments: given, results }: ForkEdits): void {
  const done = records.filter((record) => record.type === 'llm.done');
  const iterations = done.map(({ iteration }) => String(iteration));
  const callIds = done.flatMap(({ calls }) => calls.map(({ callId }) => callId));
  checkNames('answers', answers, { kept: iterations, what: 'iteration' });
  checkNames('arguments', given, { kept: callIds, what: 'call' });
  checkNames('results', results, { kept: callIds, what: 'call' });
  checkNotShown(records, given);
}

/** Kinds of questions that show the call's arguments. */
const kindsWithArguments: ReadonlySet<Question['kind']> = new Set(['approval', 'client-tool', 'in-doubt']);

function checkNotShown(records: readonly JournalRecord[], given: object = {}): void {
  for (const record of records) {
    if (record.type !== 'turn.asked') continue;
    const { callId, kind } = record.question;
    if (!kindsWithArguments.has(kind) || !(callId in given)) continue;
    const why = `which somebody was asked about (${kind}) with the arguments that it had`;
    const cure = `fork at ${Number.parseInt(callId, 10) - 1} to have it asked anew, or edit its result`;
    throw new AgentLoopError('INVALID_INPUT', `edits.arguments names the call "${callId}", ${why}; ${cure}.`);
  }
}

function checkNames(
  member: string,
  given: object | undefined,
  { kept, what }: { readonly kept: readonly string[]; readonly what: string },
): void {
  const stray = Object.keys(given ?? {}).find((name) => !kept.includes(name));
  if (stray === undefined) return;
  const list = kept.length === 0 ? `none is kept` : `those that are kept: ${kept.join(', ')}`;
  throw new AgentLoopError('INVALID_INPUT', `edits.${member} names the ${what} "${stray}"; ${list}.`);
}
