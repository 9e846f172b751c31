import { constants, realpathSync, statSync } from 'node:fs';
import { type FileHandle, lstat, open, readdir, readlink, realpath } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { AgentLoopError } from '../../core/errors.ts';

/** An entry of a folder. Links and special files are `other`. */
export interface WorkspaceEntry {
  readonly name: string;
  readonly kind: 'file' | 'folder' | 'other';
}

/** A part of a file. */
export interface FilePiece {
  readonly bytes: Uint8Array;
  /** The size of the whole file in bytes. */
  readonly size: number;
}

export interface ReadOptions {
  readonly offset: number;
  readonly length: number;
  /** Default: a file of any size is read. */
  readonly largest?: number;
}

/**
 * A folder whose content tools may read, and nothing else. Paths are relative to it, with `/` or the system's separator.
 *
 * A path that is absolute, holds a NUL byte, or leads out, by `..` or through a link, is refused with a `TOOL_FAILED`
 * that says so. Where it leads is decided by the real path, and checked once more on the file that was opened, so that a
 * link put in its place meanwhile is found too. Throws `INVALID_CONFIG` where `root` is not a folder.
 */
export class Workspace {
  readonly #root: string;

  constructor(root: string) {
    this.#root = realFolder(root);
  }

  /** The entries of a folder by name, in the order of their names. */
  async list(path: string): Promise<readonly WorkspaceEntry[]> {
    const real = await this.#real(path);
    const entries = await readdir(real, { withFileTypes: true }).catch((thrown: unknown) =>
      fail(codeOf(thrown) === 'ENOTDIR' ? `"${path}" is not a folder` : unreachable(path, thrown), thrown),
    );
    if ((await this.#real(path)) !== real) throw refusal(`"${path}" changed while it was read`);
    return entries
      .map((entry) => ({ name: entry.name, kind: kindOf(entry) }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /**
   * At most `length` bytes of a regular file, from the byte `offset` (0 is the first); none of a file of more than
   * `largest` bytes. Closes the file on every way out.
   */
  async read(path: string, { offset, length, largest = Number.POSITIVE_INFINITY }: ReadOptions): Promise<FilePiece> {
    const handle = await this.#open(path);
    try {
      const { size } = await handle.stat();
      const buffer = Buffer.alloc(size > largest ? 0 : Math.max(0, Math.min(length, size - offset)));
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, offset);
      return { bytes: buffer.subarray(0, bytesRead), size };
    } finally {
      await handle.close();
    }
  }

  /** Whether a path is a file or a folder. */
  async kind(path: string): Promise<WorkspaceEntry['kind']> {
    const real = await this.#real(path);
    return kindOf(await lstat(real).catch((thrown: unknown) => fail(unreachable(path, thrown), thrown)));
  }

  /** Not to follow a link and not to block are flags of the open call: a named pipe would otherwise wait for a writer. */
  async #open(path: string): Promise<FileHandle> {
    const real = await this.#real(path);
    const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
    const handle = await open(real, flags).catch((thrown: unknown) => fail(unreachable(path, thrown), thrown));
    try {
      await this.#confirm(path, real, handle);
      return handle;
    } catch (thrown) {
      await handle.close();
      throw thrown;
    }
  }

  async #confirm(path: string, real: string, handle: FileHandle): Promise<void> {
    const opened = await handle.stat();
    if (opened.isDirectory()) throw refusal(`"${path}" is a folder; list_files shows what is in it`);
    if (!opened.isFile()) throw refusal(`"${path}" is not a regular file`);
    if (!(await this.#isInside(handle, real))) throw leadsOut(path);
  }

  /**
   * Whether the file that was opened is in the folder, whatever stands at its path by now. Linux tells the path of an
   * open file. Elsewhere it has to be the file that stands at the checked path, before and after still the real one, which
   * a quick enough exchange of folders can deceive.
   */
  async #isInside(handle: FileHandle, real: string): Promise<boolean> {
    const opened = await readlink(`/proc/self/fd/${handle.fd}`).catch(() => undefined);
    if (opened !== undefined) return this.#holds(opened);
    const before = await realpath(real).catch(() => undefined);
    const present = await lstat(real).catch(() => undefined);
    const after = await realpath(real).catch(() => undefined);
    const file = await handle.stat();
    return before === real && after === real && present?.dev === file.dev && present.ino === file.ino;
  }

  async #real(path: string): Promise<string> {
    if (path.includes('\0')) throw refusal('a path cannot hold a NUL byte');
    if (isAbsolute(path)) throw refusal(`"${path}" is absolute; give a path relative to the working folder`);
    const target = resolve(this.#root, path);
    if (!this.#holds(target)) throw leadsOut(path);
    const real = await realpath(target).catch((thrown: unknown) => fail(unreachable(path, thrown), thrown));
    if (!this.#holds(real)) throw leadsOut(path);
    return real;
  }

  #holds(path: string): boolean {
    const way = relative(this.#root, path);
    return way === '' || (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way));
  }
}

/** Joins two relative paths with `/`, leaving out `.`. */
export function joinPath(folder: string, name: string): string {
  return join(folder, name).replaceAll(sep, '/');
}

function realFolder(root: string): string {
  try {
    const real = realpathSync(root);
    if (statSync(real).isDirectory()) return real;
  } catch (cause) {
    throw new AgentLoopError('INVALID_CONFIG', `The working folder "${root}" cannot be read; name one that exists.`, {
      cause,
    });
  }
  throw new AgentLoopError('INVALID_CONFIG', `The working folder "${root}" is not a folder; name one.`);
}

function kindOf(entry: { isFile(): boolean; isDirectory(): boolean }): WorkspaceEntry['kind'] {
  if (entry.isFile()) return 'file';
  return entry.isDirectory() ? 'folder' : 'other';
}

function unreachable(path: string, thrown: unknown): string {
  const code = codeOf(thrown);
  const absent = code === 'ENOENT' || code === 'ENOTDIR';
  return absent
    ? `there is no "${path}" in the working folder; list_files shows what there is`
    : `"${path}" cannot be read (${code})`;
}

function fail(what: string, cause: unknown): never {
  throw refusal(what, cause);
}

function leadsOut(path: string): AgentLoopError {
  return refusal(`"${path}" leads out of the working folder; only what is in it can be read`);
}

function refusal(what: string, cause?: unknown): AgentLoopError {
  return new AgentLoopError('TOOL_FAILED', `${what.charAt(0).toUpperCase()}${what.slice(1)}.`, { cause });
}

function codeOf(thrown: unknown): string {
  return typeof thrown === 'object' && thrown !== null && 'code' in thrown ? String(thrown.code) : 'unknown';
}
