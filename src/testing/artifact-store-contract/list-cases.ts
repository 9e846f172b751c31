import assert from 'node:assert/strict';
import type { ArtifactQuery, ArtifactStore } from '../../core/contracts/index.ts';
import type { ArtifactCases } from './artifact-case.ts';

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
