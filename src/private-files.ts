import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { appendFile, mkdir, writeFile } from 'node:fs/promises';

/**
 * How this package makes files and folders: journals, conversations, artifacts, exports and cassettes hold what users said, so other users of
 * the machine get no access to them, whatever the umask is. The linter keeps other modules from making files in another way.
 *
 * Only what is made here gets these modes. What exists keeps its own: its owner may share it on purpose.
 */
const folderMode = 0o700;

/** For what is created by other means: LMDB, and `open` with a flag. */
export const privateFileMode = 0o600;

/** Makes a folder. With `recursive`, those above it, too, and one that exists is left as it is; without, it must not exist. Default: recursive. */
export async function makeFolder(path: string, { recursive = true }: FolderOptions = {}): Promise<void> {
  await mkdir(path, { recursive, mode: folderMode });
}

export function makeFolderSync(path: string, { recursive = true }: FolderOptions = {}): void {
  mkdirSync(path, { recursive, mode: folderMode });
}

export interface FolderOptions {
  readonly recursive?: boolean;
}

/** Writes a whole file. With the flag `wx` it must not exist. */
export async function writePrivate(path: string, content: string, flag: 'w' | 'wx' = 'w'): Promise<void> {
  await writeFile(path, content, { flag, mode: privateFileMode });
}

export function writePrivateSync(path: string, content: string): void {
  writeFileSync(path, content, { mode: privateFileMode });
}

/** Adds to a file, which is made if it is missing. */
export async function appendPrivate(path: string, content: string | Uint8Array): Promise<void> {
  await appendFile(path, content, { mode: privateFileMode });
}

export function appendPrivateSync(path: string, content: string): void {
  appendFileSync(path, content, { mode: privateFileMode });
}
