import type { Clock, MaybePromise } from '../core/contracts/index.ts';
import type { CacheStore } from '../stores/cache/cache-store.ts';
import { type CacheStoreUnderTest, cacheCases } from './cache-store-contract/cache-cases.ts';
import { defineContract, type NamedHarness, withPair } from './contract/define-contract.ts';
import { fakeClock } from './fake-clock.ts';
import type { ContractRunner } from './store-contract.ts';

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
  /** How long the values of the suite live. Milliseconds; default 1,000. Short where `advance` waits. */
  readonly ttlMs?: number;
}

/**
 * Defines the contract of `CacheStore` as tests of `runner`. Each case gets its own, empty store. Titles are stable. Errors with
 * `INVALID_CONFIG` where `deviations` names no case.
 */
export function cacheStoreContract(harness: CacheStoreContractHarness, runner: ContractRunner): void {
  const { ttlMs = 1_000 } = harness;
  const examine = async (run: (subject: CacheStoreUnderTest) => Promise<void>): Promise<void> => {
    const clock = fakeClock();
    const advance = async (ms: number) => (harness.advance ? harness.advance(ms) : clock.advance(ms));
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
