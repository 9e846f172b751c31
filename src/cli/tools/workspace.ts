import { constants, type Dirent, realpathSync, statSync } from 'node:fs';
import { type FileHandle, lstat, open, readdir, readlink, realpath } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { AgentLoopError } from '../../core/contracts/index.ts';

/** An entry of a folder. Links and special files are `other`. */
interface WorkspaceEntry {
  readonly name: string;
  readonly kind: 'file' | 'folder' | 'other';
}

/** A part of a file. */
interface FilePiece {
  readonly bytes: Uint8Array;
  /** The size of the whole file in bytes. */
  readonly size: number;
}

interface ReadOptions {
  readonly offset: number;
  readonly length: number;
  /** Default: a file of any size is read. */
  readonly largest?: number;
}

export interface WorkspaceOptions {
  readonly root: string;
  /** Files and folders that are never read, wherever they are: where journals are kept. They need not exist. */
  readonly hidden?: readonly string[];
}

/**
 * A folder whose content tools may read, and nothing else. Paths are relative to it, with `/` or the system's separator.
 *
 * Refused, with a `TOOL_FAILED` that says why:
 * - a path that is absolute, holds a NUL byte, or leads out, by `..` or through a link;
 * - the files and folders of `hidden`, those with a private name (`.git`, `.millrace`, `.env*`, keys: `isPrivateName`), and files
 *   that begin with a private key. A listing leaves them out;
 * - a file with more than one hard link: its other names may be outside, or private, and no system tells them;
 * - `/proc`, `/sys` and `/dev`.
 *
 * The real path decides, and on Linux the path of what was opened, so that a link that replaces a file or folder meanwhile is
 * noticed. Throws `INVALID_CONFIG` where `root` is not a folder, or is private itself.
 */
export class Workspace {
  readonly #root: string;
  readonly #hidden: readonly string[];

