import { describe, expect, it } from '@jest/globals';
import { InMemoryArtifactStore } from 'millrace';
import { artifactStoreContract } from 'millrace/testing';
import { runSuite } from '../../contract/run-contract.ts';

const full = expect.objectContaining({ code: 'FULL' });

describe('InMemoryArtifactStore', () => {
  it('S1-90 creates, updates, gets, lists and deletes, as every case of the contract asks', async () => {
    const { passed, failed } = await runSuite((runner) =>
      artifactStoreContract({ name: 'memory', createStore: () => new InMemoryArtifactStore() }, runner),
    );
    expect([...failed]).toEqual([]);
    expect(passed.length).toBeGreaterThan(20);
    const store = new InMemoryArtifactStore();
    store.create({ artifactId: 'a', name: 'a', taskId: 't', content: 'one' });
    store.update('a', { content: 'two' });
    expect(Buffer.from(store.get('a')?.content ?? []).toString()).toBe('two');
    expect(store.list({ taskId: 't' }).artifacts).toMatchObject([{ artifactId: 'a', version: 2 }]);
    store.delete('a');
    expect(store.get('a')).toBeNull();
  });

  it('refuses as FULL what goes beyond maxBytes, keeps nothing of it, and takes as much again once something is deleted', () => {
    const store = new InMemoryArtifactStore({ maxBytes: 10 });
    store.create({ artifactId: 'a', name: 'a', content: '12345678' });
    expect(() => store.create({ artifactId: 'b', name: 'b', content: '123' })).toThrow(full);
    expect(store.get('b')).toBeNull();
    expect(() => store.update('a', { content: '123' })).toThrow(full);
    expect(store.describe('a')).toMatchObject({ version: 1 });
    expect(store.append('a', '1')).toEqual({ size: 1 });
    expect(() => store.append('a', '12')).toThrow(full);
    expect(store.append('a', '12')).toEqual({ size: 2 });
    store.delete('a');
    expect(store.create({ artifactId: 'c', name: 'c', content: '1234567890' })).toMatchObject({ size: 10 });
  });

  it('keeps the newest versions, and counts no others', () => {
    const store = new InMemoryArtifactStore({ maxBytes: 30, keepVersions: 2 });
    store.create({ artifactId: 'a', name: 'a', content: '0123456789' });
    for (let round = 0; round < 20; round++) store.update('a', { content: `content-${round % 10}.` });
    expect([19, 20, 21].map((version) => store.describe('a', { version })?.version)).toEqual([undefined, 20, 21]);
  });

  it.each([{ maxBytes: 0 }, { maxBytes: Number.NaN }, { keepVersions: 0 }, { keepVersions: 1.5 }, { maxSize: 1 }])(
    'refuses %j',
    (options) => {
      expect(() => new InMemoryArtifactStore(options)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
    },
  );
});
