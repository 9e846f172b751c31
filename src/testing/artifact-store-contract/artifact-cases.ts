import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { ArtifactQuery, ArtifactStore } from '../../core/contracts/index.ts';
import { type Pair, type PromiseGroup, refuses } from '../contract/define-contract.ts';

export interface ArtifactStoreUnderTest extends Pair<ArtifactStore> {
  newId(): string;
  /** How large the largest content is, in bytes. */
  readonly largeBytes: number;
}

export type ArtifactCases = PromiseGroup<ArtifactStoreUnderTest>;

export function sha256Of(content: Uint8Array | string): string {
  return createHash('sha256').update(content).digest('hex');
}

/** The content of an artifact as text; null where it is not there. */
export async function textIn(store: ArtifactStore, artifactId: string, version?: number): Promise<string | null> {
  const artifact = await store.get(artifactId, version === undefined ? {} : { version });
  return artifact === null ? null : Buffer.from(artifact.content).toString('utf8');
}

/** All chunks of a content, as one. */
export async function bytesRead(store: ArtifactStore, artifactId: string, version?: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of store.read(artifactId, version === undefined ? {} : { version })) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Chunks of bytes that look like chance and are the same for the same seed. */
export function* randomChunks(totalBytes: number, chunkBytes: number, seed = 1): Generator<Buffer> {
  let state = seed;
  for (let done = 0; done < totalBytes; done += chunkBytes) {
    const chunk = Buffer.alloc(Math.min(chunkBytes, totalBytes - done));
    for (let at = 0; at + 4 <= chunk.length; at += 4) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
      chunk.writeInt32LE(state, at);
    }
    yield chunk;
  }
}

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

async function idsOf(store: ArtifactStore, query: ArtifactQuery = {}): Promise<readonly string[]> {
  return (await store.list(query)).artifacts.map(({ artifactId }) => artifactId);
}

export const artifactListCases: ArtifactCases = {
  name: 'list',
  cases: [
    {
      title: 'artifacts are listed in their newest version, of a task, of a context, of both, or all',
      async run({ store, peer }) {
        assert.deepEqual(await store.list(), { artifacts: [] });
        await store.create({ artifactId: 'a', name: 'a', taskId: 't1', contextId: 'c1' });
        await store.create({ artifactId: 'b', name: 'b', taskId: 't2', contextId: 'c1' });
        await store.create({ artifactId: 'c', name: 'c', taskId: 't1', contextId: 'c2' });
        await store.create({ artifactId: 'd', name: 'd' });
        const updated = await store.update('a', { name: 'new' });
        assert.deepEqual((await peer.list({ limit: 1 })).artifacts, [updated]);
        assert.deepEqual(await idsOf(peer), ['a', 'b', 'c', 'd']);
        assert.deepEqual(await idsOf(peer, { taskId: 't1' }), ['a', 'c']);
        assert.deepEqual(await idsOf(peer, { contextId: 'c1' }), ['a', 'b']);
        assert.deepEqual(await idsOf(peer, { contextId: 'c2', taskId: 't1' }), ['c']);
        assert.deepEqual(await idsOf(peer, { contextId: 'c1', taskId: 't3' }), []);
        assert.deepEqual(await idsOf(peer, { taskId: 'c1' }), []);
      },
    },
    {
      title: 'pages have every artifact once, in the order of the ids',
      async run({ store, peer }) {
        const ids = ['Z', 'a', 'a-', 'a.', 'a0', 'a_', 'aa', 'b', '_', '0', '9:', ':', '..', '.', 'A'];
        for (const artifactId of ids) {
          await store.create({ artifactId, name: 'x', ...(artifactId < 'b' && { taskId: 't' }) });
        }
        for (const [query, expected] of [
          [{}, ids],
          [{ taskId: 't' }, ids.filter((id) => id < 'b')],
        ] as const) {
          const found: string[] = [];
          let pages = 0;
          for (let after: string | undefined = ''; after !== undefined; pages++) {
            const page = await peer.list({ ...query, limit: 4, ...(after !== '' && { after }) });
            found.push(...page.artifacts.map(({ artifactId }) => artifactId));
            after = page.next;
            assert.ok(pages < ids.length, 'the pages do not end');
          }
          assert.deepEqual(found, [...expected].sort());
          assert.equal(pages, Math.ceil(expected.length / 4));
        }
      },
    },
  ],
};
