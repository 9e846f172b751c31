import { accessSync, closeSync, constants, openSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { AgentLoopError } from '../../core/contracts/index.ts';
import { makeFolderSync } from '../../files/private-files.ts';
import { newerFormat, unreadable } from './lmdb-errors.ts';

/** Where the first page of an LMDB file says what it is. */
const magicOffset = 24;
const versionOffset = 28;
const magic = 0xbeefc0de;
const version = 2;
/** Two pages of the smallest size: what every file that was ever opened has. */
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
export function assertOpenable(path: string): void {
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
    throw new AgentLoopError('UNAVAILABLE', `"${file}" is no file; remove it, or give the store another path.`);
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
