import { accessSync, closeSync, constants, mkdirSync, openSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { AgentLoopError } from '../../core/errors.ts';
import { newerFormat, unreadable } from './lmdb-errors.ts';

/** Where the first page of an LMDB file says what it is. */
const magicOffset = 24;
const versionOffset = 28;
const magic = 0xbeefc0de;
const version = 2;
/** Two pages of the smallest size: what every file that was ever opened has. */
const minBytes = 8_192;

/**
 * Makes the folder and looks at the files in it, because lmdb 3.5.6 ends the process where it cannot open them. Errors as the file
 * system's; `POISON` for a file that is no LMDB file, `SCHEMA` for one of another version. Reads nothing of the file with the locks:
 * closing it would give up those of this process.
 */
export function assertOpenable(path: string): void {
  mkdirSync(path, { recursive: true });
  accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK);
  const data = join(path, 'data.mdb');
  for (const file of [data, join(path, 'lock.mdb')]) assertUsable(file);
  const size = statSync(data, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0) return;
  const header = size < minBytes ? undefined : headerOf(data);
  if (header?.readUInt32LE(magicOffset) !== magic) throw unreadable(path);
  if (header.readUInt32LE(versionOffset) !== version) throw newerFormat(path);
}

function assertUsable(file: string): void {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat === undefined) return;
  if (!stat.isFile()) {
    throw new AgentLoopError('UNAVAILABLE', `"${file}" is no file; remove it, or give the store another path.`);
  }
  accessSync(file, constants.R_OK | constants.W_OK);
}

function headerOf(file: string): Buffer {
  const header = Buffer.alloc(versionOffset + 4);
  const descriptor = openSync(file, 'r');
  try {
    readSync(descriptor, header, 0, header.length, 0);
  } finally {
    closeSync(descriptor);
  }
  return header;
}
