import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type ArtifactStore, folderArtifactStore } from 'millrace';
import { fileNameOf, idOfFileName } from 'millrace/internals';
import { artifactStoreContract } from 'millrace/testing';

const folder = mkdtempSync(join(tmpdir(), 'millrace-artifacts-'));
afterAll(() => rmSync(folder, { recursive: true }));
let made = 0;
const newPath = () => join(folder, String(made++));
const paths = new WeakMap<object, string>();

function open(path: string): ArtifactStore {
  const store = folderArtifactStore(path);
  paths.set(store, path);
  return store;
}

/** All files below a path. */
const filesIn = (path: string) =>
  readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(path.length + 1));

artifactStoreContract(
  {
    name: 'folderArtifactStore with a second instance on the same folder',
    createStore: () => open(newPath()),
    createPeer: (store) => open(paths.get(store) ?? ''),
  },
  { describe, it },
);

describe('folderArtifactStore', () => {
  it('makes nothing before the first write, and then only below its path', async () => {
    const path = newPath();
    const store = open(path);
    expect(await store.list()).toEqual({ artifacts: [] });
    expect(readdirSync(folder)).not.toContain(path.slice(folder.length + 1));
    const around = readdirSync(folder);
    await store.create({ artifactId: '..', name: '../../../escape', taskId: '..', contextId: '.', content: 'x' });
    expect(readdirSync(folder).filter((name) => !around.includes(name))).toEqual([path.slice(folder.length + 1)]);
    expect(filesIn(path).sort()).toEqual([
      'artifacts/5on0/1/content',
      'artifacts/5on0/1/info.json',
      'contexts/5o/5on0',
      'tasks/5on0/5on0',
    ]);
  });

  it('leaves no draft and no trash behind, whatever happened', async () => {
    const path = newPath();
    const store = open(path);
    await store.create({ artifactId: 'a', name: 'a', content: 'x' });
    await expect(store.create({ artifactId: 'a', name: 'a' })).rejects.toMatchObject({ code: 'CONFLICT' });
    await expect(store.update('a', { content: 'y' }, { version: 7 })).rejects.toMatchObject({ code: 'CONFLICT' });
    await store.append('a', 'never finished');
    await store.append('a', 'finished', { offset: 0, last: true });
    await store.create({ artifactId: 'b', name: 'b', taskId: 't', contextId: 'c' });
    await store.delete('b');
    expect(filesIn(path).filter((file) => !file.startsWith('artifacts/'))).toEqual([]);
    expect(readdirSync(join(path, 'tasks'))).toEqual([]);
  });

  it('keeps the newest versions, which share the content that did not change', async () => {
    const path = newPath();
    const store = folderArtifactStore(path, { keepVersions: 2 });
    await store.create({ artifactId: 'a', name: 'a', content: 'x' });
    for (const name of ['b', 'c', 'd']) await store.update('a', { name });
    expect(await store.describe('a', { version: 2 })).toBeNull();
    expect(await store.describe('a', { version: 3 })).toMatchObject({ name: 'c' });
    const versions = join(path, 'artifacts', fileNameOf('a'));
    expect(readdirSync(versions).sort()).toEqual(['3', '4']);
    const [three, four] = ['3', '4'].map((version) => statSync(join(versions, version, 'content')).ino);
    expect(three).toBe(four);
  });

  it('refuses a content that was changed or cut, and an info of another artifact, as POISON', async () => {
    const path = newPath();
    const store = open(path);
    for (const artifactId of ['changed', 'cut', 'swapped', 'garbled']) {
      await store.create({ artifactId, name: 'a', content: 'a content' });
    }
    const file = (id: string, name: string) => join(path, 'artifacts', fileNameOf(id), '1', name);
    writeFileSync(file('changed', 'content'), 'A content');
    writeFileSync(file('cut', 'content'), 'a con');
    writeFileSync(file('swapped', 'info.json'), readFileSync(file('cut', 'info.json')));
    writeFileSync(file('garbled', 'info.json'), '{"artifactId":"garbled"');
    for (const artifactId of ['changed', 'cut', 'swapped', 'garbled']) {
      await expect(store.get(artifactId)).rejects.toMatchObject({ code: 'POISON' });
    }
  });

  it('removes drafts and trash that nobody touched for a day, and no younger ones', async () => {
    const path = newPath();
    for (const name of ['drafts/old', 'drafts/young', 'trash/old']) mkdirSync(join(path, name), { recursive: true });
    for (const name of ['drafts/old', 'trash/old']) {
      writeFileSync(join(path, name, 'content'), 'x');
      for (const file of [join(path, name, 'content'), join(path, name)]) utimesSync(file, 1, 1);
    }
    await open(path).create({ name: 'a' });
    expect(readdirSync(join(path, 'drafts'))).toEqual(['young']);
    expect(readdirSync(join(path, 'trash'))).toEqual([]);
  });

  it('is UNAVAILABLE, retryable, where its folder cannot be, and goes on once it can', async () => {
    const path = newPath();
    writeFileSync(path, 'a file');
    const store = open(path);
    await expect(store.create({ artifactId: 'a', name: 'a' })).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      retryable: true,
      message: expect.stringContaining(path),
    });
    rmSync(path);
    expect(await store.create({ artifactId: 'a', name: 'a' })).toMatchObject({ version: 1 });
  });

  it.each([
    ['', '{}'],
    ['x', '{"keepVersions":0}'],
    ['x', '{"maxBytes":1}'],
    ['x', 'null'],
  ])('refuses %j with %s', (path, options) => {
    expect(() => folderArtifactStore(path, JSON.parse(options))).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG' }),
    );
  });
});

describe('fileNameOf', () => {
  const id = fc.string({ unit: fc.constantFrom(...'ABZabz019_.:-'), minLength: 1, maxLength: 128 });

  it('gives names that are safe on any file system, from which the id can be read', () => {
    fc.assert(
      fc.property(id, (given) => {
        expect(fileNameOf(given)).toMatch(/^[0-9a-v]{2,205}$/);
        expect(idOfFileName(fileNameOf(given))).toBe(given);
      }),
    );
  });

  it('keeps the order of the ids', () => {
    fc.assert(
      fc.property(id, id, (one, other) => {
        expect(fileNameOf(one) < fileNameOf(other)).toBe(one < other);
      }),
    );
  });
});
