import assert from 'node:assert/strict';
import { isObservable, lastValueFrom, type Observable, type Subscription, takeUntil, timer } from 'rxjs';
import {
  AgentLoopError,
  type ErrorCode,
  type MaybePromise,
  messageOf,
  systemClock,
} from '../../core/contracts/index.ts';
import { after, pause } from '../../core/streams/index.ts';

/** What the suite needs of a test runner: jest, vitest, `node:test` and mocha all have it. */
export interface ContractRunner {
  /** Groups tests, as `describe` of Jest, Vitest and `node:test` does. */
  describe(title: string, define: () => void): unknown;
  /** Declares a test; a rejection fails it. */
  it(title: string, test: () => Promise<void>): unknown;
}

/** One promise of a contract. Its title is stable: deviations are named by it. */
interface Promised<Subject> {
  readonly title: string;
  /** The optional member of the harness without which the case is left out. */
  readonly needs?: string;
  run(subject: Subject): Promise<void>;
}

/** The promises of one subject, in the order they run. */
export interface PromiseGroup<Subject> {
  readonly name: string;
  readonly cases: readonly Promised<Subject>[];
}

/** What every harness says, whatever it examines. */
export interface NamedHarness {
  /** Names the implementation in the titles. */
  readonly name: string;
  /** Titles of cases that it is known to fail, and why. Such a case has to fail: when it passes, it says so. */
  readonly deviations?: Readonly<Record<string, string>>;
}

interface ContractDefinition<Subject> {
  /** The interface. */
  readonly of: string;
  readonly groups: readonly PromiseGroup<Subject>[];
  /** Runs a case on a fresh subject, and disposes of it. */
  examine(run: (subject: Subject) => Promise<void>): Promise<void>;
}

/** Defines the groups as tests of `runner`. Errors with `INVALID_CONFIG` where `deviations` names no case. */
export function defineContract<Subject>(
  { of, groups, examine }: ContractDefinition<Subject>,
  harness: NamedHarness,
  runner: ContractRunner,
): void {
  const { name, deviations = {} } = harness;
  assertTitles(
    of,
    Object.keys(deviations),
    groups.flatMap(({ cases }) => cases.map(({ title }) => title)),
  );
  const define = (promised: Promised<Subject>): void => {
    const { needs } = promised;
    if (needs !== undefined && Reflect.get(harness, needs) === undefined) return;
    const why = deviations[promised.title];
    const test = () => examine((subject) => promised.run(subject));
    if (why === undefined) runner.it(promised.title, test);
    else runner.it(`${promised.title} (known deviation: ${why})`, () => assert.rejects(test, passes));
  };
  runner.describe(`${name} keeps the contract of ${of}`, () => {
    for (const group of groups) runner.describe(group.name, () => group.cases.forEach(define));
  });
}

const passes = 'This case passes: take its title out of the deviations of this store.';

/** Two instances over the same data, as two processes have them; the same one twice where there is no such thing. */
export interface Pair<Store> {
  readonly store: Store;
  readonly peer: Store;
}

interface PairHarness<Store> {
  createPeer?(store: Store): MaybePromise<Store>;
  dispose?(store: Store): MaybePromise<void>;
}

/** Runs an action on a store and its peer, and disposes of both, the peer first. */
export async function withPair<Store>(
  harness: PairHarness<Store>,
  store: Store,
  run: (pair: Pair<Store>) => Promise<void>,
): Promise<void> {
  try {
    const peer = harness.createPeer ? await harness.createPeer(store) : store;
    try {
      await run({ store, peer });
    } finally {
      if (peer !== store) await harness.dispose?.(peer);
    }
  } finally {
    await harness.dispose?.(store);
  }
}

function assertTitles(of: string, titles: readonly string[], known: readonly string[]): void {
  const unknown = titles.filter((title) => !known.includes(title));
  if (unknown.length === 0) return;
  throw new AgentLoopError('INVALID_CONFIG', `No case of the contract of ${of} is called "${unknown.join('", "')}".`);
}

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

/** Times are not made longer than this to repeat a case. Milliseconds. */
const longestMs = 10_000;
/** At least this long a case waits, beside the length of its times. Milliseconds. */
const shortestMs = 2_000;

type Advance = (ms: number) => MaybePromise<void>;

interface InTime {
  readonly harness: object;
  /** Waits on a real clock; undefined where the suite moves the clock. */
  readonly advance: Advance | undefined;
  /** How long leases and values last. Milliseconds. */
  readonly lengthMs: number;
}

/**
 * Where times run on a real clock and the machine was too slow for them, a failure says nothing about the store: the case is repeated with
 * times that are four times as long.
 */
