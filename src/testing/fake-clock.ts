import { AgentLoopError, type Clock } from '../core/contracts/index.ts';

/** Options of `fakeClock`. */
export interface FakeClockOptions {
  /** Milliseconds since 1970. Default 0. */
  readonly startAt?: number | undefined;
}

/** A {@link Clock} that stands still until a test moves it. */
export interface FakeClock extends Clock {
  /** Callbacks that wait for their time, watchdogs too. */
  readonly pending: number;
  /**
   * Moves the time on by `ms` milliseconds and runs what becomes due on the way, each at its own time, in the order of
   * their times and then of scheduling; also what such a callback schedules within the span. What it throws is thrown here,
   * with the time standing at that callback.
   */
  advance(ms: number): void;
  /** Moves the time to the next callback that is no watchdog, else to the next one, and runs it, as `advance` does. Errors where none is pending. */
  advanceToNext(): void;
  /**
   * Resolves once at least `count` (default 1) callbacks are pending that are no watchdogs, such as that of `modelSilenceMs`: how a test waits
   * for code to begin its sleep.
   */
  whenPending(count?: number): Promise<void>;
}

interface Entry {
  readonly at: number;
  readonly callback: () => void;
  readonly watchdog: boolean;
}

interface Waiter {
  readonly count: number;
  readonly resolve: () => void;
}

/** A clock at `startAt` with nothing scheduled. Memory grows with what is pending. */
export function fakeClock(options: FakeClockOptions = {}): FakeClock {
  const entries = new Set<Entry>();
  const waiters = new Set<Waiter>();
  let now = options.startAt ?? 0;

  const next = (among: Iterable<Entry> = entries): Entry | undefined => {
    let first: Entry | undefined;
    for (const entry of among) if (first === undefined || entry.at < first.at) first = entry;
    return first;
  };
  const withoutWatchdogs = (): readonly Entry[] => [...entries].filter(({ watchdog }) => !watchdog);

  const runUntil = (end: number): void => {
    for (let entry = next(); entry !== undefined && entry.at <= end; entry = next()) {
      entries.delete(entry);
      now = Math.max(now, entry.at);
      entry.callback();
    }
    now = Math.max(now, end);
  };

  const wake = (): void => {
    for (const waiter of waiters) {
      if (withoutWatchdogs().length < waiter.count) continue;
      waiters.delete(waiter);
      waiter.resolve();
    }
  };

  return {
    now: () => now,
    schedule(ms, callback, { watchdog = false } = {}) {
      const entry = { at: now + Math.max(0, ms), callback, watchdog };
      entries.add(entry);
      wake();
      return () => entries.delete(entry);
    },
    get pending() {
      return entries.size;
    },
    advance(ms) {
      if (!(ms >= 0))
        throw new AgentLoopError('INVALID_INPUT', `A clock goes forward: advance takes 0 or more, not ${ms}.`);
      runUntil(now + ms);
    },
    advanceToNext() {
      const entry = next(withoutWatchdogs()) ?? next();
      if (entry === undefined) {
        throw new AgentLoopError('INVALID_INPUT', 'Nothing is scheduled; await whenPending() before advanceToNext().');
      }
      runUntil(entry.at);
    },
    whenPending(count = 1) {
      return new Promise((resolve) => {
        waiters.add({ count, resolve });
        wake();
      });
    },
  };
}
