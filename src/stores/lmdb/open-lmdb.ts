import type { Database, Key, RootDatabaseOptions } from 'lmdb';
import { privateFileMode } from '../../files/private-files.ts';
import { loadPackage } from '../load-package.ts';
import { assertOpenable } from './assert-openable.ts';
import { missingLmdb } from './lmdb-errors.ts';

/** With a method of lmdb that its types leave out: begins a read transaction where none is open. */
interface LmdbFile extends Database<string, Key> {
  ensureReadTxn(): void;
}

/** What lmdb's `openAsClass` gives: the file is open, its object still to be made. Each file has a class of its own. */
interface FileClass {
  new (name: null, options: RootDatabaseOptions): LmdbFile;
  readonly prototype: LmdbFile;
}

/** The part of the package that is used; its own types call a constructor `new`. */
interface Lmdb {
  openAsClass(options: RootDatabaseOptions & { readonly path: string }): FileClass;
}

const invalidArgument = 22;
const attempts = 50;
const maxPauseMs = 20;

/**
 * Opens or creates a file, synchronously; loads `lmdb`.
 *
 * The LMDB in lmdb 3.5.6 has a race (ITS#10095, mended in LMDB 0.9.32): the last process that closes a file destroys the locks in
 * it, and one that opens it at that moment finds them destroyed. Every use of such a lock is refused, so the opener notices, closes
 * the file and tries again: after a moment without anybody, the next to open makes new locks. Blocks for some milliseconds then.
 *
 * Does not wait for the lock of writers: a process that was stopped within a transaction holds nobody up who only opens or reads.
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
      pause(Math.random() * maxPauseMs);
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

/** Loaded when the first store is made, so that importing this module costs nothing. */
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

function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
