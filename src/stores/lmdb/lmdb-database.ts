import { randomUUID } from 'node:crypto';
import { statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Database, Key } from 'lmdb';
import { AgentLoopError, messageOf, type StoreCheck, systemClock } from '../../core/contracts/index.ts';
import { settled, within } from '../../core/streams/index.ts';
import { makeFolderSync } from '../../private-files.ts';
import { atOnce, type Body, found, type Rows, type Table, type TableKey } from '../table/table.ts';
import {
  closedStore,
  forgottenWrite,
  lostFile,
  Openings,
  type OpeningsSeen,
  openLmdb,
  storeError,
} from './open-lmdb.ts';

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

/** An opening takes milliseconds; a write meets at most one or two. */
const attempts = 10;

/** How long `close` waits for writes that another process blocks. */
const closeMs = 5_000;

/**
 * One LMDB file of strings. Call `get`, `range`, `put` and `remove` within the action of a `read` or a `write`: all reads of one
 * action see one snapshot, all writes of one action are committed atomically. An action may throw only before
 * its first `put`. Every error is an `AgentLoopError`.
 */
export class LmdbDatabase {
  readonly path: string;
  readonly #db: Database<string, Key>;
  readonly #openings: Openings;
  /** The prefix of this process's write ids. */
  readonly #source = randomUUID().slice(0, 8);
  #written = 0;
  /** Writes in flight. */
  readonly #writes = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;
  /** The identity of the open file, even if its path is replaced later. */
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
   * Runs `action` in a write transaction and resolves with its result once that is on the disk. Actions run in the order of the calls.
   * An action whose commit was overwritten by a process that opened the file at that moment runs again.
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

  /** Whether a commit survived an opening of the file. */
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
   * Changes with every write of any process. Stored as an entry: LMDB reports a transaction id some time
   * before readers see that transaction.
   */
  lastWrite(): string | undefined {
    return this.read(() => this.get(writeKey));
  }

  /** Frees the snapshots of killed readers, whose pages could not be reused otherwise. */
  forgetDeadReaders(): void {
    this.#db.readerCheck();
  }

  /**
   * Waits for the pending writes, then closes the file. If another process blocks them for long, because it was stopped
   * within a transaction, the file stays open until this process ends.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // lmdb fails transactions that have not started when it closes.
    await settled(closeMs, systemClock, Promise.allSettled(this.#writes));
    if (this.#writes.size === 0) await this.#db.close();
  }

  #assertOpen(): void {
    if (this.#closing) throw this.closed();
    if (this.#isLost) throw lostFile(this.path);
  }

  closed(): AgentLoopError {
    return closedStore(this.path);
  }
}

/** The identity of the file at the path; `undefined` if there is none. */
function fileAt(path: string): string | undefined {
  const stat = statSync(join(path, 'data.mdb'), { bigint: true, throwIfNoEntry: false });
  return stat && `${stat.dev} ${stat.ino}`;
}

/** The reason of a failed commit, which lmdb passes on as a promise. */
async function causeOf(error: unknown): Promise<unknown> {
  if (!(error instanceof Error) || !('commitError' in error)) return error;
  try {
    await error.commitError;
    return error;
  } catch (cause) {
    return cause;
  }
}

/** Sorts after every part of a key. */
const last = '\u{10ffff}';

/** A table in an LMDB file, which may contain other stores too. Reads are synchronous, from the memory map. */
export class LmdbTable implements Table<'now', 'later'> {
  readonly #database: LmdbDatabase;
  readonly #rows: Rows = {
    get: (key) => found(this.#database.get(key)),
    range: (prefix, { from, to = last, limit } = {}) => {
      const start = from === undefined ? prefix : [...prefix, from];
      const entries = this.#database.range({ start, end: [...prefix, to], ...(limit !== undefined && { limit }) });
      return found(entries.map(({ key, value }) => ({ key: partsOf(key), value })));
    },
    put: (key, value) => this.#database.put(key, value),
    remove: (key) => this.#database.remove(key),
  };

  /** Errors: those of `LmdbDatabase`, and `INVALID_CONFIG` for an invalid path. */
  constructor(path: string) {
    assertStorePath(path);
    this.#database = new LmdbDatabase(path);
  }

