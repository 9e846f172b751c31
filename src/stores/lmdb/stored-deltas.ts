import type { ReadableDeltas } from './delta-cursor.ts';
import { newestWithin } from './delta-cursor.ts';
import type { DeltaLog, DeltaView } from './delta-log.ts';
import type { LmdbDatabase } from './lmdb-database.ts';

/** Characters of text under one key. The last block is written again as it grows. */
const blockLength = 4096;
const maxRecentCharacters = 65_536;
const last = '~';

/** How much of a log stands in the file. */
export interface Saved {
  readonly generation: number;
  readonly length: number;
}

/**
 * The side stream of deltas in the file, for readers of other processes, and who these readers are. Every method stands inside a
 * `read` or `write` of the database.
 *
 * Keys: `['delta', task]`: the view; `['delta-text', task, block]`; `['reader', task, store]`: until when that store reads.
 */
export class StoredDeltas {
  readonly #db: LmdbDatabase;

  constructor(db: LmdbDatabase) {
    this.#db = db;
  }

  find(taskId: string): ReadableDeltas | undefined {
    const text = this.#db.get(['delta', taskId]);
    if (text === undefined) return undefined;
    const view: DeltaView = JSON.parse(text);
    return { view, text: (from, to) => this.#text(taskId, from, to) };
  }

  /** Writes what changed of a log since `saved`, and answers how much of it stands there now. */
  save(taskId: string, log: DeltaLog, saved: Saved): Saved {
    const { view } = log;
    const { generation, length } = view;
    const first = saved.generation === generation ? Math.floor(saved.length / blockLength) : 0;
    for (let block = first; block * blockLength < length; block++) {
      const piece = log.text(block * blockLength, (block + 1) * blockLength);
      // As JSON: a block may end in the middle of a surrogate pair.
      this.#db.put(['delta-text', taskId, block], JSON.stringify(piece));
    }
    const stored: DeltaView = { ...view, recent: newestWithin(view.recent, maxRecentCharacters) };
    this.#db.put(['delta', taskId], JSON.stringify(stored));
    return { generation, length };
  }

  remove(taskId: string): void {
    this.#db.remove(['delta', taskId]);
    for (const kind of ['delta-text', 'reader']) this.#db.removeRange([kind, taskId], [kind, taskId, last]);
  }

  /** Says that a store reads the deltas of a task until a time. */
  putReader(taskId: string, store: string, until: number): void {
    this.#db.put(['reader', taskId, store], String(until));
  }

  removeReader(taskId: string, store: string): void {
    this.#db.remove(['reader', taskId, store]);
  }

  /** Whether any store but this one reads them. */
  hasReaders(taskId: string, except: string, now: number): boolean {
    const readers = this.#db.range({ start: ['reader', taskId], end: ['reader', taskId, last] });
    return readers.some(({ key, value }) => Array.isArray(key) && key.at(-1) !== except && Number(value) > now);
  }

  #text(taskId: string, from: number, to: number): string {
    const first = Math.floor(from / blockLength);
    const range = { start: ['delta-text', taskId, first], end: ['delta-text', taskId, Math.ceil(to / blockLength)] };
    const blocks = this.#db.range(range).map(({ value }): string => JSON.parse(value));
    return blocks.join('').slice(from - first * blockLength, to - first * blockLength);
  }
}
