import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { builtInTools, Workspace } from 'millrace/internals';
import { thrownBy } from '../../tools/thrown.ts';
import { toolCall, toolContext } from '../../tools/tool-context.ts';
import { temporaryFolder } from './temporary-folder.ts';

const outer = temporaryFolder({
  'secret.txt': 'outside',
  'root-twin/secret.txt': 'outside',
  'root/a.txt': 'inside a',
  'root/sub/b.txt': 'inside b',
  'root/..dots/c.txt': 'inside c',
  'root/box/secret.txt': 'inside',
});
const root = join(outer.path, 'root');
const workspace = new Workspace({ root });

beforeAll(() => {
  symlinkSync(join(outer.path, 'secret.txt'), join(root, 'link-out'));
  symlinkSync('../secret.txt', join(root, 'sub', 'relative-out'));
  symlinkSync(outer.path, join(root, 'folder-out'));
  symlinkSync(join(root, 'sub'), join(root, 'folder-in'));
  symlinkSync('a.txt', join(root, 'link-in'));
  symlinkSync('gone', join(root, 'dangling'));
  symlinkSync('loop', join(root, 'loop'));
  symlinkSync('folder-out', join(root, 'chain'));
  execFileSync('/usr/bin/mkfifo', [join(root, 'pipe')]);
});

afterAll(() => outer.remove());

async function text(path: string): Promise<string> {
  return Buffer.from((await workspace.read(path, { offset: 0, length: 100 })).bytes).toString();
}

