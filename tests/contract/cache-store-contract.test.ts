import { describe, expect, it } from '@jest/globals';
import { type CacheStore, InMemoryCacheStore } from 'millrace';
import { cacheStoreContract } from 'millrace/testing';
import type { CacheSetOptions } from 'millrace/types';
import { runSuite } from './run-contract.ts';

class NeverEnds extends InMemoryCacheStore {
  override set(key: string, value: unknown, options: CacheSetOptions = {}): void {
    super.set(key, value, options);
    super.set(key, value);
  }
}

class EndsAsBefore extends InMemoryCacheStore {
  readonly #times = new Map<string, CacheSetOptions>();
  override set(key: string, value: unknown, options: CacheSetOptions = {}): void {
    super.set(key, value, options);
    if (options.ttlMs !== undefined) this.#times.set(key, options);
    super.set(key, value, this.#times.get(key) ?? {});
  }
}

class FirstStays extends InMemoryCacheStore {
  override set(key: string, value: unknown, options: CacheSetOptions = {}): void {
    if (super.get(key) === undefined) super.set(key, value, options);
  }
}

class ShortKeys extends InMemoryCacheStore {
  override get(key: string): unknown {
    super.get(key);
    return super.get(key.slice(0, 100));
  }
  override set(key: string, value: unknown, options: CacheSetOptions = {}): void {
    super.set(key, value, options);
    super.set(key.slice(0, 100), value, options);
  }
}

class ByReference implements CacheStore {
  readonly #values = new Map<string, unknown>();
  get = (key: string): unknown => this.#values.get(key);
  set = (key: string, value: unknown): void => void this.#values.set(key, value);
  delete = (key: string): void => void this.#values.delete(key);
}

class KeepsDeleted extends InMemoryCacheStore {
  override delete(key: string): void {
    super.get(key);
  }
}

/** What is wrong, and the case that has to notice. */
const broken: readonly (readonly [
  name: string,
  make: typeof InMemoryCacheStore | typeof ByReference,
  title: string,
])[] = [
  ['NeverEnds', NeverEnds, 'a value with a time to live is given until that is over, and not after it'],
  ['EndsAsBefore', EndsAsBefore, 'a value that is set again has the time to live of the later one'],
  ['FirstStays', FirstStays, 'of two values the later one counts, and a deleted one is gone'],
  ['KeepsDeleted', KeepsDeleted, 'of two values the later one counts, and a deleted one is gone'],
  ['ShortKeys', ShortKeys, 'every text of 1 to 512 characters is a key of its own'],
  ['ByReference', ByReference, 'what the caller does to its own objects changes nothing in the store'],
];

describe('cacheStoreContract', () => {
  it.each(broken)('notices %s', async (_, Store, title) => {
    const harness = {
      name: 'broken',
      createStore: (options: ConstructorParameters<typeof InMemoryCacheStore>[0]) => new Store(options),
    };
    const { failed } = await runSuite((runner) => cacheStoreContract(harness, runner));
    expect([...failed.keys()]).toContain(title);
  });
});
