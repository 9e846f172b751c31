import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { decodeText, listFilesTool, readFileTool, searchFilesTool, Workspace } from 'millrace/internals';
import { runTool } from './run-tool.ts';
import { temporaryFolder } from './temporary-folder.ts';

const needles = Array.from({ length: 150 }, (_, index) => `needle ${index}`).join('\n');
const many = Object.fromEntries(
  Array.from({ length: 300 }, (_, index) => [`many/f${String(index).padStart(3, '0')}.txt`, 'hay\n']),
);
const folder = temporaryFolder({
  'README.md': '# Title\n\nA Needle in line three.\r\nlast needle',
  'b/deep/code.ts': `const x = '${'y'.repeat(300)}needle${'z'.repeat(300)}';`,
  'b/a.txt': 'nothing',
  'node_modules/x/index.js': 'needle',
  '.git/config': 'needle',
  'b/dist/out.js': 'needle',
  '.env.example': 'needle=1',
  'picture.png': Buffer.from('needle\0needle'),
  'latin1.txt': Buffer.from([0x6e, 0xe9, 0x0a]),
  'big.txt': `needle${'x'.repeat(1_048_576)}`,
  'long/many.txt': needles,
  'empty.txt': '',
  'bom.txt': '\uFEFFbom needle',
  ...many,
});
const workspace = new Workspace({ root: folder.path });

beforeAll(() => {
  symlinkSync('README.md', join(folder.path, 'link.md'));
  symlinkSync('..', join(folder.path, 'b', 'up'));
});

afterAll(() => folder.remove());

describe('list_files', () => {
  const list = (args: object) => runTool(listFilesTool(workspace), args);

  it('lists names in their order, folders with a slash', async () => {
    expect(await list({ path: 'b' })).toBe('a.txt\ndeep/\ndist/\nup');
    expect((await list({})).split('\n')).toEqual(await list({ path: '.' }).then((text) => text.split('\n')));
    expect(await list({})).toContain('README.md\nb/\nbig.txt\n');
  });

  it('leaves out what is more than 500 entries', async () => {
    const full = temporaryFolder(
      Object.fromEntries(Array.from({ length: 503 }, (_, index) => [`f${String(index).padStart(3, '0')}`, ''])),
    );
    const lines = (await runTool(listFilesTool(new Workspace({ root: full.path })), {})).split('\n');
    full.remove();
    expect([lines.length, lines[499], lines[500]]).toEqual([501, 'f499', '[3 more are left out]']);
  });

  it('refuses a way out and arguments that it does not know', async () => {
    await expect(list({ path: '..' })).rejects.toThrow('leads out of the working folder');
    await expect(list({ folder: 'b' })).rejects.toThrow('arguments.folder is not a known argument');
  });
});

describe('read_file', () => {
  const read = (args: object) => runTool(readFileTool(workspace), args);

  it('reads a file, without a byte order mark', async () => {
    expect(await read({ path: 'README.md' })).toBe('# Title\n\nA Needle in line three.\r\nlast needle');
    expect(await read({ path: 'bom.txt' })).toBe('bom needle');
    expect(await read({ path: 'empty.txt' })).toBe('');
  });

  it('reads a long file piece by piece, cutting no character', async () => {
    const text = Array.from({ length: 9_000 }, (_, index) => `${index}: äß漢字🎉\n`).join('');
    writeFileSync(join(folder.path, 'long.txt'), text);
    let together = '';
    let offset: number | undefined = 0;
    let pieces = 0;
    while (offset !== undefined) {
      const piece: string = await read({ path: 'long.txt', offset });
      const note: RegExpExecArray | null = /\n\[bytes (\d+) to (\d+) of (\d+); continue with offset (\d+)\]$/.exec(
        piece,
      );
      together += note === null ? piece : piece.slice(0, note.index);
      if (note !== null) expect(Number(note[1])).toBe(offset);
      offset = note === null ? undefined : Number(note[4]);
      pieces += 1;
    }
    expect(together).toBe(text);
    expect(pieces).toBe(Math.ceil(Buffer.byteLength(text) / 32_768));
  });

  it('starts at the next whole character', async () => {
    writeFileSync(join(folder.path, 'umlaut.txt'), 'ä漢x');
    expect(await read({ path: 'umlaut.txt', offset: 1 })).toBe('漢x');
    expect(await read({ path: 'umlaut.txt', offset: 4 })).toBe('x');
    expect(await read({ path: 'umlaut.txt', offset: 6 })).toBe('');
  });

  const refused: readonly (readonly [args: object, message: string])[] = [
    [{ path: 'picture.png' }, '"picture.png" is not a text file; only UTF-8 text can be read.'],
    [{ path: 'latin1.txt' }, 'is not a text file'],
    [{ path: 'empty.txt', offset: 1 }, '"empty.txt" has 0 bytes; offset 1 is past its end.'],
    [{ path: 'absent.txt' }, 'is no "absent.txt" in the working folder'],
    [{ path: 'b' }, '"b" is a folder'],
    [{ path: '../x' }, 'leads out'],
    [{ path: '' }, 'arguments.path must NOT have fewer than 1 characters'],
    [{ path: 'b', offset: -1 }, 'arguments.offset must be >= 0'],
    [{ path: 'b', offset: 0.5 }, 'arguments.offset must be integer'],
    [{}, 'arguments.path is required'],
  ];

  it.each(refused)('refuses %j', async (args, message) => {
    await expect(read(args)).rejects.toThrow(message);
  });
});

