import { type FileHandle, open, readdir, rename, rm } from 'node:fs/promises';
import { AgentLoopError, messageOf } from '../../core/contracts/index.ts';
import { makeFolder, writePrivate } from '../../private-files.ts';

const fullCodes: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** Converts an error of the file system to one of the contract. */
export function fileError(thrown: unknown, folder: string): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  const said = messageOf(thrown);
  if (fullCodes.has(codeOf(thrown))) {
    const message = `The disk of the artifacts at "${folder}" is full (${said}); nothing of this was kept. Free space and try again.`;
    return new AgentLoopError('FULL', message, { retryable: true, cause: thrown });
  }
  const message = `The artifacts at "${folder}" cannot be reached: ${said}; check that this process may read and write there.`;
  return new AgentLoopError('UNAVAILABLE', message, { retryable: true, cause: thrown });
}

export function isMissing(thrown: unknown): boolean {
  return codeOf(thrown) === 'ENOENT';
}

/** Whether the target of a rename exists. */
export function isTaken(thrown: unknown): boolean {
  return ['EEXIST', 'ENOTEMPTY', 'EPERM'].includes(String(codeOf(thrown)));
}

/** The names in a folder; empty if it is missing. */
export async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** Creates an empty marker file, and its folder. */
export async function mark(folder: string, name: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    await makeFolder(folder);
    try {
      return await writePrivate(`${folder}/${name}`, '');
    } catch (error) {
      // Another process removed the empty folder.
      if (!isMissing(error) || attempt === 10) throw error;
    }
  }
}

/** Syncs the content of a file to the disk. */
export async function syncFile(path: string): Promise<void> {
  await withFile(path, 'r+', (file) => file.sync());
}

/** Syncs the entries of a folder to the disk, if the system supports it. */
export async function syncFolder(path: string): Promise<void> {
  try {
    await withFile(path, 'r', (file) => file.sync());
  } catch (error) {
    if (!['EISDIR', 'EPERM', 'EINVAL'].includes(String(codeOf(error)))) throw error;
  }
}

/** Removes a folder atomically, then deletes its files. Does nothing if there is none. */
export async function removeFolder(path: string, trash: string): Promise<void> {
  try {
    await rename(path, trash);
  } catch (error) {
    if (isMissing(error)) return;
    throw error;
  }
  await rm(trash, { recursive: true, force: true });
}

async function withFile<T>(path: string, flags: string, run: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path, flags);
  try {
    return await run(file);
  } finally {
    await file.close();
  }
}

function codeOf(thrown: unknown): unknown {
  return typeof thrown === 'object' && thrown !== null && 'code' in thrown ? thrown.code : undefined;
}

/** base32hex (RFC 4648, section 7) in lower case: its digits sort as their values do. */
const digits = '0123456789abcdefghijklmnopqrstuv';

/**
 * Encodes an id as a file name: no separator, no dot, distinct for ids that differ only in case even on a case-insensitive file
 * system, and in the same order as the ids. 128 characters become 205, below the usual limit of 255.
 */
export function fileNameOf(id: string): string {
  let name = '';
  let rest = 0;
  let bits = 0;
  for (const byte of Buffer.from(id, 'utf8')) {
    rest = (rest << 8) | byte;
    for (bits += 8; bits >= 5; bits -= 5) name += digits[(rest >> (bits - 5)) & 31];
    rest &= 31;
  }
  return bits === 0 ? name : name + digits[(rest << (5 - bits)) & 31];
}

/** Decodes the result of `fileNameOf`. */
export function idOfFileName(name: string): string {
  const bytes: number[] = [];
  let rest = 0;
  let bits = 0;
  for (const digit of name) {
    rest = ((rest << 5) | digits.indexOf(digit)) & 0xfff;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push((rest >> bits) & 255);
  }
  return Buffer.from(bytes).toString('utf8');
}
