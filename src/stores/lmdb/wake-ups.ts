import type { LmdbDatabase } from './lmdb-database.ts';

export interface WakeUpOptions {
  readonly database: LmdbDatabase;
  /** Milliseconds between two looks at what other processes did. */
  readonly pollMs: number;
}

/**
 * Tells readers to look at their task again: at once where this store changed it, and within `pollMs` where another process
 * changed anything. One timer for all of them, none without subscribers; a poll that finds nothing new costs some microseconds.
 */
export class WakeUps {
  readonly #options: WakeUpOptions;
  readonly #readers = new Map<string, Set<() => void>>();
  #timer: NodeJS.Timeout | undefined;
  #lastWrite: string | undefined;

  constructor(options: WakeUpOptions) {
    this.#options = options;
  }

  /** Calls `look` from now on, until the returned function is called. */
  join(taskId: string, look: () => void): () => void {
    const readers = this.#readers.get(taskId) ?? new Set();
    this.#readers.set(taskId, readers.add(look));
    this.#start();
    return () => {
      readers.delete(look);
      if (readers.size === 0 && this.#readers.get(taskId) === readers) this.#readers.delete(taskId);
      if (this.#readers.size === 0) this.stop();
    };
  }

  wake(taskId: string): void {
    for (const look of [...(this.#readers.get(taskId) ?? [])]) look();
  }

  wakeAll(): void {
    for (const taskId of [...this.#readers.keys()]) this.wake(taskId);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #start(): void {
    if (this.#timer) return;
    this.#lastWrite = undefined;
    this.#timer = setInterval(() => this.#look(), this.#options.pollMs);
  }

  #look(): void {
    const write = this.#newestWrite();
    if (write !== undefined && write === this.#lastWrite) return;
    this.#lastWrite = write;
    this.wakeAll();
  }

  /** Undefined where the file cannot be read: the readers find out why, and say so. */
  #newestWrite(): string | undefined {
    try {
      return this.#options.database.lastWrite();
    } catch {
      return undefined;
    }
  }
}
