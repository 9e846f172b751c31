import { open, readFile, readlink, rename, rm, stat, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { AgentLoopError, isObject } from '../core/contracts/index.ts';
import { privateFileMode } from '../private-files.ts';

/** The owner of a lock shows that often that it runs. */
const beatMs = 10_000;
/** One elsewhere that has not for so long has died, or its machine has. */
const staleMs = 60_000;

/** The locks that this process holds: another one with its process id is of a process that died before it. */
const held = new Set<string>();

interface Owner {
  readonly pid: number;
  /** For a person. Two containers may have one name. */
  readonly host: string;
  /** Where process ids mean the same. */
  readonly space: string;
  /** When the process began: a process id is given to another process later. `undefined` where the system does not say. */
  readonly started?: string | undefined;
  readonly token: string;
}

/**
 * Lets one run at a time write a file: `FILE.lock` beside it names the process. The lock of a process that has died does not count: on the same
 * machine and in the same container at once, and there one that is stopped still counts; else a minute after it was last renewed.
 */
export class ResultsLock {
  readonly #path: string;
  readonly #content: string;
  readonly #token: string;
  readonly #file: string;
  readonly #beat: NodeJS.Timeout;
  /** Whether the owner before may come back: what it still has open must not be the file any more. */
  readonly isTakenOver: boolean;

  private constructor({ file, path, content, token, isTakenOver }: TakenLock) {
    this.#file = file;
    this.#path = path;
    this.#content = content;
    this.#token = token;
    this.isTakenOver = isTakenOver;
    held.add(token);
    // A lock that is gone, or a disk that is away, is not the matter of a renewal: the next write tells.
    this.#beat = setInterval(() => void this.#renew().catch(() => {}), beatMs).unref();
  }

  async #renew(): Promise<void> {
    const now = new Date();
    if (await this.isHeld()) await utimes(this.#path, now, now);
  }

  /** False once another run has taken the lock, while this process was stopped or cut off. */
  async isHeld(): Promise<boolean> {
    return (await readIfThere(this.#path)) === this.#content;
  }

  /** Errors: `CONFLICT` once another run has taken the lock. */
  async check(): Promise<void> {
    const content = await readIfThere(this.#path);
    if (content !== this.#content) throw conflict(this.#file, content ?? '');
  }

  /** Errors: `CONFLICT` where another run writes the file; those of the file. */
  static async take(file: string): Promise<ResultsLock> {
    const path = `${file}.lock`;
    const { pid } = process;
    const owner: Owner = {
      pid,
      host: hostname(),
      space: await processSpace(),
      started: (await processNow(pid)).started,
      token: crypto.randomUUID(),
    };
    const content = JSON.stringify(owner);
    for (let isTakenOver = false; ; ) {
      try {
        await writeNew(path, content);
        return new ResultsLock({ file, path, content, token: owner.token, isTakenOver });
      } catch (error) {
        if (codeOf(error) !== 'EEXIST') throw error;
      }
      isTakenOver = (await removeStale(path, { file, aside: `${path}.${owner.token}` })) || isTakenOver;
    }
  }

  async release(): Promise<void> {
    clearInterval(this.#beat);
    held.delete(this.#token);
    if (await this.isHeld()) await rm(this.#path, { force: true });
  }
}

/** Writes a file that must not exist. One that cannot be written whole, on a full disk, is removed again: it would count as the lock of a run that lives. */
async function writeNew(path: string, content: string): Promise<void> {
  const file = await open(path, 'wx', privateFileMode);
  try {
    await file.writeFile(content);
    await file.close();
  } catch (error) {
    await file.close().catch(() => {});
    await rm(path, { force: true });
    throw error;
  }
}

interface TakenLock {
  readonly file: string;
  readonly path: string;
  readonly content: string;
  readonly token: string;
  readonly isTakenOver: boolean;
}

interface Removal {
  readonly file: string;
  readonly aside: string;
}

/** Removes the lock of a process that has died. Returns whether it may live still, elsewhere. Errors: `CONFLICT` for that of another. */
async function removeStale(path: string, { file, aside }: Removal): Promise<boolean> {
  const content = await readIfThere(path);
  if (content === undefined) return false;
  const isDead = await hasDied(content);
  if (!(isDead ?? (await isLate(path)))) throw conflict(file, content);
  try {
    await rename(path, aside);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
  const moved = await readIfThere(aside);
  // Another process has removed it in the meantime, and this is its own.
  if (moved !== content) {
    await rename(aside, path);
    throw conflict(file, moved ?? '');
  }
  await rm(aside, { force: true });
  return isDead === undefined;
}

async function isLate(path: string): Promise<boolean> {
  const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }));
  return Date.now() - mtimeMs > staleMs;
}

/** `undefined` where this process cannot know: on another machine, in another container, where the system does not say when a process began. */
async function hasDied(content: string): Promise<boolean | undefined> {
  const owner = ownerIn(content);
  if (owner?.space !== (await processSpace())) return undefined;
  const { isRunning, started } = await processNow(owner.pid);
  if (!isRunning) return true;
  if (owner.pid === process.pid && !held.has(owner.token)) return true;
  return started === undefined ? undefined : started !== owner.started;
}

/** The boot of the machine and its namespace of process ids on Linux, where a container has one of its own; else the name of the host. */
async function processSpace(): Promise<string> {
  const [boot, namespace] = await Promise.all([
    readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => hostname()),
    readlink('/proc/self/ns/pid').catch(() => ''),
  ]);
  return `${boot.trim()} ${namespace}`.trim();
}

/** Whether a process runs, and when it began, in ticks of the clock of Linux: field 22 of proc_pid_stat(5), after a name that may hold anything. */
async function processNow(
  pid: number,
): Promise<{ readonly isRunning: boolean; readonly started?: string | undefined }> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (codeOf(error) === 'ESRCH') return { isRunning: false };
  }
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return { isRunning: true, started: text.slice(text.lastIndexOf(')') + 2).split(' ')[19] };
}

/** `undefined` for one that is just being written. */
function ownerIn(content: string): Owner | undefined {
  try {
    return JSON.parse(content);
  } catch {
    return undefined;
  }
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function conflict(file: string, content: string): AgentLoopError {
  const owner = ownerIn(content);
  const who = owner === undefined ? 'another run' : `process ${owner.pid} on ${owner.host}`;
  return new AgentLoopError(
    'CONFLICT',
    `${file} is written by ${who}: wait for its end, or name another file (the lock is ${file}.lock).`,
  );
}

function codeOf(error: unknown): unknown {
  return isObject(error) ? error['code'] : undefined;
}
