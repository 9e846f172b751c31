import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from '@jest/globals';
import { modelServer, settingsOf } from '../cli/commands/model-servers.ts';
import { runInProcess } from '../cli/run-in-process.ts';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import { Command } from './command.ts';

const tools = fileURLToPath(new URL('sub-agent-tools.mjs', import.meta.url));
const folder = temporaryFolder({});
const where = ['--store', `lmdb:${join(folder.path, 'journals')}`];

afterAll(() => folder.remove());

/** Without what differs from run to run. */
const plain = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => line.replace(/^ *[\d.]+ m?s(?= )/, '').replace(/ {2}[\d.]+ m?s\b.*$/, ''));

describe('millrace with sub-agents', () => {
  it('shows what they do below their calls, while they do it and afterwards, and lists them on demand', async () => {
    const server = await modelServer({
      script: [{ toolCalls: [{ name: 'counter', arguments: { message: 'How many?' } }] }, { text: 'There are seven.' }],
    });
    const { exitCode, stdout, stderr } = await new Command(['run', 'Go', '--task', 't', '--tools', tools, ...where], {
      env: settingsOf(server),
    }).ended;
    expect([exitCode, stdout]).toEqual([0, 'There are seven.\n']);
    expect(plain(stderr).slice(0, -1)).toEqual([
      '  · counter How many?',
      '    bo  I count first.',
      '    bo  · count',
      '    bo  ✓ count         7',
      '    bo  · checker Is 7 right?',
      expect.stringMatching(/^ {6}bo\/\S+ {2}It is right\.$/),
      '    bo  ✓ checker       Is 7 right? → It is right.',
      '    bo  Seven.',
      '  ✓ counter       How many? → Seven.',
    ]);

    const listed = (await runInProcess(['tasks', ...where])).stdout;
    expect(listed.trimEnd().split('\n').slice(1)).toEqual([expect.stringMatching(/^t {2}/)]);
    const all = (await runInProcess(['tasks', '--children', ...where])).stdout;
    expect(all.trimEnd().split('\n').slice(1)).toEqual([
      expect.stringMatching(/^t {2,}completed/),
      expect.stringMatching(/^ {2}t:1:0 {2,}completed .* How many\?$/),
      expect.stringMatching(/^ {4}t:1:0:2:0 {2,}completed .* Is 7 right\?$/),
    ]);

    const shown = plain((await runInProcess(['show', 't', ...where])).stdout);
    expect(shown).toContain('  ✓ counter       How many? → Seven.');
    expect(shown).toContain('    ✓ bo            I count first.');
    expect(shown).toContain('    ✓ count         7');
    expect(shown.some((line) => /^ {6}✓ \S+ +It is right\.$/.test(line))).toBe(true);
    const report = JSON.parse((await runInProcess(['show', 't', '--json', ...where])).stdout);
    expect(report.children).toMatchObject([{ taskId: 't:1:0', children: [{ taskId: 't:1:0:2:0', children: [] }] }]);
  });
});
