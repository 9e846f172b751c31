import { type ChildLink, textOf, type Usage } from '../core/contracts/index.ts';
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
interface MomentRow extends RowBase {
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
  const rows = timeline?.rows ?? [];
  const open = new Map(rows.flatMap((row, index) => (isSettled(row) ? [] : [[index, row] as const])));
  const { changed, added } = rowChanges(open, record, before);
  const next = changed.size === 0 ? rows : rows.map((row, index) => changed.get(index) ?? row);
  return { state: applyRecord(before, record), rows: added.length === 0 ? next : [...next, ...added] };
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

/** What a record does to the rows: the open ones as they are then, by their index, and those that are added. */
export interface RowChanges {
  readonly changed: ReadonlyMap<number, TimelineRow>;
  readonly added: readonly TimelineRow[];
}

/** `open`: the rows that are not settled, by their index. `before`: the state before the record. */
export function rowChanges(
  open: ReadonlyMap<number, TimelineRow>,
  record: JournalRecord,
  before: LoopState | undefined,
): RowChanges {
  const { at } = record;
  const all = (change: (row: TimelineRow) => TimelineRow) =>
    new Map([...open].map(([index, row]) => [index, change(row)]));
  switch (record.type) {
    case 'turn.started':
      return { changed: none, added: record.forkedFrom ? [moment(at, originOf(record.forkedFrom))] : [] };
    case 'turn.resumed':
      return { changed: all(cutOff), added: outcomeRows(record) };
    case 'llm.start':
      return { changed: all(cutOff), added: [modelRow(record, at)] };
    case 'llm.done':
      return { changed: all((row) => (row.type === 'model' ? answered(row, record, at) : row)), added: [] };
    case 'tool.intent': {
      const { callId, attempt, arguments: given } = record;
      const pending = before?.pendingToolCalls[openCallIndex(before, callId)];
      const toolName = pending?.call.function.name ?? '';
      const child = record.child ?? pending?.child;
      const row = { type: 'tool' as const, at, callId, toolName, arguments: given, attempt, ...(child && { child }) };
      return { changed: none, added: [row] };
    }
    case 'tool.result':
      return withResult(open, record, { at, before });
    case 'turn.asked': {
      const { callId } = record.question;
      const changed = all((row) => (isCall(row, callId) ? { ...row, asked: true as const } : row));
      return { changed, added: outcomeRows(record) };
    }
    case 'turn.done':
    case 'turn.failed':
    case 'turn.canceled':
      return { changed: all(cutOff), added: [] };
    case 'x.conversation':
      return { changed: none, added: remembered(record, at) };
    default:
      return { changed: none, added: outcomeRows(record) };
  }
}

const none: ReadonlyMap<number, TimelineRow> = new Map();

/** What the turn was given of the turns before it; nothing where it is the first. */
function remembered(record: JournalRecord, at: number): readonly MomentRow[] {
  const data = 'data' in record ? record.data : undefined;
  const history: unknown = typeof data === 'object' && data !== null ? Reflect.get(data, 'history') : undefined;
  return typeof history === 'number' && history > 0
    ? [moment(at, `continues a conversation of ${history.toLocaleString('en-US')} message${history === 1 ? '' : 's'}`)]
    : [];
}

function originOf({ taskId, at, retry }: ForkOrigin): string {
  return retry ? `retry of ${taskId}, which ended in iteration ${at}` : `forked from ${taskId}, after iteration ${at}`;
}

/** What the record table says of it. */
function outcomeRows(record: JournalRecord): readonly MomentRow[] {
  const words = kindOf(record.type)?.words(record);
  return words === undefined ? [] : [moment(record.at, words)];
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
  open: ReadonlyMap<number, TimelineRow>,
  record: ToolResultRecord,
  { at, before }: { readonly at: number; readonly before: LoopState | undefined },
): RowChanges {
  const { callId, content, success, durationMs, error } = record;
  const done = { durationMs, success, content, ...(error && { error }) };
  const running = [...open].filter(([, row]) => isCall(row, callId));
  if (running.length > 0)
    return { changed: new Map(running.map(([index, row]) => [index, { ...row, done } as CallRow])), added: [] };
  const pending = before?.pendingToolCalls[openCallIndex(before, callId)];
  const toolName = pending?.call.function.name ?? '';
  const given = pending?.intent?.arguments ?? record.arguments;
  const row = { type: 'tool' as const, at, callId, toolName, arguments: given, attempt: pending?.attempts ?? 0, done };
  return { changed: none, added: [row] };
}

function isCall(row: TimelineRow, callId: string): row is CallRow {
  return row.type === 'tool' && row.callId === callId;
}

function cutOff(row: TimelineRow): TimelineRow {
  return row.type === 'moment' ? row : { ...row, cutOff: true };
}
