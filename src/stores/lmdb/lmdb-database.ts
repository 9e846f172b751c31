import type { Database, Key } from 'lmdb';
import type { AgentLoopError } from '../../core/errors.ts';
import { closedStore, storeError } from './lmdb-errors.ts';
import { openLmdb } from './open-lmdb.ts';

export interface LmdbEntry {
  readonly key: Key;
  readonly value: string;
}

export interface LmdbRange {
  readonly start: Key;
  readonly end: Key;
  readonly limit?: number;
  readonly reverse?: boolean;
}

/** Counts the writes of all processes. */
const writeKey = ['write'];

/**
 * One LMDB file, in texts. `get`, `range`, `put` and `remove` stand inside the action of a `read` or a `write`: all reads of one
 * action see one snapshot, all writes of one action are committed together or not at all. An action that throws has to do so before
 * its first `put`. Every error is an `AgentLoopError`.
 */
export class LmdbDatabase {
  readonly path: string;
  readonly #db: Database<string, Key>;
  /** Those that are on their way to the disk. */
  readonly #writes = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  /** Opens or creates the file; loads `lmdb`. */
  constructor(path: string) {
    this.path = path;
    try {
      this.#db = openLmdb(path);
    } catch (error) {
      throw storeError(error, path);
    }
  }

  /** Runs `action` on the newest snapshot. */
  read<T>(action: () => T): T {
    this.#assertOpen();
    try {
      this.#db.resetReadTxn();
      return action();
    } catch (error) {
      throw storeError(error, this.path);
    }
  }

  /** Runs `action` in a write transaction and resolves with its answer once that is on the disk. Actions run in the order of the calls. */
  async write<T>(action: () => T): Promise<T> {
    this.#assertOpen();
    const write = this.#db.transaction(() => {
      const answer = action();
      this.put(writeKey, String(Number(this.get(writeKey) ?? 0) + 1));
      return answer;
    });
    this.#writes.add(write);
    try {
      return await write;
    } catch (error) {
      throw storeError(await causeOf(error), this.path);
    } finally {
      this.#writes.delete(write);
    }
  }

  get(key: Key): string | undefined {
    return this.#db.get(key);
  }

  range(range: LmdbRange): readonly LmdbEntry[] {
    return [...this.#db.getRange(range)];
  }

  put(key: Key, value: string): void {
    void this.#db.put(key, value);
  }

  remove(key: Key): void {
    void this.#db.remove(key);
  }

  removeRange(start: Key, end: Key): void {
    for (const { key } of this.range({ start, end })) this.remove(key);
  }

  /**
   * Changes with every write of any process. Kept as an entry: the transaction id that LMDB reports of the file is there some time
   * before readers see that transaction.
   */
  lastWrite(): string | undefined {
    return this.read(() => this.get(writeKey));
  }

  /** Frees the snapshots of readers that were killed, which keep their pages from being used again. */
  forgetDeadReaders(): void {
    this.#db.readerCheck();
  }

  /** Waits for the writes that were sent, then closes the file. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // lmdb fails transactions that have not begun when it closes.
    await Promise.allSettled(this.#writes);
    await this.#db.close();
  }

  #assertOpen(): void {
    if (this.#closing) throw this.closed();
  }

  closed(): AgentLoopError {
    return closedStore(this.path);
  }
}

/** The reason of a failed commit, which lmdb hands on as a promise. */
async function causeOf(error: unknown): Promise<unknown> {
  if (!(error instanceof Error) || !('commitError' in error)) return error;
  try {
    await error.commitError;
    return error;
  } catch (cause) {
    return cause;
  }
}
