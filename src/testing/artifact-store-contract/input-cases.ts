import assert from 'node:assert/strict';
import type { ArtifactStore, NewArtifact } from '../../core/contracts/index.ts';
import { notOptions, notText, refusesWrongArguments, type WrongArguments } from '../contract/wrong-arguments.ts';
import { refuses } from '../store-contract/expectations.ts';
import { type ArtifactCases, bytesRead, textIn } from './artifact-case.ts';

const badIds = ['', ' ', 'a b', '../x', 'a/b', '..\\x', '/etc/passwd', 'ä', 'a\n', 'a\0', '%2e%2e', 'x'.repeat(129)];
const oddIds = ['.', '..', '...', '-', ':', 'CON', 'A', 'a', 'x'.repeat(128), '__proto__', 'constructor'];

/** An artifact as it comes from a caller that no compiler checks. */
function unchecked(json: string): NewArtifact {
  return JSON.parse(json);
}

export const artifactInputCases: ArtifactCases = {
  name: 'input',
  cases: [
    {
      title: 'H-07 arguments of another type are refused as INVALID_INPUT, and change nothing',
      async run({ store, newId }) {
        const artifactId = newId();
        const before = await store.create({ artifactId, name: 'a', content: 'x', taskId: 't1' });
        const ids = notText.map((bad) => [bad]);
        const versions = [...ids, ...notOptions.map((bad) => [artifactId, bad]), [artifactId, { version: '1' }]];
        const calls: WrongArguments<ArtifactStore> = {
          create: [[], [null], ['a'], [{}], [{ name: 'b', taskId: 7 }], [{ name: 'b', artifactId: null }]],
          update: [
            ...notText.map((bad) => [bad, { name: 'b' }]),
            [artifactId],
            [artifactId, 'b'],
            [artifactId, { name: 7 }],
            [artifactId, { name: 'b' }, 1],
            [artifactId, { name: 'b' }, { versoin: 1 }],
          ],
          append: [
            ...notText.map((bad) => [bad, 'x']),
            ...[undefined, null, 7, {}, [1]].map((bad) => [artifactId, bad]),
            [artifactId, 'x', true],
            [artifactId, 'x', { last: 'yes' }],
            [artifactId, 'x', { offset: '0' }],
          ],
          describe: versions,
          get: versions,
          read: versions,
          list: [
            ...notOptions.map((bad) => [bad]),
            [{ taskId: 7 }],
            [{ contextId: null }],
            [{ limit: '5' }],
            [{ after: 1 }],
          ],
          delete: ids,
        };
        await refusesWrongArguments(store, calls);
        assert.deepEqual(await store.list(), { artifacts: [before] });
      },
    },
    {
      title: 'ids outside the pattern are refused as INVALID_INPUT, whatever is asked',
      async run({ store }) {
        for (const id of badIds) {
          await refuses('INVALID_INPUT', () => store.create({ artifactId: id, name: 'a' }));
          await refuses('INVALID_INPUT', () => store.create({ name: 'a', taskId: id }));
          await refuses('INVALID_INPUT', () => store.create({ name: 'a', contextId: id }));
          await refuses('INVALID_INPUT', () => store.update(id, { name: 'b' }));
          await refuses('INVALID_INPUT', () => store.append(id, 'x'));
          await refuses('INVALID_INPUT', () => store.get(id));
          await refuses('INVALID_INPUT', () => store.describe(id));
          await refuses('INVALID_INPUT', () => bytesRead(store, id));
          await refuses('INVALID_INPUT', () => store.delete(id));
          await refuses('INVALID_INPUT', () => store.list({ taskId: id }));
          await refuses('INVALID_INPUT', () => store.list({ contextId: id }));
        }
        assert.deepEqual(await store.list(), { artifacts: [] });
      },
    },
    {
      title: 'every id of the pattern can be used, and ids that differ in case are two',
      async run({ store, peer }) {
        for (const id of oddIds)
          await store.create({ artifactId: id, name: 'x', content: id, taskId: id, contextId: id });
        for (const id of oddIds) {
          assert.equal(await textIn(peer, id), id);
          assert.equal((await peer.list({ taskId: id, contextId: id })).artifacts.length, 1);
        }
      },
    },
    {
      title: 'names, media types, metadata and contents of another form are refused as INVALID_INPUT',
      async run({ store, newId }) {
        const bad = [
          '{}',
          '{"name":""}',
          '{"name":7}',
          '{"name":"a\\nb"}',
          `{"name":"${'x'.repeat(256)}"}`,
          '{"name":"a","mediaType":"markdown"}',
          '{"name":"a","mediaType":"a/b\\nX: y"}',
          '{"name":"a","mediaType":null}',
          '{"name":"a","metadata":[]}',
          '{"name":"a","metadata":null}',
          '{"name":"a","content":{"0":1}}',
          '{"name":"a","content":null}',
          'null',
        ];
        for (const json of bad) await refuses('INVALID_INPUT', () => store.create(unchecked(json)));
        await refuses('INVALID_INPUT', () => store.create({ name: 'a', metadata: { when: new Date(0) } }));
        const artifactId = newId();
        await store.create({ artifactId, name: 'a', content: 'x' });
        for (const json of ['{"name":""}', '{"mediaType":"x"}', '{"metadata":7}', '{"content":7}']) {
          await refuses('INVALID_INPUT', () => store.update(artifactId, unchecked(json)));
        }
        assert.equal((await store.describe(artifactId))?.version, 1);
      },
    },
    {
      title: 'versions, offsets and limits that are no whole numbers are refused as INVALID_INPUT',
      async run({ store, newId }) {
        const artifactId = newId();
        await store.create({ artifactId, name: 'a' });
        for (const number of [-1, 1.5, Number.NaN]) {
          await refuses('INVALID_INPUT', () => store.get(artifactId, { version: number }));
          await refuses('INVALID_INPUT', () => store.describe(artifactId, { version: number }));
          await refuses('INVALID_INPUT', () => bytesRead(store, artifactId, number));
          await refuses('INVALID_INPUT', () => store.update(artifactId, {}, { version: number }));
          await refuses('INVALID_INPUT', () => store.append(artifactId, 'x', { offset: number }));
          await refuses('INVALID_INPUT', () => store.list({ limit: number }));
        }
      },
    },
  ],
};
