import { applyRecord } from '../core/apply-record.ts';
import { textOf } from '../core/messages.ts';
import { isLeftCall, type JournalRecord, type LlmDone, type LlmStart, type ToolResultRecord } from '../core/records.ts';
import { type LoopState, openCallIndex } from '../core/state.ts';
import type { Usage } from '../providers/interfaces.ts';
import { oneLine } from './one-line.ts';

interface RowBase {
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** A call of the model. Without `done` it goes on, or was cut off. */
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
      return record.forkedFrom
        ? [moment(at, `forked from ${record.forkedFrom.taskId}, behind iteration ${record.forkedFrom.at}`)]
        : [];
    case 'turn.resumed':
      return [...rows.map(cutOff), moment(at, 'resumed')];
    case 'llm.start':
      return [...rows.map(cutOff), modelRow(record, at)];
    case 'llm.done':
      return rows.map((row) => (row.type === 'model' && !isSettled(row) ? answered(row, record, at) : row));
    case 'tool.intent': {
      const call = before?.pendingToolCalls[openCallIndex(before, record.callId)]?.call;
      const toolName = call?.function.name ?? '';
      return [
        ...rows,
        { type: 'tool', at, callId: record.callId, toolName, arguments: record.arguments, attempt: record.attempt },
      ];
    }
    case 'tool.result':
      return withResult(rows, record, { at, before });
    case 'turn.asked': {
      const { callId, kind, toolName } = record.question;
      const asking = rows.map((row) => (isOpenCall(row, callId) ? { ...row, asked: true as const } : row));
      return [...asking, moment(at, `${toolName} (${callId}) asks: ${kind}`)];
    }
    case 'turn.answered':
      return [...rows, moment(at, `${record.callId} answered: ${oneLine(JSON.stringify(record.answer))}`)];
    case 'turn.suspended':
      return [...rows, moment(at, `suspended: ${record.reason}`)];
    case 'turn.done':
    case 'turn.failed':
    case 'turn.canceled':
      return rows.map(cutOff);
    default:
      return [...rows, moment(at, wordsOf(record))];
  }
}

function wordsOf(record: JournalRecord): string {
  if (record.type === 'x.steer') return 'a message was added';
  return isLeftCall(record) ? 'the process shut down' : record.type;
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
