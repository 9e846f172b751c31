import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { linkSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { builtInTools, type WorkspaceOptions } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import { thrownBy } from '../tools/thrown.ts';
import { toolCall, toolContext } from '../tools/tool-context.ts';

/** In every file that must not be read; part of the name of every file that must not be listed. */
const secret = 'TOPSECRET';
const key = `-----BEGIN OPENSSH PRIVATE KEY-----\n${secret}\n`;

const privateFiles = [
  '.git/config',
  '.git/objects/ab/cdef',
  'sub/.git',
  '.millrace/notes.txt',
  'sub/.MILLRACE/notes.txt',
  '.env',
  '.env.local',
  '.envrc',
  'sub/.ENV.production',
  '.npmrc',
  '.netrc',
  '.git-credentials',
  '.aws/credentials',
  '.ssh/config',
  '.docker/config.json',
  'id_rsa',
  'sub/id_ed25519',
  'tls/server.pem',
  'tls/server.KEY',
  'tls/store.p12',
  'keys.kdbx',
  'credentials.json',
  'service-account-prod.json',
  'elsewhere/data.mdb',
  'journals/anything.txt',
];
const keysByContent = ['deploy', 'sub/notes.txt'];

const outer = temporaryFolder({
  [`${secret}.txt`]: secret,
  [`away/${secret}.txt`]: secret,
  'away/plain.txt': secret,
  'root/a.txt': 'fine',
  'root/sub/b.txt': 'fine',
  'root/sub/key-guide.md': 'ssh-keygen writes a private key',
  'root/swap/plain.txt': 'fine',
  ...Object.fromEntries(privateFiles.map((path) => [`root/${path}`, secret])),
  ...Object.fromEntries(keysByContent.map((path) => [`root/${path}`, key])),
});
const root = join(outer.path, 'root');
const hidden = [join(root, 'journals'), join(root, 'store.db'), join(root, 'later', 'journals')];

beforeAll(() => {
  linkSync(join(outer.path, `${secret}.txt`), join(root, 'hard-link-out'));
  linkSync(join(root, '.env'), join(root, 'hard-link-in'));
  symlinkSync(join(outer.path, `${secret}.txt`), join(root, 'link-out'));
  symlinkSync('.git', join(root, 'history'));
  symlinkSync('.env', join(root, 'settings'));
  symlinkSync('../away', join(root, 'folder-out'));
  symlinkSync('journals', join(root, 'diary'));
  symlinkSync('/proc/self', join(root, 'process'));
});
afterAll(() => outer.remove());

const readsPrivate = [
  ...privateFiles,
  ...keysByContent,
  'hard-link-out',
  'hard-link-in',
  'link-out',
  'history/config',
  'settings',
  'folder-out/plain.txt',
  'diary/anything.txt',
  'process/environ',
  'sub/../.env',
  './/.git//config',
  '../root/.env',
];

async function toolsIn(workspace: WorkspaceOptions) {
  const tools = builtInTools({ workspace });
  await tools.getTools();
  return async (name: string, args: object) =>
    String((await tools.executeTool(toolCall(name, args), toolContext())).content);
}

const refusals = /is private|leads out|hard links|private key|is a folder|is not a folder|absolute|NUL/;

describe('the built-in file tools', () => {
  it.each(readsPrivate)('H-01 read_file and search_files refuse %s', async (path) => {
    const run = await toolsIn({ root, hidden });
    for (const args of [{ path }, { path, offset: 36 }]) {
      const error = await thrownBy(() => run('read_file', args));
      expect(error.code).toBe('TOOL_FAILED');
      expect(error.message).toMatch(refusals);
    }
    const found = await run('search_files', { query: secret, path }).catch(String);
    expect(found).toMatch(/is private|leads out|^No line of 1 files/);
    expect(found).not.toContain(`: ${secret}`);
  });

  it.each([
    '.git',
    '.git/objects',
    '.millrace',
    'sub/.MILLRACE',
    '.aws',
    '.ssh',
    'journals',
    'history',
    'folder-out',
    'diary',
    'process',
    'process/task',
  ])('H-01 list_files refuses %s', async (path) => {
    const run = await toolsIn({ root, hidden });
    expect((await thrownBy(() => run('list_files', { path }))).message).toMatch(/is private|leads out/);
  });

  it('H-01 listings and searches leave private files out', async () => {
    const run = await toolsIn({ root, hidden });
    expect((await run('list_files', {})).split('\n')).toEqual([
      'a.txt',
      'deploy',
      'diary',
      'elsewhere/',
      'folder-out',
      'hard-link-in',
      'hard-link-out',
      'history',
      'link-out',
      'process',
      'settings',
      'sub/',
      'swap/',
      'tls/',
    ]);
    expect(await run('list_files', { path: 'sub' })).toBe('b.txt\nkey-guide.md\nnotes.txt');
    expect(await run('list_files', { path: 'tls' })).toBe('The folder is empty.');
    expect(await run('search_files', { query: secret })).toMatch(/^No line of \d+ files/);
    expect(await run('read_file', { path: 'sub/key-guide.md' })).toBe('ssh-keygen writes a private key');
  });

  it('H-01 the store is out of reach under any name, also when it is made later', async () => {
    const run = await toolsIn({ root, hidden });
    const store = new LmdbStateStore({ path: join(root, 'later', 'journals') });
    await store.close();
    expect(await run('list_files', { path: 'later' })).toBe('The folder is empty.');
    for (const path of ['later/journals', 'later/journals/data.mdb', 'later/journals/lock.mdb']) {
      expect((await thrownBy(() => run('read_file', { path }))).message).toContain('is private');
    }
  });

  it.each(['.millrace', '.git', 'journals', 'journals/below', '/proc'])(
    'H-01 %s cannot be the working folder',
    async (folder) => {
      mkdirSync(join(root, 'journals/below'), { recursive: true });
      const path = folder.startsWith('/') ? folder : join(root, folder);
      const error = await thrownBy(() => builtInTools({ workspace: { root: path, hidden } }));
      expect([error.code, error.message]).toEqual(['INVALID_CONFIG', expect.stringContaining('is private')]);
    },
  );

  it('H-01 no path made of dots, separators, names and links reads a secret', async () => {
    const run = await toolsIn({ root, hidden });
    const part = fc.constantFrom('.', '..', '', 'root', 'sub', 'away', 'plain.txt', 'a.txt', ...readsPrivate);
    await fc.assert(
      fc.asyncProperty(
        fc.array(part, { minLength: 1, maxLength: 6 }),
        fc.constantFrom('/', '//', '/./'),
        async (parts, by) => {
          const path = parts.join(by);
          for (const [name, args] of [
            ['read_file', { path }],
            ['list_files', { path }],
            ['search_files', { path, query: 'TOPSECRE' }],
          ] as const) {
            const answer = await run(name, args).catch(() => '');
            expect(answer).not.toContain(secret);
          }
        },
      ),
      { seed: 20_261_122, numRuns: 300 },
    );
  });

  it('H-01 nothing is read or listed outside while another process swaps files, folders and links', async () => {
    const run = await toolsIn({ root, hidden });
    const attack = spawn(process.execPath, ['-e', swapping, root, outer.path, '7'], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const ended = once(attack, 'exit');
    let swaps = 0;
    attack.on('message', (more: number) => {
      swaps += more;
    });
    const answers = new Set<string>();
    for (let round = 0; (round <= 20 || swaps < 4_000) && attack.exitCode === null; round++) {
      for (const [name, args] of [
        ['read_file', { path: 'swap/plain.txt' }],
        ['read_file', { path: 'swapped.txt' }],
        ['list_files', { path: 'swap' }],
        ['search_files', { path: 'swap', query: 'T' }],
        ['search_files', { path: 'swapped.txt', query: 'T' }],
      ] as const) {
        const answer = await run(name, args).catch((thrown: unknown) => `refused: ${String(thrown)}`);
        expect(answer.replace(/"[^"]*"/g, '')).not.toContain(secret);
        answers.add(answer.startsWith('refused') ? 'refused' : 'read');
      }
    }
    if (attack.connected) attack.disconnect();
    expect(await ended).toEqual([0, null]);
    expect(swaps).toBeGreaterThanOrEqual(4_000);
    expect([...answers].sort()).toEqual(['read', 'refused']);
  });
});

/**
 * Until its parent disconnects, it puts a folder, a link out, a link to private files, a file, a link and a hard link in the same two places, in a
 * random order, and reports every 100 swaps.
 */
const swapping = `
const fs = require('node:fs');
const { join } = require('node:path');
const [root, outer, seed] = process.argv.slice(1);
let state = Number(seed);
const random = (below) => (state = (state * 1103515245 + 12345) % 2147483648) % below;
const away = join(root, 'swap-away');
const file = join(root, 'swapped.txt');
fs.renameSync(join(root, 'swap'), away);
const folders = [
  () => fs.renameSync(away, join(root, 'swap')),
  () => fs.symlinkSync(join(outer, 'away'), join(root, 'swap')),
  () => fs.symlinkSync('.git', join(root, 'swap')),
];
const files = [
  () => fs.writeFileSync(file, 'fine'),
  () => fs.symlinkSync(join(outer, 'TOPSECRET.txt'), file),
  () => fs.linkSync(join(outer, 'TOPSECRET.txt'), file),
  () => fs.symlinkSync('.env', file),
];
const swap = () => {
  const which = random(folders.length);
  folders[which]();
  files[random(files.length)]();
  for (let spin = random(20000); spin > 0; spin -= 1);
  if (which === 0) fs.renameSync(join(root, 'swap'), away);
  else fs.unlinkSync(join(root, 'swap'));
  fs.unlinkSync(file);
};
const swapOn = () => {
  if (!process.connected) return fs.renameSync(away, join(root, 'swap'));
  for (let round = 0; round < 100; round += 1) swap();
  process.send(100, () => {});
  setImmediate(swapOn);
};
process.on('disconnect', () => {});
swapOn();
`;
