import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import type { ArtifactStore, MaybePromise, NewArtifact } from '../core/contracts/index.ts';
import {
  type ArtifactCases,
  type ArtifactStoreUnderTest,
  artifactCases,
  artifactListCases,
  bytesRead,
  randomChunks,
  sha256Of,
  textIn,
  versionCases,
} from './artifact-store-contract/artifact-cases.ts';
import {
  type ContractRunner,
  defineContract,
  type NamedHarness,
  notOptions,
  notText,
  refuses,
  refusesWrongArguments,
  type WrongArguments,
  withPair,
} from './contract/define-contract.ts';

/** How the suite gets at the store that it examines. */
export interface ArtifactStoreContractHarness extends NamedHarness {
  /** Called before each case; the store has to be empty, and keep at least 5 versions of an artifact. */
  createStore(): MaybePromise<ArtifactStore>;
  /** A second instance over the same data, as another process has it. Default: the same instance. */
  createPeer?(store: ArtifactStore): MaybePromise<ArtifactStore>;
  /** Called after each case, for the peer before the store. */
  dispose?(store: ArtifactStore): MaybePromise<void>;
  /** How large the largest content of the suite is, in bytes. Default 8 MiB. */
  readonly largeBytes?: number;
}

/**
 * Defines the contract of `ArtifactStore` as tests of `runner`: contents come back byte for byte, whole, and in their versions. Each
 * case gets its own, empty store. Titles are stable. Errors with `INVALID_CONFIG` where `deviations` names no case.
 */
export function artifactStoreContract(harness: ArtifactStoreContractHarness, runner: ContractRunner): void {
  const { largeBytes = 8 * 1024 * 1024 } = harness;
  const examine = async (run: (subject: ArtifactStoreUnderTest) => Promise<void>): Promise<void> => {
    const newId = () => `id-${randomUUID()}`;
    await withPair(harness, await harness.createStore(), (pair) => run({ ...pair, newId, largeBytes }));
  };
  const groups = [artifactCases, versionCases, draftCases, artifactListCases, artifactInputCases];
  defineContract({ of: 'ArtifactStore', groups, examine }, harness, runner);
}

const draftCases: ArtifactCases = {
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

const badIds = ['', ' ', 'a b', '../x', 'a/b', '..\\x', '/etc/passwd', 'ä', 'a\n', 'a\0', '%2e%2e', 'x'.repeat(129)];

const oddIds = ['.', '..', '...', '-', ':', 'CON', 'A', 'a', 'x'.repeat(128), '__proto__', 'constructor'];

/** An artifact as it comes from a caller that no compiler checks. */
function unchecked(json: string): NewArtifact {
  return JSON.parse(json);
}

const artifactInputCases: ArtifactCases = {
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
