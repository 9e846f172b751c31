import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { openStore, storeSettings, storeWarnings } from 'millrace/internals';
import { temporaryFolder } from './tools/temporary-folder.ts';

const folder = temporaryFolder({ file: 'no folder', 'mine/notes.txt': 'mine' });
afterAll(() => folder.remove());

const lmdb = (path: string) => storeSettings({ store: `lmdb:${join(folder.path, path)}` }, {});

describe('openStore', () => {
  it('makes a folder of journals that git leaves alone, and closes it', async () => {
    const { store, durable, close } = await openStore(lmdb('new/deep'));
    expect([durable, await store.list()]).toEqual([true, []]);
    expect(readFileSync(join(folder.path, 'new/deep/.gitignore'), 'utf8')).toBe('*\n');
    await close();
    expect(() => store.list()).toThrow(expect.objectContaining({ code: 'UNAVAILABLE' }));
  });

  it('puts nothing else into a folder that was there', async () => {
    await (await openStore(lmdb('mine'))).close();
    expect(existsSync(join(folder.path, 'mine/.gitignore'))).toBe(false);
  });

  it('a folder that cannot be made: one sentence with the folder, the reason and the ways out', async () => {
    const path = join(folder.path, 'file', 'below');
    await expect(openStore(lmdb('file/below'))).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringMatching(
        new RegExp(
          `^the journals of turns cannot be kept in ${path}: (Error: )?ENOTDIR: .*--store lmdb:FOLDER.*--store memory`,
        ),
      ),
    });
  });

  it('memory needs no folder and no warning', async () => {
    const opened = await openStore(storeSettings({ store: 'memory' }, {}));
    expect([opened.durable, await storeWarnings(opened)]).toEqual([false, []]);
    await opened.close();
  });
});
