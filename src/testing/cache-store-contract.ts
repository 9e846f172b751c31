import assert from 'node:assert/strict';
import type { Clock, MaybePromise } from '../core/contracts/index.ts';
import type { CacheStore } from '../stores/cache/cache-store.ts';
import {
  type ContractRunner,
  defineContract,
  inTime,
  type NamedHarness,
  notOptions,
  notText,
  type Pair,
  type PromiseGroup,
  refuses,
  refusesWrongArguments,
  type WrongArguments,
  withPair,
} from './contract/define-contract.ts';
import { fakeClock } from './fake-clock.ts';

/** How the suite gets at the store that it examines. */
export interface CacheStoreContractHarness extends NamedHarness {
  /** Called before each case; the store has to be empty. The clock stands still until the suite moves it. */
  createStore(options: { readonly clock: Clock }): MaybePromise<CacheStore>;
  /** A second instance over the same data, as another process has it. Default: the same instance. */
  createPeer?(store: CacheStore, options: { readonly clock: Clock }): MaybePromise<CacheStore>;
  /** Called after each case, for the peer before the store. */
  dispose?(store: CacheStore): MaybePromise<void>;
  /** Lets time pass. Default: moves the given clock; a store with its own clock waits here. */
  advance?(ms: number): MaybePromise<void>;
  /**
   * How long the values of the suite live. Milliseconds; default 1,000. Short where `advance` waits: a case that fails on a machine that is
   * too slow for them is repeated with longer ones, of at most 10 s.
   */
  readonly ttlMs?: number;
}

/**
 * Defines the contract of `CacheStore` as tests of `runner`. Each case gets its own, empty store. Titles are stable. Errors with
 * `INVALID_CONFIG` where `deviations` names no case.
 */
export function cacheStoreContract(harness: CacheStoreContractHarness, runner: ContractRunner): void {
  const { ttlMs: lengthMs = 1_000 } = harness;
  const examine = (run: (subject: CacheStoreUnderTest) => Promise<void>): Promise<void> =>
    inTime({ harness, advance: harness.advance, lengthMs }, (ttlMs, passing) => runOnce(run, ttlMs, passing));
  const runOnce = async (
    run: (subject: CacheStoreUnderTest) => Promise<void>,
    ttlMs: number,
    passing: CacheStoreContractHarness['advance'],
  ): Promise<void> => {
    const clock = fakeClock();
    const advance = async (ms: number) => (passing ? passing(ms) : clock.advance(ms));
    const pairs = {
      ...(harness.createPeer && {
        createPeer: async (store: CacheStore) => harness.createPeer?.(store, { clock }) ?? store,
      }),
      dispose: async (store: CacheStore) => harness.dispose?.(store),
    };
    await withPair(pairs, await harness.createStore({ clock }), (pair) => run({ ...pair, advance, ttlMs }));
  };
  defineContract({ of: 'CacheStore', groups: [cacheCases], examine }, harness, runner);
}

interface CacheStoreUnderTest extends Pair<CacheStore> {
  /** Lets time pass. */
  advance(ms: number): Promise<void>;
  readonly ttlMs: number;
}

const values: readonly unknown[] = [
  null,
  false,
  0,
  1.5,
  '',
  'ä 🐘 \u0000 \ud800',
  [],
  [null, [1]],
  {},
  { a: { b: ['c', null] }, '': 1 },
];

const oddKeys = [
  'x',
  ' ',
  '{x}',
  'a\nb\0c',
  '__proto__',
  'ä🐘',
  'x'.repeat(512),
  `${'x'.repeat(511)}y`,
  '漢'.repeat(512),
];

