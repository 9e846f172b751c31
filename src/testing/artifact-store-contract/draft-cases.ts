import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { refuses } from '../store-contract/expectations.ts';
import { type ArtifactCases, randomChunks, sha256Of, textIn } from './artifact-case.ts';

export const draftCases: ArtifactCases = {
  name: 'append',
  cases: [
    {
      title: 'chunks make up the content of the next version, which nobody sees before the last one',
      async run({ store, peer, newId }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'a', content: 'before' });
        assert.deepEqual(await store.append(artifactId, 'one '), { size: 4 });
        assert.deepEqual(await store.append(artifactId, Buffer.from('two ')), { size: 8 });
        assert.equal(await textIn(peer, artifactId), 'before');
        const { size, artifact } = await store.append(artifactId, 'three', { last: true });
        assert.equal(size, 13);
        assert.deepEqual(artifact, await peer.describe(artifactId));
        const { version, sha256 } = artifact ?? {};
        assert.deepEqual({ version, sha256 }, { version: 2, sha256: sha256Of('one two three') });
        assert.equal(await textIn(peer, artifactId), 'one two three');
        await store.append(artifactId, 'anew', { last: true });
        assert.equal(await textIn(peer, artifactId), 'anew');
      },
    },
    {
      title: 'chunks apply in the order of the calls, also those that nobody waited for',
      async run({ store, newId }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'a' });
        const chunks = Array.from({ length: 40 }, (_, index) => `${index},`);
        const append = async (chunk: string, index: number) =>
          store.append(artifactId, chunk, { last: index === chunks.length - 1 });
        await Promise.all(chunks.map(append));
        assert.equal(await textIn(store, artifactId), chunks.join(''));
      },
    },
    {
      title: 'a chunk may be the only one, and empty ones add nothing',
      async run({ store, newId }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'a', content: 'x' });
        assert.equal((await store.append(artifactId, 'only', { last: true })).artifact?.size, 4);
        await store.append(artifactId, 'a');
        await store.append(artifactId, '');
        await store.append(artifactId, '', { last: true });
        assert.equal(await textIn(store, artifactId), 'a');
        await store.append(artifactId, '', { last: true });
        assert.equal(await textIn(store, artifactId), '');
      },
    },
    {
      title: 'a chunk that does not follow the draft is a CONFLICT, and offset 0 starts over',
      async run({ store, newId }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'a' });
        await refuses('CONFLICT', () => store.append(artifactId, 'x', { offset: 3 }));
        await store.append(artifactId, 'wrong', { offset: 0 });
        await refuses('CONFLICT', () => store.append(artifactId, 'x', { offset: 4 }));
        assert.deepEqual(await store.append(artifactId, '!', { offset: 5 }), { size: 6 });
        await store.append(artifactId, 'right', { offset: 0 });
        await store.append(artifactId, '!', { offset: 5, last: true });
        assert.equal(await textIn(store, artifactId), 'right!');
      },
    },
    {
      title: 'what changes meanwhile stays: a draft replaces only the content',
      async run({ store, peer, newId }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'a', content: 'one' });
        await store.append(artifactId, 'drafted');
        await peer.update(artifactId, { name: 'renamed', content: 'two' });
        const { artifact } = await store.append(artifactId, '', { last: true });
        assert.deepEqual([artifact?.version, artifact?.name], [3, 'renamed']);
        assert.equal(await textIn(peer, artifactId, 2), 'two');
        assert.equal(await textIn(peer, artifactId), 'drafted');
      },
    },
    {
      title: 'a draft is deleted with its artifact',
      async run({ store, newId }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'a' });
        await store.append(artifactId, 'old ');
        await store.delete(artifactId);
        await refuses('NOT_FOUND', () => store.append(artifactId, 'x'));
        await store.create({ artifactId, name: 'a' });
        await store.append(artifactId, 'new', { last: true });
        assert.equal(await textIn(store, artifactId), 'new');
      },
    },
    {
      title: 'a large content that is written in chunks is read back in chunks, byte for byte',
      async run({ store, peer, newId, largeBytes }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'large' });
        const written = createHash('sha256');
        for (const chunk of randomChunks(largeBytes, 1_000_003)) {
          written.update(chunk);
          await store.append(artifactId, chunk);
        }
        const { artifact } = await store.append(artifactId, '', { last: true });
        const sha256 = written.digest('hex');
        assert.deepEqual([artifact?.size, artifact?.sha256], [largeBytes, sha256]);
        const read = createHash('sha256');
        let chunks = 0;
        for await (const chunk of peer.read(artifactId)) {
          read.update(chunk);
          chunks++;
        }
        assert.equal(read.digest('hex'), sha256);
        assert.ok(chunks > 1, 'it came in one chunk');
      },
    },
    {
      title: 'leaving a reader early leaves the content as it is',
      async run({ store, newId }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'a', content: 'x'.repeat(500_000) });
        for await (const chunk of store.read(artifactId)) {
          assert.ok(chunk.length > 0);
          break;
        }
        assert.equal((await store.get(artifactId))?.content.length, 500_000);
      },
    },
  ],
};
