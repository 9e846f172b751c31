import { closeSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { appendPrivateSync, privateFileMode } from '../../files/private-files.ts';
import { codeOf } from './lmdb-errors.ts';

/** An opening takes milliseconds; a mark that stands longer was left by a process that died. */
const staleMs = 5_000;
const pauseMs = 2;

/** How far the openings of a file have come, as a writer sees it. */
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
    while (!this.#enter()) pause(pauseMs);
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
    while (this.look().underWay && !this.#removeStale()) await sleep(pauseMs);
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

  /** True where the mark was left by a process that died, and is gone now. */
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

function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