const cacheCases: PromiseGroup<CacheStoreUnderTest> = {
  name: 'get, set and delete',
  cases: [
    {
      title: 'H-07 arguments of another type are refused as INVALID_INPUT, and change nothing',
      async run({ store }) {
        await store.set('a', 1);
        const keys = notText.map((bad) => [bad]);
        const calls: WrongArguments<CacheStore> = {
          get: keys,
          set: [
            ...notText.map((bad) => [bad, 2]),
            ...notOptions.map((bad) => ['a', 2, bad]),
            ['a', 2, 1_000],
            ['a', 2, { ttlMs: '1000' }],
          ],
          delete: keys,
        };
        await refusesWrongArguments(store, calls);
        assert.equal(await store.get('a'), 1);
      },
    },
    {
      title: 'a key that was never set has no value',
      async run({ store }) {
        assert.equal(await store.get('never'), undefined);
        await store.delete('never');
      },
    },
    {
      title: 'every value of JSON comes back as it was set',
      async run({ store, peer }) {
        for (const [index, value] of values.entries()) await store.set(`value-${index}`, value);
        for (const [index, value] of values.entries()) assert.deepEqual(await peer.get(`value-${index}`), value);
      },
    },
    {
      title: 'of two values the later one counts, and a deleted one is gone',
      async run({ store, peer }) {
        await store.set('a', 1);
        await peer.set('a', 2);
        await store.set('b', 3);
        assert.equal(await store.get('a'), 2);
        await peer.delete('a');
        assert.equal(await store.get('a'), undefined);
        assert.equal(await store.get('b'), 3);
      },
    },
    {
      title: 'every text of 1 to 512 characters is a key of its own',
      async run({ store, peer }) {
        for (const [index, key] of oddKeys.entries()) await store.set(key, index);
        for (const [index, key] of oddKeys.entries()) assert.equal(await peer.get(key), index);
        assert.equal(await store.get('x '), undefined);
      },
    },
    {
      title: 'what the caller does to its own objects changes nothing in the store',
      async run({ store }) {
        const value = { list: [1] };
        const set = store.set('a', value);
        value.list.push(2);
        await set;
        const got = await store.get('a');
        assert.deepEqual(got, { list: [1] });
        if (typeof got === 'object' && got !== null) Reflect.set(got, 'list', []);
        assert.deepEqual(await store.get('a'), { list: [1] });
      },
    },
    {
      title: 'a value with a time to live is given until that is over, and not after it',
      async run({ store, peer, advance, ttlMs }) {
        await store.set('short', 1, { ttlMs });
        await store.set('long', 2, { ttlMs: ttlMs * 1_000 });
        await store.set('kept', 3);
        assert.equal(await peer.get('short'), 1);
        await advance(ttlMs + 1);
        assert.equal(await store.get('short'), undefined);
        assert.equal(await peer.get('short'), undefined);
        assert.deepEqual([await peer.get('long'), await peer.get('kept')], [2, 3]);
      },
    },
    {
      title: 'a value that is set again has the time to live of the later one',
      async run({ store, advance, ttlMs }) {
        await store.set('kept', 1, { ttlMs });
        await store.set('kept', 2);
        await store.set('ends', 1);
        await store.set('ends', 2, { ttlMs });
        await advance(ttlMs + 1);
        assert.deepEqual([await store.get('kept'), await store.get('ends')], [2, undefined]);
      },
    },
    {
      title: 'keys, values and times that no store can hold are refused as INVALID_INPUT, and change nothing',
      async run({ store }) {
        await store.set('a', 1);
        for (const key of ['', 'x'.repeat(513)]) {
          await refuses('INVALID_INPUT', () => store.get(key));
          await refuses('INVALID_INPUT', () => store.set(key, 1));
          await refuses('INVALID_INPUT', () => store.delete(key));
        }
        for (const value of [undefined, 1n, Number.NaN, new Date(0), () => 1, { a: [new Map()] }]) {
          await refuses('INVALID_INPUT', () => store.set('a', value));
        }
        for (const ttlMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
          await refuses('INVALID_INPUT', () => store.set('a', 2, { ttlMs }));
        }
        assert.equal(await store.get('a'), 1);
      },
    },
    {
      title: 'times to live may be fractions and lifetimes',
      async run({ store }) {
        await store.set('fraction', 1, { ttlMs: 999_999.5 });
        await store.set('age', 2, { ttlMs: Number.MAX_VALUE });
        assert.deepEqual([await store.get('fraction'), await store.get('age')], [1, 2]);
      },
    },
  ],
};
