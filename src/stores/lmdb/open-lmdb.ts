import {
  accessSync,
  closeSync,
  constants,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Database, Key, RootDatabaseOptions } from 'lmdb';
import { AgentLoopError, messageOf, systemClock } from '../../core/contracts/index.ts';
import { pause } from '../../core/streams/index.ts';
import { appendPrivateSync, makeFolderSync, privateFileMode } from '../../private-files.ts';
import { loadPackage } from '../load-package.ts';

/** With a method that lmdb's types omit: starts a read transaction if none is open. */
interface LmdbFile extends Database<string, Key> {
  ensureReadTxn(): void;
}

/** The result of lmdb's `openAsClass`: the file is open, its object not yet created. Each file has its own class. */
interface FileClass {
  new (name: null, options: RootDatabaseOptions): LmdbFile;
  readonly prototype: LmdbFile;
}

/** The used part of the package; its own types call a constructor `new`. */
interface Lmdb {
  openAsClass(options: RootDatabaseOptions & { readonly path: string }): FileClass;
}

const invalidArgument = 22;
const attempts = 50;
const maxPauseMs = 20;

/**
 * Opens or creates a file, synchronously; loads `lmdb`.
 *
 * The LMDB in lmdb 3.5.6 has a race (ITS#10095, fixed in LMDB 0.9.32): the last process that closes a file destroys its
 * locks, and a process that opens it at that moment finds them destroyed. Every use of such a lock fails, so the opener notices, closes
 * the file and retries: once no process has it open, the next one creates new locks. Blocks for some milliseconds then.
 *
 * Does not wait for the lock of writers: a process stopped within a transaction does not block opening and reading.
 */
export function openLmdb(path: string): Database<string, Key> {
  assertOpenable(path);
  const lmdb = loadLmdb();
  for (let attempt = 1; ; attempt++) {
    // Without overlapping sync nothing is visible to anybody before it is on the disk. Batching by event turn has a promise inside
    // lmdb that nobody handles when a commit fails.
    const options = {
      encoding: 'string',
      overlappingSync: false,
      eventTurnBatching: false,
      isRoot: true,
      permissionsMode: privateFileMode,
    } as const;
    const File = lmdb.openAsClass({ ...options, path });
    try {
      return openedRoot(File, options);
    } catch (error) {
      closeFailed(File);
      if (attempt === attempts || !isDestroyedLock(error)) throw error;
      block(Math.random() * maxPauseMs);
    }
  }
}

/**
 * lmdb opens the root of a file in a write transaction, and the event loop stands still until no other process is in one. The root is
 * always there, so a read transaction does.
 */
function openedRoot(File: FileClass, options: RootDatabaseOptions): LmdbFile {
  const { prototype } = File;
  const { transactionSync } = prototype;
  prototype.transactionSync = function inReadTransaction<T>(this: LmdbFile, action: () => T): T {
    this.resetReadTxn();
    this.ensureReadTxn();
    return action();
  };
  try {
    return new File(null, options);
  } finally {
    prototype.transactionSync = transactionSync;
  }
}

/** Loaded with the first store, so that importing this module costs nothing. */
function loadLmdb(): Lmdb {
  try {
    return loadPackage('lmdb');
  } catch (error) {
    throw missingLmdb(error);
  }
}

function isDestroyedLock(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === invalidArgument;
}

/** The file is open although its object could not be made; what closes it needs to know only that it is the root. */
function closeFailed(File: FileClass): void {
  const file: Database<string, Key> = Object.create(File.prototype, { isRoot: { value: true } });
  void file.close();
}

function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** Where the first page of an LMDB file says what it is. */
const magicOffset = 24;
const versionOffset = 28;
const magic = 0xbeefc0de;
const version = 2;

/** Two pages of the smallest size, which every opened file has. */
const minBytes = 8_192;

/** Where each of the first two pages has the size of pages, the root pages of the two trees, and the number of the transaction that wrote it. */
const pageBytesOffset = 48;

const rootOffsets = [88, 136] as const;
const transactionOffset = 152;
const headerBytes = 160;
const emptyTree = 0xffff_ffff_ffff_ffffn;

