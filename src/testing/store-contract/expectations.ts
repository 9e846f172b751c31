import assert from 'node:assert/strict';
import type { Observable, Subscription } from 'rxjs';
import { AgentLoopError, type ErrorCode, messageOf } from '../../core/contracts/index.ts';

/** Asserts that `action` throws or rejects with an `AgentLoopError` of that code. */
export async function refuses(code: ErrorCode, action: () => unknown): Promise<AgentLoopError> {
  const outcome = await outcomeOf(action);
  assert(outcome.failed, `expected ${code}, but it was accepted`);
  const { error } = outcome;
  assert(AgentLoopError.isInstance(error), `expected an AgentLoopError ${code}, got: ${messageOf(error)}`);
  assert.equal(error.code, code, `expected ${code}, got ${error.code}: ${error.message}`);
  return error;
}

async function outcomeOf(action: () => unknown): Promise<{ failed: false } | { failed: true; error: unknown }> {
  try {
    await action();
    return { failed: false };
  } catch (error) {
    return { failed: true, error };
  }
}

/** Asserts that `check` passes, now or within the deadline: for what a store may do a little later. */
export async function eventually(deadlineMs: number, check: () => Promise<void>): Promise<void> {
  const deadline = performance.now() + deadlineMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() >= deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

/** What a subscription has received so far. */
export interface Reading<T> {
  readonly values: readonly T[];
  readonly completed: boolean;
  readonly error: unknown;
  /** Resolves once `condition` holds; fails past the deadline, or when the stream ended without it. */
  until(what: string, condition: (reading: Reading<T>) => boolean): Promise<void>;
  stop(): void;
}

export interface WatchOptions<T> {
  readonly deadlineMs: number;
  /** Called with each value, after it was noted. */
  readonly onValue?: (value: T) => void;
}

/** Subscribes, and notes all that comes. */
export function watch<T>(source: Observable<T>, options: WatchOptions<T>): Reading<T> {
  const values: T[] = [];
  const changed = new Set<() => void>();
  const end = { completed: false, error: undefined as unknown };
  const wake = (): void => {
    for (const callback of changed) callback();
  };
  const reading: Reading<T> = {
    values,
    get completed() {
      return end.completed;
    },
    get error() {
      return end.error;
    },
    until: (what, condition) =>
      new Promise((resolve, reject) => {
        const settle = (outcome: () => void): void => {
          clearTimeout(timer);
          changed.delete(check);
          outcome();
        };
        const check = (): void => {
          if (condition(reading)) settle(resolve);
          else if (end.completed || end.error !== undefined) settle(() => reject(missed(what, reading)));
        };
        const timer = setTimeout(() => settle(() => reject(missed(what, reading))), options.deadlineMs);
        changed.add(check);
        check();
      }),
    stop: () => subscription.unsubscribe(),
  };
  const subscription: Subscription = source.subscribe({
    next: (value) => {
      values.push(value);
      options.onValue?.(value);
      wake();
    },
    error: (error) => {
      end.error = error ?? new Error('an error without a value');
      wake();
    },
    complete: () => {
      end.completed = true;
      wake();
    },
  });
  return reading;
}

/** Asserts that a stream errors with an `AgentLoopError` of that code. */
export async function failsWith(code: ErrorCode, reading: Reading<unknown>): Promise<void> {
  await reading.until(`an error ${code}`, ({ error }) => error !== undefined);
  await refuses(code, () => Promise.reject(reading.error));
}

function missed(what: string, reading: Reading<unknown>): Error {
  const end = reading.completed
    ? 'it completed'
    : reading.error !== undefined
      ? `it failed: ${messageOf(reading.error)}`
      : 'it is still open';
  return new assert.AssertionError({
    message: `expected ${what}; ${reading.values.length} values came and ${end}`,
  });
}
