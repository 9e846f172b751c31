import { AgentLoopError, type ChildLink, type TaskStateStore, textOf, type Usage } from '../core/contracts/index.ts';
import {
  applyRecord,
  type ForkOrigin,
  type JournalRecord,
  kindOf,
  type LlmDone,
  type LlmStart,
  type LoopState,
  openCallIndex,
  type ToolResultRecord,
} from '../core/journal/index.ts';
import { oneLine } from './one-line.ts';
import { count } from './tally.ts';

interface RowBase {
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** A model call. Without `done` it is running, or was interrupted. */
export interface ModelRow extends RowBase {
  readonly type: 'model';
  readonly iteration: number;
  readonly attempt: number;
  readonly cutOff?: true;
  readonly done?: {
    readonly durationMs: number;
    readonly text: string;
    readonly toolCalls: number;
    readonly usage?: Usage;
    readonly model?: string;
  };
}

/** An attempt of a tool call. Without `done` it runs, has asked something, or was cut off. */
export interface CallRow extends RowBase {
  readonly type: 'tool';
  readonly callId: string;
  readonly toolName: string;
  readonly arguments: unknown;
  readonly attempt: number;
  /** The child turn that it runs as. */
  readonly child?: ChildLink;
  readonly cutOff?: true;
  readonly asked?: true;
  readonly done?: {
    readonly durationMs: number;
    readonly success: boolean;
    readonly content: ToolResultRecord['content'];
    readonly error?: ToolResultRecord['error'];
  };
}

/** Something else that happened, in words. */
export interface MomentRow extends RowBase {
  readonly type: 'moment';
  readonly what: string;
}

export type TimelineRow = ModelRow | CallRow | MomentRow;

/** What happened in a turn, in order, and where it stands. */
export interface Timeline {
  readonly state: LoopState;
  readonly rows: readonly TimelineRow[];
}

/** The timeline after one more record. Errors as `applyRecord`. */
export function extendTimeline(timeline: Timeline | undefined, record: JournalRecord): Timeline {
  const before = timeline?.state;
  return { state: applyRecord(before, record), rows: rowsAfter(timeline?.rows ?? [], record, before) };
}

/** The timeline of a journal; undefined for an empty one. */
export function timelineOf(records: readonly JournalRecord[]): Timeline | undefined {
  return records.reduce<Timeline | undefined>(extendTimeline, undefined);
}

/** A timeline with those of the child turns of its calls, by their task ids. */
export interface TimelineTree {
  readonly timeline: Timeline;
  readonly below: ReadonlyMap<string, TimelineTree>;
}

/** Reads what is new of the child turns that the calls of a timeline name, at any depth. One that does not exist is left out. */
export async function withChildren(
  store: Pick<TaskStateStore, 'read'>,
  timeline: Timeline,
  known: TimelineTree['below'] = new Map(),
): Promise<TimelineTree> {
  const below = new Map(known);
  for (const row of timeline.rows) {
    if (row.type !== 'tool' || !row.child) continue;
    const { taskId } = row.child;
    const before = below.get(taskId);
    if (before?.timeline.state.isComplete) continue;
    const records = await recordsFrom(store, taskId, (before?.timeline.state.seq ?? 0) + 1);
    const after = records.reduce<Timeline | undefined>(extendTimeline, before?.timeline);
    if (after) below.set(taskId, await withChildren(store, after, before?.below));
  }
  return { timeline, below };
}

async function recordsFrom(store: Pick<TaskStateStore, 'read'>, taskId: string, from: number) {
  try {
    return await store.read(taskId, { from });
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return [];
    throw error;
  }
}

/** Whether a row can change no more. */
export function isSettled(row: TimelineRow): boolean {
  return (
    row.type === 'moment' ||
    row.done !== undefined ||
    row.cutOff === true ||
    (row.type === 'tool' && row.asked === true)
  );
}

function rowsAfter(
  rows: readonly TimelineRow[],
  record: JournalRecord,
  before: LoopState | undefined,
): readonly TimelineRow[] {
  const { at } = record;
  switch (record.type) {
    case 'turn.started':
      return record.forkedFrom ? [moment(at, originOf(record.forkedFrom))] : [];
    case 'turn.resumed':
      return [...rows.map(cutOff), ...told(record)];
    case 'llm.start':
      return [...rows.map(cutOff), modelRow(record, at)];
    case 'llm.done':
      return rows.map((row) => (row.type === 'model' && !isSettled(row) ? answered(row, record, at) : row));
    case 'tool.intent': {
      const { callId, attempt, arguments: given } = record;
      const pending = before?.pendingToolCalls[openCallIndex(before, callId)];
      const toolName = pending?.call.function.name ?? '';
      const child = record.child ?? pending?.child;
      return [...rows, { type: 'tool', at, callId, toolName, arguments: given, attempt, ...(child && { child }) }];
    }
    case 'tool.result':
      return withResult(rows, record, { at, before });
    case 'turn.asked': {
      const { callId } = record.question;
      const asking = rows.map((row) => (isOpenCall(row, callId) ? { ...row, asked: true as const } : row));
      return [...asking, ...told(record)];
    }
    case 'turn.done':
    case 'turn.failed':
    case 'turn.canceled':
      return rows.map(cutOff);
    case 'x.conversation':
      return [...rows, ...remembered(record, at)];
    default:
      return [...rows, ...told(record)];
  }
}

/** What the turn was given of the turns before it; nothing where it is the first. */
function remembered(record: JournalRecord, at: number): readonly MomentRow[] {
  const data = 'data' in record ? record.data : undefined;
  const history: unknown = typeof data === 'object' && data !== null ? Reflect.get(data, 'history') : undefined;
  return typeof history === 'number' && history > 0
    ? [moment(at, `continues a conversation of ${count(history, 'message')}`)]
    : [];
}

function originOf({ taskId, at, retry }: ForkOrigin): string {
  return retry ? `retry of ${taskId}, which ended in iteration ${at}` : `forked from ${taskId}, after iteration ${at}`;
}

/** What the record table says of it. */
function told(record: JournalRecord): readonly MomentRow[] {
  const words = kindOf(record.type)?.words(record);
  return words === undefined ? [] : [moment(record.at, oneLine(words))];
}

function moment(at: number, what: string): MomentRow {
  return { type: 'moment', at, what };
}

function modelRow({ iteration, attempt }: LlmStart, at: number): ModelRow {
  return { type: 'model', at, iteration, attempt };
}

function answered(row: ModelRow, record: LlmDone, at: number): ModelRow {
  const { usage, model, message, calls } = record;
  const done = {
    durationMs: at - row.at,
    text: textOf(message.content),
    toolCalls: calls.length,
    ...(usage && { usage }),
    ...(model !== undefined && { model }),
  };
  return { ...row, done };
}

function withResult(
  rows: readonly TimelineRow[],
  record: ToolResultRecord,
  { at, before }: { readonly at: number; readonly before: LoopState | undefined },
): readonly TimelineRow[] {
  const { callId, content, success, durationMs, error } = record;
  const done = { durationMs, success, content, ...(error && { error }) };
  if (rows.some((row) => isOpenCall(row, callId))) {
    return rows.map((row) => (isOpenCall(row, callId) ? { ...row, done } : row));
  }
  const pending = before?.pendingToolCalls[openCallIndex(before, callId)];
  const toolName = pending?.call.function.name ?? '';
  const given = pending?.intent?.arguments ?? record.arguments;
  return [...rows, { type: 'tool', at, callId, toolName, arguments: given, attempt: pending?.attempts ?? 0, done }];
}

function isOpenCall(row: TimelineRow, callId: string): row is CallRow {
  return row.type === 'tool' && row.callId === callId && !isSettled(row);
}

function cutOff(row: TimelineRow): TimelineRow {
  return row.type === 'moment' || isSettled(row) ? row : { ...row, cutOff: true };
}