/**
 * Makes the folder and looks at the files in it, because lmdb 3.5.6 ends the process where it cannot open them. Errors as the file
 * system's; `POISON` for a file that is no LMDB file, or that ends before a page at which reading begins, `SCHEMA` for one of another
 * version. Reads nothing of the file with the locks: closing it would give up those of this process.
 */
function assertOpenable(path: string): void {
  makeFolderSync(path);
  accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK);
  const data = join(path, 'data.mdb');
  for (const file of [data, join(path, 'lock.mdb')]) assertUsable(file);
  const size = statSync(data, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0) return;
  const headers = size < minBytes ? undefined : headersOf(data);
  if (headers?.first.readUInt32LE(magicOffset) !== magic) throw unreadable(path);
  if (headers.first.readUInt32LE(versionOffset) !== version) throw newerFormat(path);
  if (!hasRoots(headers.newest, data)) throw unreadable(path);
}

function assertUsable(file: string): void {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat === undefined) return;
  if (!stat.isFile()) {
    throw new AgentLoopError('UNAVAILABLE', `"${file}" is not a file; remove it, or use another path for the store.`);
  }
  accessSync(file, constants.R_OK | constants.W_OK);
}

/** The header of the first page, and that of the first two pages which was written last. */
function headersOf(file: string): { readonly first: Buffer; readonly newest: Buffer } {
  const descriptor = openSync(file, 'r');
  try {
    const first = headerAt(descriptor, 0);
    const second = headerAt(descriptor, first.readUInt32LE(pageBytesOffset));
    const isNewer = second.readBigUInt64LE(transactionOffset) > first.readBigUInt64LE(transactionOffset);
    return { first, newest: isNewer ? second : first };
  } finally {
    closeSync(descriptor);
  }
}

function headerAt(descriptor: number, position: number): Buffer {
  const header = Buffer.alloc(headerBytes);
  readSync(descriptor, header, 0, header.length, position);
  return header;
}

/** Whether the file has the roots of its trees, which are written before the header that names them. Looks at its size afterwards. */
function hasRoots(header: Buffer, file: string): boolean {
  const pageBytes = BigInt(header.readUInt32LE(pageBytesOffset));
  if (pageBytes === 0n) return false;
  const pages = BigInt(statSync(file).size) / pageBytes;
  return rootOffsets.every((offset) => {
    const root = header.readBigUInt64LE(offset);
    return root === emptyTree || root < pages;
  });
}

/** An opening takes milliseconds; a mark that stands longer was left by a process that died. */
const staleMs = 5_000;
const markPauseMs = 2;

/** The openings of a file, for a writer. */
export interface OpeningsSeen {
  readonly underWay: boolean;
  /** Grows with every opening that ends. */
  readonly ended: number;
}

/**
 * Tells the writers of an LMDB file when a process opens it. The LMDB in lmdb 3.5.6 notes at each opening which transaction is the newest,
 * as it stood some moments before: one that another process commits in between is then overwritten by the next. So writers
 * look, before they count on a commit, whether it met an opening, and if so whether it still stands.
 */
export class Openings {
  readonly #mark: string;
  readonly #count: string;

  /** `folder`: the one of the file. */
  constructor(folder: string) {
    this.#mark = join(folder, 'opening');
    this.#count = join(folder, 'openings');
  }