  read<T>(prepare: () => Body<T>): T {
    const body = prepare();
    return this.#database.read(() => atOnce(body(this.#rows)));
  }

  async write<T>(prepare: () => Body<T>): Promise<T> {
    const body = prepare();
    return this.#database.write(() => atOnce(body(this.#rows)));
  }

  /** Waits for pending writes, and closes the file. Idempotent. */
  close(): Promise<void> {
    return this.#database.close();
  }
}

function partsOf(key: unknown): TableKey {
  return Array.isArray(key) ? key.map((part) => (typeof part === 'number' ? part : String(part))) : [String(key)];
}

/** Refuses an invalid path: `INVALID_CONFIG`. */
export function assertStorePath(path: unknown): void {
  if (typeof path === 'string' && path !== '') return;
  throw new AgentLoopError('INVALID_CONFIG', 'The LMDB store needs a path: the folder that its files lie in.');
}

const lowBytes = 64 * 1024 * 1024;

/** How long a write may wait for other processes. */
const writeMs = 5_000;

/** `TaskStateStore.check`: tries a write, and checks the file system. Never rejects. */
export async function checkStore(database: LmdbDatabase): Promise<StoreCheck> {
  const refused = await refusedWrite(database);
  const { isLocal, warnings } = placeOf(database.path);
  return { ok: refused === undefined && isLocal, warnings: refused === undefined ? warnings : [refused, ...warnings] };
}

interface Place {
  readonly isLocal: boolean;
  readonly warnings: readonly string[];
}

/** Nothing for a missing folder: the write reports it. */
function placeOf(path: string): Place {
  try {
    return foundPlace(path);
  } catch {
    return { isLocal: true, warnings: [] };
  }
}

function foundPlace(path: string): Place {
  const { network, freeBytes } = fileSystemOf(path);
  const warnings: string[] = [];
  if (network !== undefined) {
    warnings.push(
      `"${path}" is on a network file system (${network}), where locks and memory maps do not work; use a path on a local disk, or use Redis.`,
    );
  }
  if (isOpenToOthers(path)) {
    warnings.push(`Every user of this machine can read the journals in "${path}"; run chmod -R go-rwx on it.`);
  }
  if (freeBytes < lowBytes) {
    warnings.push(`The disk of "${path}" has ${Math.floor(freeBytes / 1024 / 1024)} MB left; free some space.`);
  }
  return { isLocal: network === undefined, warnings };
}

/** Created by version 0.1, which left that to the umask, or changed since. Windows has no such modes. */
function isOpenToOthers(path: string): boolean {
  if (process.platform === 'win32') return false;
  const [reaches, reads] = [0o001, 0o004];
  const modeOf = (file: string) => statSync(file, { throwIfNoEntry: false })?.mode ?? 0;
  return (modeOf(path) & reaches) !== 0 && (modeOf(join(path, 'data.mdb')) & reads) !== 0;
}

function refusedWrite(database: LmdbDatabase): Promise<string | undefined> {
  const write = database.write(() => database.put(['check'], 'written')).then(() => undefined, messageOf);
  return within({ ms: writeMs, clock: systemClock, late: () => heldUp(database.path) }, write);
}

function heldUp(path: string): string {
  return `The LMDB store at "${path}" could not be written to within ${writeMs} ms: another process is in a transaction, and may be stopped; continue or end that process.`;
}

/** `statfs` types of Linux whose locks or memory maps are not shared between machines. */
const networkTypes: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x01021997, '9P'],
  [0x5346414f, 'AFS'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x65735546, 'FUSE'],
]);

interface FileSystem {
  /** The kind of a network file system; `undefined` for a local or unknown one. */
  readonly network: string | undefined;
  readonly freeBytes: number;
}

function fileSystemOf(path: string): FileSystem {
  const { type, bavail, bsize } = statfsSync(path);
  // 32-bit types may be negative.
  const network = process.platform === 'linux' ? networkTypes.get(type >>> 0) : undefined;
  return { network, freeBytes: bavail * bsize };
}
