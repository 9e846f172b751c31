import { createHash } from 'node:crypto';
import { AgentLoopError, type AppendOptions, type Lease, type ToolCall } from '../../core/contracts/index.ts';
import {
  isKnownType,
  isTerminal,
  type JournalRecord,
  journalSchema,
  type LlmDone,
  type RecordedCall,
  type Stamped,
  type TurnRecord,
} from '../../core/journal/index.ts';
import { AppendGroup, batchFault, openCallAfter, unknownRecord } from '../store-rules.ts';
import { dueTimeIn, statusTimeIn } from '../task-summary.ts';
import {
  type Confirmation,
  headKey,
  listOf,
  type ScriptAnswer,
  type ScriptCall,
  type ScriptRunner,
  type StreamEntry,
  type TaskKeys,
  taskKeys,
} from './lua-scripts.ts';
import { command, overtaken, type RedisClient, redisError, torn, unreadable } from './redis-connection.ts';
import { type Retention, secondsToLive } from './redis-options.ts';

/** The script does not change the open call. */
const asBefore = -1;

interface JournalWriterDeps {
  readonly scripts: ScriptRunner;
  readonly prefix: string;
  readonly retention: Retention;
  /** The replicas that a barrier waits for; absent if the server's response is enough. */
  readonly confirmation: Confirmation | undefined;
}

/**
 * Sends appends. Those of one task may be pipelined; they reach the journal in the order of the calls. Appends to a task within one
 * tick of this process, including its microtasks, are sent as one.
 */
export class JournalWriter {
  readonly #deps: JournalWriterDeps;
  /** By task: the group being collected. */
  readonly #groups = new Map<string, AppendGroup>();
  /** By task: the appends in flight, the oldest first. */
  readonly #underWay = new Map<string, symbol[]>();

  constructor(deps: JournalWriterDeps) {
    this.#deps = deps;
  }