  /** Runs `open`, one process at a time. Waits for others synchronously. */
  announce<T>(open: () => T): T {
    while (!this.#enter()) block(markPauseMs);
    try {
      return open();
    } finally {
      appendPrivateSync(this.#count, '.');
      rmSync(this.#mark, { force: true });
    }
  }

  look(): OpeningsSeen {
    const ended = statSync(this.#count, { throwIfNoEntry: false })?.size ?? 0;
    return { underWay: statSync(this.#mark, { throwIfNoEntry: false }) !== undefined, ended };
  }

  /** Resolves once no opening is under way. */
  async whenOver(): Promise<void> {
    while (this.look().underWay && !this.#removeStale()) await pause(markPauseMs, systemClock);
  }

  #enter(): boolean {
    try {
      const file = openSync(this.#mark, 'wx', privateFileMode);
      writeSync(file, String(process.pid));
      closeSync(file);
      return true;
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
      this.#removeStale();
      return false;
    }
  }

  /** Returns true if the mark was left by a crashed process, and is removed now. */
  #removeStale(): boolean {
    const stat = statSync(this.#mark, { throwIfNoEntry: false });
    if (stat === undefined) return true;
    if (Date.now() - stat.mtimeMs < staleMs && !this.#isOrphan()) return false;
    appendPrivateSync(this.#count, '.');
    rmSync(this.#mark, { force: true });
    return true;
  }

  #isOrphan(): boolean {
    try {
      const pid = Number(readFileSync(this.#mark, 'utf8'));
      if (pid > 0) process.kill(pid, 0);
      return false;
    } catch (error) {
      return codeOf(error) === 'ESRCH';
    }
  }
}

/** `errno` of a full disk, a quota and a file size limit, and of a write that LMDB could do only in part (EIO): mostly the same. */
const fullErrnos: ReadonlySet<unknown> = new Set([28, 122, 27, 5, 'ENOSPC', 'EDQUOT', 'EFBIG']);

const mdb = { pageNotFound: -30797, corrupted: -30796, versionMismatch: -30794, invalid: -30793, mapFull: -30792 };

/** Converts LMDB's exceptions to errors of the store contract. Returns an `AgentLoopError` unchanged. */
export function storeError(thrown: unknown, path: string): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  const code = codeOf(thrown);
  if (code === mdb.mapFull || fullErrnos.has(code)) return full(path, thrown);
  if (code === mdb.versionMismatch) return newerFormat(path, thrown);
  if (code === mdb.invalid || code === mdb.corrupted || code === mdb.pageNotFound) return unreadable(path, thrown);
  return new AgentLoopError(
    'UNAVAILABLE',
    `The LMDB store at "${path}" did not answer: ${messageOf(thrown)}; check that the folder exists and that this process may write to it.`,
    { retryable: true, cause: thrown },
  );
}

export function closedStore(path: string): AgentLoopError {
  return new AgentLoopError('UNAVAILABLE', `The LMDB store at "${path}" was closed; create a new one to continue.`);
}

export function forgottenWrite(path: string): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `The LMDB store at "${path}" was opened by another process at the same moment, which undid this write; try it again.`,
    { retryable: true },
  );
}

export function lostFile(path: string): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `The folder of the LMDB store at "${path}" was deleted or replaced while it was open, so new writes are lost; restore it and create a new store.`,
  );
}

/** `layout`: the version of the keys and heads in the file. */
export function newerLayout(path: string, layout: number): AgentLoopError {
  return new AgentLoopError(
    'SCHEMA',
    `The LMDB store at "${path}" has layout ${layout}, which this version cannot read; update millrace.`,
  );
}

/** The error of an entry that this store did not write; `what` names it. */
export function damaged(taskId: string, what: string): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `The journal of task "${taskId}" cannot be read: ${what}; restore the store from a backup, or delete the task.`,
    { taskId },
  );
}

function missingLmdb(cause: unknown): AgentLoopError {
  const [why] = messageOf(cause).split('\n', 1);
  return new AgentLoopError(
    'MISSING_PACKAGE',
    `The package "lmdb" cannot be loaded (${why}); run \`npm install lmdb\`. It has a native part: install it with optional packages, on the platform where it runs, and outside of a bundle.`,
    { cause },
  );
}

/** The `code` of any thrown value, if it has one. */
function codeOf(thrown: unknown): unknown {
  return typeof thrown === 'object' && thrown !== null && 'code' in thrown ? thrown.code : undefined;
}

function full(path: string, cause: unknown): AgentLoopError {
  return new AgentLoopError(
    'FULL',
    `The disk of the LMDB store at "${path}" accepted no write: it is full or failing; nothing of this append was written. Free space and try again.`,
    { retryable: true, cause },
  );
}

function newerFormat(path: string, cause?: unknown): AgentLoopError {
  return new AgentLoopError(
    'SCHEMA',
    `The LMDB store at "${path}" was written by another version of LMDB; update millrace, or use another path.`,
    { cause },
  );
}

function unreadable(path: string, cause?: unknown): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `The file at "${path}" is damaged or not an LMDB store; restore it from a backup, or use another path.`,
    { cause },
  );
}