  constructor({ root, hidden = [] }: WorkspaceOptions) {
    this.#root = realFolder(root);
    this.#hidden = hidden.map((path) => realOrFuture(resolve(path)));
    const isHidden = this.#hidden.some((path) => isWithin(path, this.#root));
    if (isHidden || isPrivateName(basename(this.#root)) || isSystemPath(this.#root)) {
      throw new AgentLoopError(
        'INVALID_CONFIG',
        `The working folder "${root}" is private: tools would read journals or keys there; name another one.`,
      );
    }
  }

  /** The entries of a folder by name, in the order of their names. */
  async list(path: string): Promise<readonly WorkspaceEntry[]> {
    const real = await this.#real(path);
    const entries = await this.#entries(path, real);
    return entries
      .filter((entry) => !this.#isPrivate(join(real, entry.name)))
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
      const bytes = buffer.subarray(0, bytesRead);
      const holdsStart = offset === 0 && length >= privateKeyWindow;
      if (holdsPrivateKey(holdsStart ? bytes.subarray(0, privateKeyWindow) : await startOf(handle))) {
        throw refusal(`"${path}" holds a private key, which is not read`);
      }
      return { bytes, size };
    } finally {
      await handle.close();
    }
  }

  /** Whether a path is a file or a folder. */
  async kind(path: string): Promise<WorkspaceEntry['kind']> {
    const real = await this.#real(path);
    return kindOf(await lstat(real).catch((thrown: unknown) => fail(unreachable(path, thrown), thrown)));
  }

  /** On Linux the folder that was opened is the one that is listed, whatever has replaced it at its path by then. */
  async #entries(path: string, real: string): Promise<readonly Dirent[]> {
    const flags = constants.O_RDONLY | (constants.O_DIRECTORY ?? 0) | (constants.O_NOFOLLOW ?? 0);
    const read = (folder: string) => readdir(folder, { withFileTypes: true });
    const failed = (thrown: unknown) =>
      fail(codeOf(thrown) === 'ENOTDIR' ? `"${path}" is not a folder` : unreachable(path, thrown), thrown);
    if (process.platform !== 'linux') {
      const entries = await read(real).catch(failed);
      if ((await this.#real(path)) !== real) throw refusal(`"${path}" changed while it was read`);
      return entries;
    }
    const handle = await open(real, flags).catch(failed);
    try {
      const opened = await readlink(`/proc/self/fd/${handle.fd}`).catch(failed);
      if (opened !== real) throw refusal(`"${path}" changed while it was read`);
      return await read(`/proc/self/fd/${handle.fd}`);
    } finally {
      await handle.close();
    }
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
    if (opened.nlink > 1) {
      throw refusal(
        `"${path}" has ${opened.nlink} hard links, so it may be a file from elsewhere; only a copy of it can be read`,
      );
    }
    if (!(await this.#isInside(handle, real))) throw leadsOut(path);
  }

  /**
   * Whether the file that was opened is in the folder, whatever stands at its path by now. Linux tells the path of an
   * open file. Elsewhere it has to be the file that stands at the checked path, before and after still the real one, which
   * a quick enough exchange of folders can deceive.
   */
  async #isInside(handle: FileHandle, real: string): Promise<boolean> {
    const opened = await readlink(`/proc/self/fd/${handle.fd}`).catch(() => undefined);
    if (opened !== undefined) return this.#holds(opened) && !this.#isPrivate(opened);
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
    if (this.#isPrivate(real))
      throw refusal(`"${path}" is private; journals, keys and settings with secrets are not read`);
    return real;
  }

  /** Of a real path below the root. */
  #isPrivate(real: string): boolean {
    const names = relative(this.#root, real).split(sep);
    return names.some(isPrivateName) || isSystemPath(real) || this.#hidden.some((path) => isWithin(path, real));
  }

  #holds(path: string): boolean {
    return isWithin(this.#root, path);
  }
}

function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way));
}

/** The real path of what may not exist yet: the folders above it may be links. */
function realOrFuture(path: string): string {
  const above = dirname(path);
  try {
    return realpathSync(path);
  } catch {
    return above === path ? path : join(realOrFuture(above), basename(path));
  }
}

async function startOf(handle: FileHandle): Promise<Uint8Array> {
  const start = Buffer.alloc(privateKeyWindow);
  const { bytesRead } = await handle.read(start, 0, start.length, 0);
  return start.subarray(0, bytesRead);
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
    ? `there is no "${path}" in the working folder; list_files lists its files`
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

/** Folders that hold secrets or the journals of turns. Nothing below them is read. */
const privateFolders: ReadonlySet<string> = new Set([
  '.aws',
  '.azure',
  '.docker',
  '.git',
  '.gnupg',
  '.hg',
  '.kube',
  '.millrace',
  '.password-store',
  '.ssh',
  '.svn',
]);

const privateFiles: ReadonlySet<string> = new Set([
  '.dockercfg',
  '.git-credentials',
  '.htpasswd',
  '.netrc',
  '.npmrc',
  '.pgpass',
  '.pypirc',
  '.yarnrc.yml',
  '_netrc',
  'application_default_credentials.json',
  'credentials.json',
  // The files of LMDB, in whichever folder they are.
  'data.mdb',
  'lock.mdb',
]);

/** `.env`, `.env.local`, `.envrc`; keys and key stores; the names that ssh-keygen and cloud consoles give. */
const privatePatterns: readonly RegExp[] = [
  /^\.env/,
  /\.(?:pem|key|p8|p12|pfx|pkcs12|jks|jceks|keystore|kdbx?|ppk|gpg|keytab|mdb|mdb-lock)$/,
  /^id_(?:rsa|dsa|ecdsa|ed25519|xmss)/,
  /^(?:service[-_]?account|client_secret).*\.json$/,
];

/** Where a system keeps memory, environments and devices of processes as files. */
const systemFolders: readonly string[] = ['/proc', '/sys', '/dev'];

const privateKey = /-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----/;

/** Whether a file or folder of this name, and with it all that is below, is kept from tools. Case does not count. */
function isPrivateName(name: string): boolean {
  const lower = name.toLowerCase();
  return privateFolders.has(lower) || privateFiles.has(lower) || privatePatterns.some((pattern) => pattern.test(lower));
}

/** Whether an absolute real path is in a file system that the kernel makes up. */
function isSystemPath(path: string): boolean {
  return systemFolders.some((folder) => path === folder || path.startsWith(`${folder}/`));
}

/** How many bytes from the start of a file {@link holdsPrivateKey} needs. */
const privateKeyWindow = 4_096;

/** Whether the start of a file has the header of a private key, whatever the file is called. */
function holdsPrivateKey(start: Uint8Array): boolean {
  return privateKey.test(Buffer.from(start.buffer, start.byteOffset, start.byteLength).toString('latin1'));
}