export async function inTime(
  { harness, advance, lengthMs }: InTime,
  run: (lengthMs: number, advance: Advance | undefined) => Promise<void>,
): Promise<void> {
  if (advance === undefined) return run(lengthMs, undefined);
  let waitedMs = 0;
  const waiting = (ms: number) => {
    waitedMs += ms;
    return advance.call(harness, ms);
  };
  const begun = performance.now();
  try {
    await run(lengthMs, waiting);
  } catch (error) {
    // A clock of milliseconds may tick at once.
    const workedMs = performance.now() - begun - waitedMs + 1;
    if (workedMs < lengthMs / 4 || !isRepeated(lengthMs)) throw error;
    await inTime({ harness, advance, lengthMs: lengthMs * 4 }, run);
  }
}

function isRepeated(lengthMs: number): boolean {
  return lengthMs * 4 <= longestMs;
}

/**
 * How long a case waits for what may happen a little later. One that is repeated where it fails does not wait long for what a lapsed lease, or value,
 * keeps from happening.
 */
export function patienceMs(deadlineMs: number, { advance, lengthMs }: Pick<InTime, 'advance' | 'lengthMs'>): number {
  return advance && isRepeated(lengthMs) ? Math.min(deadlineMs, lengthMs + shortestMs) : deadlineMs;
}

/** Asserts that `check` passes, now or within the deadline: for what a store may do a little later. */
export async function eventually(deadlineMs: number, check: () => Promise<void>): Promise<void> {
  const deadline = performance.now() + deadlineMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() >= deadline) throw error;
      await pause(10, systemClock);
    }
  }
}

/** What a subscription has received so far. */
export interface Reading<T> {
  readonly values: readonly T[];
  readonly completed: boolean;
  readonly error: unknown;
  /** Resolves once `condition` holds; fails past the deadline, if it has one, or when the stream ended without it. */
  until(what: string, condition: (reading: Reading<T>) => boolean): Promise<void>;
  stop(): void;
}

interface WatchOptions<T> {
  /** How long `until` waits. Milliseconds; default without a limit. */
  readonly deadlineMs?: number;
  /** Called with each value, after it was noted. */
  readonly onValue?: (value: T) => void;
}

/** Subscribes, and notes all that comes. */
export function watch<T>(source: Observable<T>, options: WatchOptions<T> = {}): Reading<T> {
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
          stop();
          changed.delete(check);
          outcome();
        };
        const check = (): void => {
          if (condition(reading)) settle(resolve);
          else if (end.completed || end.error !== undefined) miss();
        };
        const { deadlineMs } = options;
        const miss = (): void => settle(() => reject(missed(what, reading)));
        const stop = deadlineMs === undefined ? () => {} : after(deadlineMs, systemClock, miss);
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

/** Arguments that a method has to refuse, each a whole call. */
export type WrongArguments<Store> = { readonly [Method in keyof Store]?: readonly (readonly unknown[])[] };

/** Asserts that each call is refused as `INVALID_INPUT`, also where a subscriber, within the deadline, or a reader gets the error. */
export async function refusesWrongArguments<Store extends object>(
  store: Store,
  calls: WrongArguments<Store>,
  deadlineMs = 1_000,
): Promise<void> {
  const call = (name: string, given: readonly unknown[]): unknown => {
    const method: unknown = Reflect.get(store, name);
    if (typeof method !== 'function') throw new TypeError(`${name} is not a method`);
    return Reflect.apply(method, store, given);
  };
  for (const [name, wrong] of Object.entries<readonly (readonly unknown[])[] | undefined>(calls)) {
    for (const given of wrong ?? []) {
      await refuses('INVALID_INPUT', () => completed(call(name, given), deadlineMs)).catch((cause: unknown) => {
        throw new Error(`${name}(${given.map(shown).join(', ')})`, { cause });
      });
    }
  }
}

/** The outcome for a caller that awaits the end of a result. */
async function completed(answer: unknown, deadlineMs: number): Promise<void> {
  if (isObservable(answer)) await lastValueFrom(answer.pipe(takeUntil(timer(deadlineMs))), { defaultValue: undefined });
  else if (isIteration(answer)) for await (const _ of answer);
  else await answer;
}

function isIteration(answer: unknown): answer is AsyncIterable<unknown> {
  return typeof answer === 'object' && answer !== null && Symbol.asyncIterator in answer;
}

function shown(value: unknown): string {
  return JSON.stringify(value) ?? String(value);
}

/** What is neither a string nor an object of options. */
export const notText: readonly unknown[] = [undefined, null, 7, true, {}, ['t']];

export const notOptions: readonly unknown[] = [null, 't1', 7, ['t1'], { taskID: 't1' }];

export const notNumber: readonly unknown[] = [null, '1', Number.NaN, {}];
