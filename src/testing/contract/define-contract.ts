import assert from 'node:assert/strict';
import { AgentLoopError, type MaybePromise } from '../../core/contracts/index.ts';
import type { ContractRunner } from '../store-contract.ts';

/** One promise of a contract. Its title is stable: deviations are named by it. */
export interface Promised<Subject> {
  readonly title: string;
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

export interface ContractDefinition<Subject> {
  /** The interface. */
  readonly of: string;
  readonly groups: readonly PromiseGroup<Subject>[];
  /** Runs a case on a fresh subject, and disposes of it. */
  examine(run: (subject: Subject) => Promise<void>): Promise<void>;
}

/** Defines the groups as tests of `runner`. Errors with `INVALID_CONFIG` where `deviations` names no case. */
export function defineContract<Subject>(
  { of, groups, examine }: ContractDefinition<Subject>,
  { name, deviations = {} }: NamedHarness,
  runner: ContractRunner,
): void {
  assertTitles(
    of,
    Object.keys(deviations),
    groups.flatMap(({ cases }) => cases.map(({ title }) => title)),
  );
  const define = (promised: Promised<Subject>): void => {
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

export interface PairHarness<Store> {
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