  append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): Promise<void> {
    const { taskId } = lease;
    const fault = batchFault(taskId, records);
    if (fault !== undefined) return this.#refuse(lease, fault, options);
    const open = this.#groups.get(taskId);
    if (open?.take(lease, records, options)) return open.answered;
    this.flush(taskId);
    const group = new AppendGroup(lease, records, options);
    this.#groups.set(taskId, group);
    process.nextTick(() => this.#sendGroup(group));
    return group.answered;
  }

  /** Sends the collected group, so that it precedes the next write. */
  flush(taskId: string): void {
    const group = this.#groups.get(taskId);
    if (group !== undefined) this.#sendGroup(group);
  }

  flushAll(): void {
    for (const group of this.#groups.values()) this.#sendGroup(group);
  }

  #sendGroup(group: AppendGroup): void {
    const { lease, records, options } = group;
    if (this.#groups.get(lease.taskId) !== group) return;
    this.#groups.delete(lease.taskId);
    group.answerWith(this.#send(lease, records, options));
  }

  /** Refuses an invalid batch; a lost lease or an ended turn takes precedence. */
  async #refuse(lease: Lease, fault: AgentLoopError, options: AppendOptions): Promise<never> {
    this.flush(lease.taskId);
    await this.#send(lease, [], options);
    throw fault;
  }

  async #send(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): Promise<void> {
    const { scripts, confirmation } = this.#deps;
    const { taskId } = lease;
    const place = Symbol(taskId);
    const line = this.#enter(taskId, place);
    try {
      await scripts.runInOrder(this.#call(lease, records, options), options.barrier ? confirmation : undefined);
    } catch (error) {
      // In a cluster, a later append can overtake a redirected one.
      const passed = AgentLoopError.isInstance(error) && error.code === 'REWOUND' && line[0] !== place;
      throw passed ? overtaken(taskId) : error;
    } finally {
      this.#leave(taskId, place);
    }
  }

  #call(lease: Lease, records: readonly JournalRecord[], { status }: AppendOptions): ScriptCall {
    const { taskId, owner, epoch, leaseMs } = lease;
    const first = records[0]?.seq ?? 0;
    const last = records.at(-1);
    const terminal = last !== undefined && isTerminal(last);
    const seconds = secondsToLive(this.#deps.retention, status);
    const open = openCallAfter(records) ?? asBefore;
    const times = `${last?.at ?? 0} ${statusTimeIn(records) ?? 0} ${dueTimeIn(records) ?? asBefore}`;
    const numbers = `${epoch} ${leaseMs} ${seconds} ${first} ${records.length} ${open} ${+terminal} ${times}`;
    const args: string[] = [owner, status, numbers];
    for (const record of records) args.push(...encodeRecord(record));
    return {
      script: terminal ? 'finish' : 'append',
      keys: [headKey(this.#deps.prefix, taskId)],
      args,
      subject: { taskId, lease, seq: first },
    };
  }

  #enter(taskId: string, place: symbol): readonly symbol[] {
    const line = this.#underWay.get(taskId) ?? [];
    line.push(place);
    this.#underWay.set(taskId, line);
    return line;
  }

  #leave(taskId: string, place: symbol): void {
    const line = this.#underWay.get(taskId);
    if (line === undefined) return;
    line.splice(line.indexOf(place), 1);
    if (line.length === 0) this.#underWay.delete(taskId);
  }
}

const pageSize = 500;

/** The journal up to the head's seq, and the positions from which a reader continues live. */
export interface JournalTail {
  readonly records: readonly JournalRecord[];
  readonly seq: number;
  readonly hasEnded: boolean;
  /** The id of the journal's last entry. */
  readonly lastId: string;
  /** The `llm.start` of the open model call. */
  readonly open: JournalRecord | undefined;
  /** The deltas of that call so far. */
  readonly deltas: readonly StreamEntry[];
  readonly lastDeltaId: string;
}

interface JournalReaderDeps {
  readonly client: RedisClient;
  readonly scripts: ScriptRunner;
  readonly prefix: string;
}

/** Reads journals, page by page. Errors: `NOT_FOUND`, `SCHEMA`, `POISON`, `UNAVAILABLE`. */
export class JournalReader {
  readonly #deps: JournalReaderDeps;

  constructor(deps: JournalReaderDeps) {
    this.#deps = deps;
  }

  keysOf(taskId: string): TaskKeys {
    return taskKeys(this.#deps.prefix, taskId);
  }

  /** The records from a seq on, up to where the journal ended when the first page was read. */
  async read(taskId: string, from: number): Promise<readonly JournalRecord[]> {
    const first = await this.#page(taskId, from, false);
    const end = first.int(1);
    const records = await this.decode(taskId, first.entries(3), from);
    for (let next = from + records.length; records.length > 0 && next <= end; next = from + records.length) {
      const page = await this.#page(taskId, next, false);
      const entries = page.entries(3).filter(({ id }) => placeOf(id).seq <= end);
      if (entries.length === 0) throw torn(taskId, end, next - 1);
      records.push(...(await this.decode(taskId, entries, next)));
    }
    return records;
  }

  /** A consistent snapshot of the records from a seq on, with the positions at the end. */
  async readTail(taskId: string, from: number): Promise<JournalTail> {
    const records: JournalRecord[] = [];
    for (;;) {
      const next = from + records.length;
      const page = await this.#page(taskId, next, true);
      records.push(...(await this.decode(taskId, page.entries(3), next)));
      if (page.has(4)) return this.#tail(taskId, page, records);
    }
  }

  /** Decodes records from entries; fetches payloads from the blobs. `POISON` if the first is not `from` or one is missing. */
  async decode(taskId: string, entries: readonly StreamEntry[], from: number): Promise<JournalRecord[]> {
    const blobs = await this.#blobs(taskId, entries);
    return entries.map((entry, index) => {
      const { seq } = placeOf(entry.id);
      if (seq !== from + index) throw torn(taskId, seq, from + index - 1);
      if (entry.field === 'r') return decodeRecord(taskId, entry, entry.value);
      const json = blobs.get(entry.value);
      if (json === undefined) throw unreadable(taskId, entry.id, 'its payload is gone');
      return decodeRecord(taskId, entry, json);
    });
  }

  #page(taskId: string, from: number, live: boolean): Promise<ScriptAnswer> {
    const { head, journal, deltas } = this.keysOf(taskId);
    return this.#deps.scripts.run({
      script: 'read',
      keys: [head, journal, deltas],
      args: [from, pageSize, journalSchema, live ? 1 : 0],
      subject: { taskId },
    });
  }

  async #tail(taskId: string, page: ScriptAnswer, records: readonly JournalRecord[]): Promise<JournalTail> {
    const opening = page.has(5) ? page.entry(5) : undefined;
    const [open] = opening === undefined ? [] : await this.decode(taskId, [opening], placeOf(opening.id).seq);
    return {
      records,
      seq: page.int(1),
      hasEnded: page.int(2) === 1,
      lastId: page.text(4),
      open,
      deltas: page.entries(6),
      lastDeltaId: page.text(7),
    };
  }

  async #blobs(taskId: string, entries: readonly StreamEntry[]): Promise<ReadonlyMap<string, string>> {
    const digests = [...new Set(entries.flatMap(({ field, value }) => (field === 'b' ? [value] : [])))];
    if (digests.length === 0) return new Map();
    try {
      const found = listOf(await command(this.#deps.client, 'hmget', this.keysOf(taskId).blobs, ...digests));
      return new Map(
        digests.flatMap((digest, index): [string, string][] => {
          const json = found[index];
          return typeof json === 'string' ? [[digest, json]] : [];
        }),
      );
    } catch (thrown) {
      throw redisError(thrown, taskId);
    }
  }
}

/** Larger payloads are stored in the task's blobs, and their entry contains the SHA-256. */
const maxInlineBytes = 256 * 1024;

/** The JSON of a record, and its digest if it is stored in the blobs, else an empty string: two arguments of a script. */
type EncodedRecord = readonly [json: string, digest: string];

/**
 * Omits seq and epoch, which are the entry's id, and the calls in the message of an answer if they equal those of the record:
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

/** Restores the message. */
function withCalls(record: Stamped<LlmDone>): Stamped<LlmDone> {
  const { message, calls } = record;
  if (typeof message?.toolCalls !== 'number') return record;
  return { ...record, message: { ...message, toolCalls: calls.map(({ call }) => call) } };
}

function sameCalls(toolCalls: readonly ToolCall[], calls: readonly RecordedCall[]): boolean {
  return toolCalls.length === calls.length && toolCalls.every((call, index) => call === calls[index]?.call);
}

interface EntryPlace {
  readonly seq: number;
  readonly epoch: number;
}

/** Parses seq and epoch from an id `<seq>-<epoch>`. */
export function placeOf(id: string): EntryPlace {
  const [seq, epoch] = id.split('-', 2);
  return { seq: Number(seq), epoch: Number(epoch) };
}

/**
 * Decodes the record of an entry; `json` is its value, or the blob that it refers to. Errors with `POISON` for an invalid record, an
 * unknown type, or a record of another task.
 */
function decodeRecord(taskId: string, entry: StreamEntry, json: string): JournalRecord {
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
