import assert from 'node:assert/strict';
import { refuses } from '../store-contract/expectations.ts';
import { type ArtifactCases, bytesRead, sha256Of, textIn } from './artifact-case.ts';

export const versionCases: ArtifactCases = {
  name: 'versions',
  cases: [
    {
      title: 'an update makes a new version; older ones stay as they were',
      async run({ store, peer, newId }) {
        const artifactId = newId();
        const first = await store.create({ artifactId, name: 'a', content: 'one', taskId: 't' });
        const second = await peer.update(artifactId, { content: 'two!', name: 'b', metadata: { a: 1 } });
        const change = { version: 2, name: 'b', metadata: { a: 1 }, size: 4, sha256: sha256Of('two!') };
        assert.deepEqual(second, { ...first, ...change, updatedAt: second.updatedAt });
        assert.ok(second.updatedAt >= first.updatedAt);
        assert.deepEqual(await store.describe(artifactId), second);
        assert.deepEqual(await peer.describe(artifactId, { version: 1 }), first);
        assert.equal(await textIn(store, artifactId, 1), 'one');
        assert.equal(String(await bytesRead(store, artifactId, 1)), 'one');
        assert.equal(await textIn(store, artifactId), 'two!');
        assert.equal(await store.get(artifactId, { version: 3 }), null);
      },
    },
    {
      title: 'what an update leaves out stays: the content, or what is known of it',
      async run({ store, peer, newId }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'a', mediaType: 'text/html', content: 'x', metadata: { a: 1 } });
        const { name, mediaType, metadata } = await store.update(artifactId, { content: 'y' });
        assert.deepEqual({ name, mediaType, metadata }, { name: 'a', mediaType: 'text/html', metadata: { a: 1 } });
        const renamed = await peer.update(artifactId, { name: 'b' });
        assert.deepEqual([renamed.version, renamed.size, renamed.sha256], [3, 1, sha256Of('y')]);
        assert.equal(await textIn(store, artifactId), 'y');
        assert.deepEqual((await store.update(artifactId, { metadata: {} })).metadata, {});
      },
    },
    {
      title: 'an update that names an old version is a CONFLICT and changes nothing',
      async run({ store, peer, newId }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'a', content: 'one' });
        await peer.update(artifactId, { content: 'two' }, { version: 1 });
        for (const change of [{ content: 'three' }, { name: 'b' }]) {
          await refuses('CONFLICT', () => store.update(artifactId, change, { version: 1 }));
        }
        const { version, name } = (await store.describe(artifactId)) ?? {};
        assert.deepEqual({ version, name }, { version: 2, name: 'a' });
        assert.equal(await textIn(store, artifactId), 'two');
      },
    },
    {
      title: 'of several that update the same version at once exactly one does',
      async run({ store, peer, newId }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'a', content: 'start' });
        const update = async (content: string, index: number) =>
          (index % 2 ? store : peer).update(artifactId, { content }, { version: 1 });
        const outcomes = await Promise.allSettled(['a', 'b', 'c', 'd', 'e', 'f'].map(update));
        assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
        assert.equal((await store.describe(artifactId))?.version, 2);
      },
    },
    {
      title: 'of several that update at once, whatever the version, each makes one',
      async run({ store, peer, newId }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'a', content: 'start' });
        const names = ['a', 'b', 'c', 'd'];
        const update = async (content: string, index: number) =>
          (index % 2 ? store : peer).update(artifactId, { content });
        const infos = await Promise.all(names.map(update));
        assert.deepEqual(infos.map(({ version }) => version).sort(), [2, 3, 4, 5]);
        for (const [index, { version }] of infos.entries()) {
          assert.equal(await textIn(store, artifactId, version), names[index]);
        }
      },
    },
    {
      title: 'a reader gets the version that it began with, also where a newer one comes meanwhile',
      async run({ store, peer, newId }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'a', content: 'o'.repeat(300_000) });
        const chunks: Uint8Array[] = [];
        for await (const chunk of store.read(artifactId)) {
          if (chunks.length === 0) await peer.update(artifactId, { content: 'n'.repeat(300_000) });
          chunks.push(chunk);
        }
        assert.equal(Buffer.concat(chunks).toString(), 'o'.repeat(300_000));
      },
    },
  ],
};