describe('search_files', () => {
  const search = (args: object, changes = {}) => runTool(searchFilesTool(workspace), args, changes);

  it('gives file, line and text, in any case, in the order of the names', async () => {
    const lines = (await search({ query: 'needle' })).split('\n');
    expect(lines.slice(0, 3)).toEqual([
      'README.md:3: A Needle in line three.',
      'README.md:4: last needle',
      'bom.txt:1: bom needle',
    ]);
    expect(lines[3]).toMatch(/^b\/deep\/code\.ts:1: …y+needlez+…$/);
    expect(lines[3]?.length).toBeLessThan(230);
    expect(lines[4]).toBe('long/many.txt:1: needle 0');
  });

  it('skips node_modules, dist, private, binary and big files, and links', async () => {
    const found = await search({ query: 'needle' });
    for (const skipped of ['node_modules', '.git/', '.env', 'dist', 'picture.png', 'big.txt', 'link.md', 'b/up']) {
      expect(found).not.toContain(skipped);
    }
  });

  it('stops after 100 lines and says so', async () => {
    const lines = (await search({ query: 'needle', path: 'long' })).split('\n');
    expect([lines.length, lines[99], lines[100]]).toEqual([
      101,
      'long/many.txt:100: needle 99',
      '[more than 100 lines; search for a longer string, or in one folder]',
    ]);
  });

  it('searches one folder, or one file', async () => {
    expect(await search({ query: 'NEEDLE', path: './README.md' })).toBe(
      'README.md:3: A Needle in line three.\nREADME.md:4: last needle',
    );
    expect(await search({ query: 'nothing', path: 'b' })).toBe('b/a.txt:1: nothing');
  });

  it('takes the query for text, not for a pattern', async () => {
    expect(await search({ query: 'n.edle' })).toMatch(/^No line of \d+ files holds "n\.edle"\.$/);
    expect(await search({ query: "const x = '", path: 'b' })).toContain('b/deep/code.ts:1:');
  });

  it('shows how far it has come', async () => {
    const updates: unknown[] = [];
    await search({ query: 'hay', path: 'many' }, { progress: (update: unknown) => updates.push(update) });
    expect(updates).toEqual([
      { files: 64, matches: 64 },
      { files: 128, matches: 128 },
    ]);
    updates.length = 0;
    await search({ query: 'straw', path: 'many' }, { progress: (update: unknown) => updates.push(update) });
    expect(updates.at(-1)).toEqual({ files: 300, matches: 0 });
  });

  it('stops when its signal is aborted', async () => {
    const controller = new AbortController();
    const updates: unknown[] = [];
    const progress = (update: unknown) => {
      updates.push(update);
      controller.abort(new Error('the caller left'));
    };
    const context = { signal: controller.signal, progress };
    await expect(search({ query: 'straw', path: 'many' }, context)).rejects.toThrow('the caller left');
    expect(updates).toHaveLength(1);
    await expect(search({ query: 'straw' }, context)).rejects.toThrow('the caller left');
  });

  it('refuses a way out and an empty query', async () => {
    await expect(search({ query: 'x', path: '../' })).rejects.toThrow('leads out of the working folder');
    await expect(search({ query: '' })).rejects.toThrow('arguments.query must NOT have fewer than 1 characters');
  });
});

it('decodeText takes any cut of any text', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.nat(), fc.nat(), (text, from, length) => {
      fc.pre(!text.includes('\0') && !text.includes('\uFEFF'));
      const bytes = Buffer.from(text);
      const start = from % (bytes.length + 1);
      const end = Math.min(bytes.length, start + length);
      const piece = decodeText(bytes.subarray(start, end), { start: start > 0, end: end < bytes.length });
      const whole = bytes.subarray(start + (piece?.before ?? 0), end - (piece?.after ?? 0));
      expect(Buffer.from(piece?.text ?? '?')).toEqual(whole);
      expect([piece?.before, piece?.after].every((count) => count !== undefined && count <= 3)).toBe(true);
    }),
  );
});
