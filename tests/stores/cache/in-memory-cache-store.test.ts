import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { InMemoryCacheStore } from 'millrace';
import { fakeClock } from 'millrace/testing';
import type { InMemoryCacheStoreOptions } from 'millrace/types';

describe('InMemoryCacheStore', () => {
  it('gives back what was set, as a value of its own', () => {
    const store = new InMemoryCacheStore();
    const value = { list: [1, 'two', null], deep: { yes: true } };
    store.set('key', value);
    const got = store.get('key');
    expect(got).toEqual(value);
    expect(got).not.toBe(value);
    value.list.push(4);
    expect(store.get('key')).toEqual({ list: [1, 'two', null], deep: { yes: true } });
  });

  it('gives undefined for what is not there, was deleted or is over', () => {
    const clock = fakeClock();
    const store = new InMemoryCacheStore({ clock });
    store.set('gone', 1);
    store.delete('gone');
    store.delete('never');
    store.set('short', 1, { ttlMs: 10 });
    clock.advance(9);
    expect(store.get('short')).toBe(1);
    clock.advance(1);
    expect([store.get('short'), store.get('gone'), store.get('never')]).toEqual([undefined, undefined, undefined]);
    expect(store.size).toEqual({ entries: 0, bytes: 0 });
  });

  it('counts the time of the last set', () => {
    const clock = fakeClock();
    const store = new InMemoryCacheStore({ clock });
    store.set('key', 1, { ttlMs: 10 });
    store.set('key', 2);
    clock.advance(1_000_000);
    expect(store.get('key')).toBe(2);
  });

  it('lets go of what was not used for the longest time', () => {
    const store = new InMemoryCacheStore({ maxEntries: 2 });
    store.set('a', 1);
    store.set('b', 2);
    store.get('a');
    store.set('c', 3);
    expect([store.get('a'), store.get('b'), store.get('c')]).toEqual([1, undefined, 3]);
  });

  it('does not keep a value that is larger than all it may hold, nor the one that stood there', () => {
    const store = new InMemoryCacheStore({ maxBytes: 20 });
    store.set('other', 1);
    store.set('key', 2);
    store.set('key', 'x'.repeat(30));
    expect([store.get('key'), store.get('other')]).toEqual([undefined, 1]);
  });

  it('never holds more than its limits, and always the entry that was set last', () => {
    const operation = fc.record({
      key: fc.constantFrom('a', 'bb', 'ccc', 'dddd'),
      value: fc.string({ maxLength: 12 }),
    });
    fc.assert(
      fc.property(fc.array(operation), fc.integer({ min: 1, max: 4 }), (operations, maxEntries) => {
        const maxBytes = 60;
        const store = new InMemoryCacheStore({ maxEntries, maxBytes });
        for (const { key, value } of operations) {
          store.set(key, value);
          const fits = Buffer.byteLength(key) + Buffer.byteLength(JSON.stringify(value)) <= maxBytes;
          expect(store.get(key)).toBe(fits ? value : undefined);
          expect(store.size.entries).toBeLessThanOrEqual(maxEntries);
          expect(store.size.bytes).toBeLessThanOrEqual(maxBytes);
        }
      }),
    );
  });

  it.each<[string, () => unknown, RegExp]>([
    ['an empty key', () => new InMemoryCacheStore().get(''), /not ""/],
    ['a long key', () => new InMemoryCacheStore().delete('k'.repeat(513)), /one of 513 characters/],
    ['what JSON would lose', () => new InMemoryCacheStore().set('k', { at: Number.NaN }), /the value\.at is NaN/],
    ['no time', () => new InMemoryCacheStore().set('k', 1, { ttlMs: 0 }), /ttlMs is 0/],
  ])('refuses %s', (_, give, message) => {
    expect(give).toThrow(expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringMatching(message) }));
  });

  it.each<[object, RegExp]>([
    [{ maxEntries: 0 }, /maxEntries must .*, not 0/],
    [{ maxBytes: Number.NaN }, /maxBytes must .*, not NaN/],
    [{ maxSize: 1 }, /no option "maxSize"; the options are: maxEntries, maxBytes, clock/],
  ])('refuses the options %j', (options: InMemoryCacheStoreOptions, message) => {
    expect(() => new InMemoryCacheStore(options)).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) }),
    );
  });
});