describe('Workspace', () => {
  const inside: readonly (readonly [path: string, content: string])[] = [
    ['a.txt', 'inside a'],
    ['./sub/../a.txt', 'inside a'],
    ['sub//b.txt', 'inside b'],
    ['..dots/c.txt', 'inside c'],
    ['link-in', 'inside a'],
    ['folder-in/b.txt', 'inside b'],
  ];

  it.each(inside)('reads %s', async (path, content) => {
    expect(await text(path)).toBe(content);
  });

  const outside: readonly (readonly [path: string, message: string])[] = [
    ['../secret.txt', '"../secret.txt" leads out of the working folder; only what is in it can be read.'],
    ['..', 'leads out of the working folder'],
    ['sub/../../secret.txt', 'leads out of the working folder'],
    ['../root-twin/secret.txt', 'leads out of the working folder'],
    ['link-out', '"link-out" leads out of the working folder'],
    ['sub/relative-out', 'there is no "sub/relative-out"'],
    ['folder-out', 'leads out of the working folder'],
    ['folder-out/secret.txt', 'leads out of the working folder'],
    ['chain/secret.txt', 'leads out of the working folder'],
    ['/etc/passwd', '"/etc/passwd" is absolute; give a path relative to the working folder.'],
    [join(root, 'a.txt'), 'is absolute; give a path relative'],
    ['a.txt\0.png', 'a path cannot hold a NUL byte'],
    ['\0', 'NUL byte'],
    ['dangling', 'there is no "dangling" in the working folder; list_files lists its files.'],
    ['loop', '"loop" cannot be read (ELOOP)'],
    ['absent/b.txt', 'there is no "absent/b.txt"'],
    ['a.txt/b', 'there is no "a.txt/b"'],
    ['sub', '"sub" is a folder; list_files shows what is in it.'],
    ['pipe', '"pipe" is not a regular file.'],
    ['x'.repeat(5_000), 'cannot be read (ENAMETOOLONG)'],
  ];

  it.each(outside)('refuses to read %j', async (path, message) => {
    const error = await thrownBy(() => text(path));
    expect(error.code).toBe('TOOL_FAILED');
    expect(error.message.toLowerCase()).toContain(message.toLowerCase());
    expect(error.message).not.toContain(path.startsWith(root) ? 'outside' : outer.path);
  });

  it.each(['..', '../root-twin', 'folder-out', 'chain', '/', '\0'])('refuses to list %j', async (path) => {
    await expect(workspace.list(path)).rejects.toThrow(/leads out|is absolute|NUL/);
  });

  it('lists by name, without following links', async () => {
    expect(await workspace.list('.')).toEqual([
      { name: '..dots', kind: 'folder' },
      { name: 'a.txt', kind: 'file' },
      { name: 'box', kind: 'folder' },
      { name: 'chain', kind: 'other' },
      { name: 'dangling', kind: 'other' },
      { name: 'folder-in', kind: 'other' },
      { name: 'folder-out', kind: 'other' },
      { name: 'link-in', kind: 'other' },
      { name: 'link-out', kind: 'other' },
      { name: 'loop', kind: 'other' },
      { name: 'pipe', kind: 'other' },
      { name: 'sub', kind: 'folder' },
    ]);
    expect(await workspace.list('folder-in')).toEqual([
      { name: 'b.txt', kind: 'file' },
      { name: 'relative-out', kind: 'other' },
    ]);
    await expect(workspace.list('a.txt')).rejects.toThrow('"a.txt" is not a folder');
  });

  it('works below a root that is a link', async () => {
    const link = join(outer.path, 'link-to-root');
    symlinkSync(root, link);
    expect((await new Workspace({ root: link }).read('a.txt', { offset: 7, length: 9 })).bytes).toEqual(
      Buffer.from('a'),
    );
    await expect(new Workspace({ root: link }).read('../secret.txt', { offset: 0, length: 9 })).rejects.toThrow(
      'leads out',
    );
  });

  it('reads a part, and nothing of a file that is too large', async () => {
    const read = async (options: { offset: number; length: number; largest?: number }) => {
      const { bytes, size } = await workspace.read('a.txt', options);
      return [Buffer.from(bytes).toString(), size];
    };
    expect(await read({ offset: 2, length: 3 })).toEqual(['sid', 8]);
    expect(await read({ offset: 6, length: 10 })).toEqual([' a', 8]);
    expect(await read({ offset: 9, length: 10 })).toEqual(['', 8]);
    expect(await read({ offset: 0, length: 10, largest: 7 })).toEqual(['', 8]);
  });

  it('never reads outside, also while folders and links take each other’s place', async () => {
    const [box, away] = [join(root, 'box'), join(root, 'box-away')];
    let swaps = 0;
    let stop = false;
    const ticks = async (count: number) => {
      for (let tick = 0; tick < count; tick += 1) await new Promise(setImmediate);
    };
    const swapping = (async () => {
      while (!stop) {
        renameSync(box, away);
        symlinkSync(join(outer.path, 'root-twin'), box);
        await ticks(1 + (swaps % 5));
        unlinkSync(box);
        renameSync(away, box);
        await ticks(1 + (swaps % 17));
        swaps += 1;
      }
    })();
    const answers = new Set<string>();
    for (let round = 0; round < 400 || (!answers.has('inside') && round < 10_000); round += 1) {
      answers.add(
        await text('box/secret.txt').catch((thrown: unknown) =>
          String(thrown).replace(/.*(leads out|there is no).*/, '$1'),
        ),
      );
    }
    stop = true;
    await swapping;
    expect(swaps).toBeGreaterThan(10);
    expect(answers).not.toContain('outside');
    expect(answers).toContain('inside');
  });

  it('needs a folder', async () => {
    writeFileSync(join(outer.path, 'plain'), '');
    expect((await thrownBy(() => new Workspace({ root: join(outer.path, 'plain') }))).message).toContain(
      'is not a folder; name one.',
    );
    const absent = await thrownBy(() => new Workspace({ root: join(outer.path, 'absent') }));
    expect([absent.code, absent.message]).toEqual([
      'INVALID_CONFIG',
      `The working folder "${join(outer.path, 'absent')}" cannot be read; name one that exists.`,
    ]);
  });
});

describe('builtInTools', () => {
  it('offers five tools that have no effect outside', async () => {
    const definitions = await builtInTools({ workspace: { root } }).getTools();
    expect(definitions.map(({ function: { name } }) => name)).toEqual([
      'calculate',
      'current_time',
      'list_files',
      'read_file',
      'search_files',
    ]);
    expect(definitions.every(({ readOnly, onInDoubt }) => readOnly === true && onInDoubt === 'retry')).toBe(true);
  });

  it('runs each of them below its root', async () => {
    mkdirSync(join(root, 'empty'), { recursive: true });
    const tools = builtInTools({ workspace: { root }, clock: { now: () => 0, schedule: () => () => {} } });
    await tools.getTools();
    const run = async (name: string, args: unknown) =>
      (await tools.executeTool(toolCall(name, args), toolContext())).content;
    expect(await run('calculate', { expression: '6 * 7' })).toBe('42');
    expect(await run('current_time', { zone: 'UTC' })).toContain('1970-01-01T00:00:00+00:00');
    expect(await run('list_files', { path: 'empty' })).toBe('The folder is empty.');
    expect(await run('read_file', { path: 'a.txt' })).toBe('inside a');
    expect(await run('search_files', { query: 'inside B' })).toBe('sub/b.txt:1: inside b');
  });
});
