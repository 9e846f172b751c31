import { createHash } from 'node:crypto';
import type { ToolCall } from '../../core/contracts/index.ts';
import {
  isKnownType,
  type JournalRecord,
  type LlmDone,
  type RecordedCall,
  type Stamped,
  type TurnRecord,
} from '../../core/journal/index.ts';
import { unknownRecord } from '../store-errors.ts';
import { unreadable } from './redis-errors.ts';
import type { StreamEntry } from './script-answer.ts';

/** Payloads above this many bytes stand in the task's blobs, and their entry names them by their SHA-256. */
export const maxInlineBytes = 256 * 1024;

/** JSON of a record, and its digest where it goes to the blobs, else an empty string: two arguments of a script. */
export type EncodedRecord = readonly [json: string, digest: string];

/**
 * Seq and epoch are left out: they are the entry's id. So are the calls in the message of an answer where they are those of the record:
 * `toolCalls` is then their number.
 */
export function encodeRecord(record: JournalRecord): EncodedRecord {
  const { seq, epoch, ...rest } = record;
  const json = JSON.stringify(repeatsCalls(rest) ? withoutRepeats(rest) : rest);
  if (json.length * 3 <= maxInlineBytes || Buffer.byteLength(json) <= maxInlineBytes) return [json, ''];
  return [json, createHash('sha256').update(json).digest('hex')];
}

function repeatsCalls(record: TurnRecord): record is LlmDone {
  if (record.type !== 'llm.done') return false;
  const { toolCalls = [] } = record.message;
  return toolCalls.length > 0 && sameCalls(toolCalls, record.calls);
}

function withoutRepeats(record: LlmDone): object {
  return { ...record, message: { ...record.message, toolCalls: record.calls.length } };
}

/** The message again as it was given. */
function withCalls(record: Stamped<LlmDone>): Stamped<LlmDone> {
  const { message, calls } = record;
  if (typeof message?.toolCalls !== 'number') return record;
  return { ...record, message: { ...message, toolCalls: calls.map(({ call }) => call) } };
}

function sameCalls(toolCalls: readonly ToolCall[], calls: readonly RecordedCall[]): boolean {
  return toolCalls.length === calls.length && toolCalls.every((call, index) => call === calls[index]?.call);
}

export interface EntryPlace {
  readonly seq: number;
  readonly epoch: number;
}

/** Seq and epoch out of an id `<seq>-<epoch>`. */
export function placeOf(id: string): EntryPlace {
  const [seq, epoch] = id.split('-', 2);
  return { seq: Number(seq), epoch: Number(epoch) };
}

/**
 * The record that an entry holds; `json` is its value, or the blob that it names. Errors with `POISON` for what is not a record, is
 * of an unknown type, or belongs to another task.
 */
export function decodeRecord(taskId: string, entry: StreamEntry, json: string): JournalRecord {
  const { seq, epoch } = placeOf(entry.id);
  const fields = parse(taskId, entry.id, json);
  const record: JournalRecord = { ...fields, seq, epoch };
  if (!isKnownType(record.type)) throw unknownRecord(taskId, seq, String(record.type));
  if (record.type === 'turn.started' && record.taskId !== taskId) {
    throw unreadable(taskId, entry.id, `it belongs to task "${record.taskId}"`);
  }
  return record.type === 'llm.done' ? withCalls(record) : record;
}

function parse(taskId: string, id: string, json: string): JournalRecord {
  let fields: JournalRecord | null;
  try {
    fields = JSON.parse(json);
  } catch {
    throw unreadable(taskId, id, 'it is not JSON');
  }
  if (typeof fields === 'object' && fields !== null && typeof fields.at === 'number') return fields;
  throw unreadable(taskId, id, 'it is not a record');
}
