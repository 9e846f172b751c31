import { randomUUID } from 'node:crypto';
import { AgentLoopError, type Clock, systemClock } from '../../core/contracts/index.ts';
import { pause, Timer } from '../../core/streams/index.ts';
import { type McpAuthStore, sharesNothing } from './auth-options.ts';

/** A load and a save that took longer count for nothing: another process may have entered in between. */
const longestWriteMs = 250;
/** How long a process waits after it has written its record. More than `longestWriteMs`, so that a write that counts is seen. */
const settleMs = 300;
const pollMs = 50;
/** The owner of a lock renews its record this often. */
const beatMs = 1_000;
/** One that has not renewed it for so long has died. */
const staleMs = 6_000;
/** One that wrote its record too slowly enters where nobody has replaced it for so long: an owner would have, and others wait longer. */
const unopposedMs = 3_000;
const maxWaitMs = 60_000;

interface LockOptions<T> {
  readonly store: McpAuthStore;
  readonly key: string;
  /** What resolves without the lock, in turn with the others of this process; with `undefined` where it is needed. */
  readonly early?: (() => Promise<T | undefined>) | undefined;
  readonly clock?: Clock;
}

const queues = new WeakMap<object, Map<string, Promise<unknown>>>();

/** Runs functions of one owner and key one after the other, in this process. */
export function inTurn<T>(owner: object, key: string, run: () => Promise<T>): Promise<T> {
  const queue = queues.get(owner) ?? new Map<string, Promise<unknown>>();
  queues.set(owner, queue);
  const result = (queue.get(key) ?? Promise.resolve()).then(run);
  const settled = result.then(
    () => {},
    () => {},
  );
  queue.set(key, settled);
  void settled.then(() => {
    if (queue.get(key) === settled) queue.delete(key);
  });
  return result;
}

/**
 * Runs one function at a time for a key of a store, in all processes that share the store. The store needs no lock of its own: a process writes a
 * record, waits, and owns the lock if the record is still its own (Fischer's algorithm); a write that was too slow does not count. The lock of a
 * process that has died is free after six seconds.
 * Errors: `UNAVAILABLE` where the lock is not free within a minute; those of the store and of `run`.
 */
export function withLock<T>(
  { store, key, early, clock = systemClock }: LockOptions<T>,
  run: () => Promise<T>,
): Promise<T> {
  return inTurn(store, key, async () => {
    const known = await early?.();
    if (known !== undefined) return known;
    if (sharesNothing(store)) return run();
    const lock = new StoreLock(store, key, clock);
    await lock.take();
    try {
      return await run();
    } finally {
      await lock.release();
    }
  });
}

class StoreLock {
  readonly #store: McpAuthStore;
  readonly #key: string;
  readonly #clock: Clock;
  readonly #owner = randomUUID();
  #beats = 0;
  #beating: Promise<void> = Promise.resolve();
  readonly #nextBeat: Timer;

  constructor(store: McpAuthStore, key: string, clock: Clock) {
    this.#store = store;
    this.#key = key;
    this.#clock = clock;
    this.#nextBeat = new Timer(clock);
  }

  async take(): Promise<void> {
    const deadline = this.#now() + maxWaitMs;
    let seen: { readonly record: string; readonly since: number } | undefined;
    for (;;) {
      const began = this.#now();
      const record = await this.#record();
      if (record !== undefined) {
        if (record !== seen?.record) seen = { record, since: began };
        const isOwn = this.#isOwn(record);
        if (began - seen.since < (isOwn ? unopposedMs : staleMs)) {
          if (began > deadline) throw tooLong();
          await pause(pollMs, this.#clock);
          continue;
        }
        if (isOwn) {
          await this.#write();
          break;
        }
      }
      await this.#write();
      if (this.#now() - began > longestWriteMs) continue;
      await pause(settleMs, this.#clock);
      if (this.#isOwn(await this.#record())) break;
    }
    this.#scheduleBeat();
  }

  /** A store that fails now leaves a record that others take for that of a dead process. */
  async release(): Promise<void> {
    this.#nextBeat.close();
    await this.#beating;
    try {
      if (this.#isOwn(await this.#record())) await this.#store.delete(this.#key);
    } catch {}
  }

  #scheduleBeat(): void {
    const beat = () => {
      this.#beating = this.#write()
        .catch(() => {})
        .then(() => this.#scheduleBeat());
    };
    this.#nextBeat.set(beatMs, beat, { watchdog: true });
  }

  async #record(): Promise<string | undefined> {
    const kept = await this.#store.load(this.#key);
    return kept === undefined || kept === null ? undefined : JSON.stringify(kept);
  }

  #isOwn(record: string | undefined): boolean {
    return record?.includes(this.#owner) ?? false;
  }

  async #write(): Promise<void> {
    await this.#store.save(this.#key, { owner: this.#owner, beat: this.#beats++ });
  }

  #now(): number {
    return this.#clock.elapsed?.() ?? this.#clock.now();
  }
}

function tooLong(): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `has no valid access token: another process has held the lock of the auth store for ${maxWaitMs / 1_000} s; try again`,
    { retryable: true },
  );
}
