import { randomUUID } from 'node:crypto';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database, Key } from 'lmdb';
import type { AgentLoopError } from '../../core/contracts/index.ts';
import { makeFolderSync } from '../../files/private-files.ts';
import { closedStore, forgottenWrite, lostFile, storeError } from './lmdb-errors.ts';
import { openLmdb } from './open-lmdb.ts';
import { Openings, type OpeningsSeen } from './openings.ts';

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

/** Names the last writes of all processes, the newest first. */
const writeKey = ['write'];
const namedWrites = 32;
/** An opening takes milliseconds; a write meets one, rarely two. */
const attempts = 10;
/** How long `close` waits for writes that another process holds up. */
const closeMs = 5_000;

/**
 * One LMDB file, in texts. `get`, `range`, `put` and `remove` stand inside the action of a `read` or a `write`: all reads of one
 * action see one snapshot, all writes of one action are committed together or not at all. An action that throws has to do so before
 * its first `put`. Every error is an `AgentLoopError`.
 */
export class LmdbDatabase {
  readonly path: string;
  readonly #db: Database<string, Key>;
  readonly #openings: Openings;
  /** Names this process's writes. */
  readonly #source = randomUUID().slice(0, 8);
  #written = 0;
  /** Those that are on their way to the disk. */
  readonly #writes = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;
  /** The file that is open, whatever its path names later. */
  readonly #file: string | undefined;
  #isLost = false;

  /** Opens or creates the file; loads `lmdb`. */
  constructor(path: string) {
    this.path = path;
    this.#openings = new Openings(path);
    try {
      makeFolderSync(path);
      this.#db = this.#openings.announce(() => openLmdb(path));
      this.#file = fileAt(path);
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

  /**
   * Runs `action` in a write transaction and resolves with its answer once that is on the disk. Actions run in the order of the calls.
   * One whose commit was undone by a process that opened the file at that moment runs again.
   */
  async write<T>(action: () => T): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      this.#assertOpen();
      const write = this.#commit(action);
      this.#writes.add(write);
      try {
        const { kept, answer } = await write;
        if (kept) return answer;
      } catch (error) {
        throw storeError(await causeOf(error), this.path);
      } finally {
        this.#writes.delete(write);
      }
      if (attempt === attempts) throw forgottenWrite(this.path);
    }
  }

  async #commit<T>(action: () => T): Promise<{ readonly kept: boolean; readonly answer: T }> {
    const name = `${this.#source}.${++this.#written}`;
    let before = this.#openings.look();
    const answer = await this.#db.transaction(() => {
      before = this.#openings.look();
      const result = action();
      const earlier = this.get(writeKey)?.split(' ', namedWrites - 1) ?? [];
      this.put(writeKey, [name, ...earlier].join(' '));
      return result;
    });
    return { kept: await this.#isKept(name, before), answer };
  }

  /** Whether a commit still stands, where it met an opening of the file. */
  async #isKept(name: string, before: OpeningsSeen): Promise<boolean> {
    this.#isLost ||= fileAt(this.path) !== this.#file;
    if (this.#isLost) throw lostFile(this.path);
    const after = this.#openings.look();
    if (!before.underWay && !after.underWay && before.ended === after.ended) return true;
    await this.#openings.whenOver();
    this.#db.resetReadTxn();
    return this.get(writeKey)?.split(' ').includes(name) === true;
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

  /**
   * Waits for the writes that were sent, then closes the file. Where another process holds those up for long, because it was stopped
   * within a transaction, they are left to it and the file stays open until this process ends.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // lmdb fails transactions that have not begun when it closes.
    const written = Promise.allSettled(this.#writes).then(() => true);
    const patience = new AbortController();
    const late = sleep(closeMs, false, { signal: patience.signal }).catch(() => false);
    const isWritten = await Promise.race([written, late]);
    patience.abort();
    if (isWritten) await this.#db.close();
  }

  #assertOpen(): void {
    if (this.#closing) throw this.closed();
    if (this.#isLost) throw lostFile(this.path);
  }

  closed(): AgentLoopError {
    return closedStore(this.path);
  }
}

/** Which file it is that the path names; undefined where there is none. */
function fileAt(path: string): string | undefined {
  const stat = statSync(join(path, 'data.mdb'), { bigint: true, throwIfNoEntry: false });
  return stat && `${stat.dev} ${stat.ino}`;
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
