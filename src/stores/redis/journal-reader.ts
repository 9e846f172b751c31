import { type JournalRecord, journalSchema } from '../../core/journal/index.ts';
import { decodeRecord, placeOf } from './record-codec.ts';
import { command, type RedisClient } from './redis-client.ts';
import { redisError, torn, unreadable } from './redis-errors.ts';
import { listOf, type ScriptAnswer, type StreamEntry } from './script-answer.ts';
import type { ScriptRunner } from './script-runner.ts';
import { type TaskKeys, taskKeys } from './task-keys.ts';

const pageSize = 500;

/** The journal up to the head's seq, and what a reader needs to continue live from there. */
export interface JournalTail {
  readonly records: readonly JournalRecord[];
  readonly seq: number;
  readonly hasEnded: boolean;
  /** The id of the journal's last entry. */
  readonly lastId: string;
  /** The record that opened the model call that is under way. */
  readonly open: JournalRecord | undefined;
  /** The deltas of that call so far. */
  readonly deltas: readonly StreamEntry[];
  readonly lastDeltaId: string;
}

export interface JournalReaderDeps {
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

  /** The records from a seq on up to the end, and what stands beside the end at the same moment. */
  async readTail(taskId: string, from: number): Promise<JournalTail> {
    const records: JournalRecord[] = [];
    for (;;) {
      const next = from + records.length;
      const page = await this.#page(taskId, next, true);
      records.push(...(await this.decode(taskId, page.entries(3), next)));
      if (page.has(4)) return this.#tail(taskId, page, records);
    }
  }

  /** Records from entries; payloads that went to the blobs are fetched. `POISON` where the first is not `from` or one is missing. */
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
