import assert from 'node:assert/strict';
import { refuses } from '../store-contract/expectations.ts';
import { type ArtifactCases, bytesRead, sha256Of, textIn } from './artifact-case.ts';

const everyByte = Uint8Array.from({ length: 70_000 }, (_, index) => index % 256);

export const artifactCases: ArtifactCases = {
  name: 'create, get, read and delete',
  cases: [
    {
      title: 'an artifact comes back as it was created, with what the store found out',
      async run({ store, peer, newId }) {
        const artifactId = newId();
        const given = {
          artifactId,
          name: 'Report ä 🐘.md',
          mediaType: 'text/markdown; charset=utf-8',
          taskId: 'task-1',
          contextId: 'context-1',
          metadata: { by: 'me', deep: [1.5, null, { '': true }] },
        };
        const info = await store.create({ ...given, content: '# Elephants 🐘\n' });
        const { createdAt, updatedAt, ...rest } = info;
        const found = { version: 1, size: 17, sha256: sha256Of('# Elephants 🐘\n') };
        assert.deepEqual(rest, { ...given, ...found });
        assert.equal(new Date(createdAt).toISOString(), createdAt);
        assert.equal(updatedAt, createdAt);
        assert.deepEqual(await peer.describe(artifactId), info);
        const artifact = await peer.get(artifactId);
        assert.deepEqual({ ...artifact, content: '' }, { ...info, content: '' });
        assert.equal(await textIn(peer, artifactId), '# Elephants 🐘\n');
      },
    },
    {
      title: 'contents come back byte for byte, whole and in chunks',
      async run({ store, peer, newId }) {
        for (const content of [everyByte, new Uint8Array(0), Uint8Array.of(0), Uint8Array.of(0xff, 0xfe)]) {
          const artifactId = newId();
          const { size, sha256 } = await store.create({ artifactId, name: 'a', content });
          assert.deepEqual({ size, sha256 }, { size: content.length, sha256: sha256Of(content) });
          assert.ok(Buffer.from(content).equals((await peer.get(artifactId))?.content ?? Buffer.of(1)));
          assert.ok(Buffer.from(content).equals(await bytesRead(peer, artifactId)));
        }
      },
    },
    {
      title: 'without a content it is empty, without a media type that of its content, without an id it gets its own',
      async run({ store }) {
        const [empty, text, bytes] = [
          await store.create({ name: 'empty' }),
          await store.create({ name: 'text', content: 'x' }),
          await store.create({ name: 'bytes', content: Uint8Array.of(1) }),
        ];
        assert.equal(new Set([empty, text, bytes].map(({ artifactId }) => artifactId)).size, 3);
        assert.deepEqual([empty.size, empty.sha256], [0, sha256Of('')]);
        const octets = 'application/octet-stream';
        assert.deepEqual(
          [empty, text, bytes].map(({ mediaType }) => mediaType),
          [octets, 'text/plain', octets],
        );
        assert.equal((await store.get(empty.artifactId))?.content.length, 0);
        assert.equal('taskId' in empty || 'contextId' in empty || 'metadata' in empty, false);
      },
    },
    {
      title: 'an id that is taken is a CONFLICT, and what stands there stays',
      async run({ store, peer, newId }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'first', content: 'first' });
        await refuses('CONFLICT', () => peer.create({ artifactId, name: 'second', content: 'second' }));
        assert.equal(await textIn(store, artifactId), 'first');
      },
    },
    {
      title: 'of several that create the same id at once exactly one does',
      async run({ store, peer, newId }) {
        const artifactId = newId();
        const create = async (name: string, index: number) =>
          (index % 2 ? store : peer).create({ artifactId, name, content: name });
        const names = ['a', 'b', 'c', 'd', 'e', 'f'];
        const outcomes = await Promise.allSettled(names.map(create));
        const winners = names.filter((_, index) => outcomes[index]?.status === 'fulfilled');
        assert.equal(winners.length, 1);
        for (const outcome of outcomes) {
          if (outcome.status === 'rejected') await refuses('CONFLICT', () => Promise.reject(outcome.reason));
        }
        assert.equal(await textIn(store, artifactId), winners[0]);
      },
    },
    {
      title: 'what the caller does to its own objects afterwards changes nothing',
      async run({ store, newId }) {
        const artifactId = newId();
        const content = Uint8Array.of(1, 2, 3);
        const metadata = { tags: ['a'] };
        const created = store.create({ artifactId, name: 'a', content, metadata });
        content.fill(9);
        metadata.tags.push('b');
        await created;
        const artifact = await store.get(artifactId);
        assert.deepEqual([...(artifact?.content ?? [])], [1, 2, 3]);
        assert.deepEqual(artifact?.metadata, { tags: ['a'] });
        artifact?.content.fill(8);
        assert.deepEqual([...((await store.get(artifactId))?.content ?? [])], [1, 2, 3]);
      },
    },
    {
      title: 'what is not there is null to get and describe, NOT_FOUND to all else',
      async run({ store, newId }) {
        const artifactId = newId();
        assert.equal(await store.get(artifactId), null);
        assert.equal(await store.describe(artifactId), null);
        await refuses('NOT_FOUND', () => store.update(artifactId, { name: 'a' }));
        await refuses('NOT_FOUND', () => store.append(artifactId, 'x', { last: true }));
        await refuses('NOT_FOUND', () => bytesRead(store, artifactId));
        await store.delete(artifactId);
      },
    },
    {
      title: 'a deleted artifact is gone with all its versions, and its id is free',
      async run({ store, peer, newId }) {
        const artifactId = newId();
        const of = { taskId: newId(), contextId: newId() };
        await store.create({ artifactId, name: 'a', content: 'one', ...of });
        await store.update(artifactId, { content: 'two' });
        await peer.delete(artifactId);
        for (const options of [{}, { version: 1 }, { version: 2 }]) {
          assert.equal(await store.get(artifactId, options), null);
        }
        assert.deepEqual(await store.list(of), { artifacts: [] });
        const { version } = await store.create({ artifactId, name: 'b', content: 'new' });
        assert.equal(version, 1);
        assert.equal(await textIn(peer, artifactId), 'new');
      },
    },
  ],
};
