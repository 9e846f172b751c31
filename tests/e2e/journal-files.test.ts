import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from '@jest/globals';
import { modelServer, settingsOf } from '../cli/commands/model-servers.ts';
import { runInProcess } from '../cli/run-in-process.ts';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';

const folder = temporaryFolder({});
const elsewhereFolder = join(folder.path, 'elsewhere');
const where = ['--store', `lmdb:${join(folder.path, 'journals')}`];
const elsewhere = ['--store', `lmdb:${elsewhereFolder}`];
const noRecords = '{"format":"millrace-journal","version":1,"taskId":"t","records":0}\n';

beforeEach(() => {
  for (const name of ['journals', 'elsewhere']) rmSync(join(folder.path, name), { recursive: true, force: true });
});
afterAll(() => folder.remove());

/** Runs a turn, and gives its id. */
async function oneTurn(): Promise<string> {
  const server = await modelServer({ script: [{ text: 'Hello.' }] });
  await runInProcess(['run', 'Go', '--task', 't', ...where], { env: settingsOf(server) });
  return 't';
}

describe('- in place of a file', () => {
  it('is stdout of export and stdin of import, to the letter', async () => {
    const task = await oneTurn();
    const { stdout } = await runInProcess(['export', task, ...where]);
    const exported = await runInProcess(['export', task, '-', ...where]);
    expect(exported).toEqual({ exitCode: 0, stdout, stderr: '' });
    expect(stdout.split('\n')[0]).toContain('"taskId":"t"');
    const imported = await runInProcess(['import', '-', ...elsewhere], { stdin: exported.stdout });
    expect(imported).toMatchObject({ exitCode: 0, stdout: '' });
    expect(imported.stderr).toContain('task t (completed, ');
    const { stdout: again } = await runInProcess(['export', task, '-', ...elsewhere]);
    expect(again.replaceAll(/"epoch":\d+/g, '')).toBe(stdout.replaceAll(/"epoch":\d+/g, ''));
    expect(existsSync('-')).toBe(false);
  });
});

describe('millrace import', () => {
  it.each<[string, (text: string) => string, string]>([
    ['was cut short', (text) => text.trimEnd().split('\n').slice(0, -1).join('\n'), 'is incomplete'],
    ['does not fold', (text) => text.replace('"seq":2', '"seq":3'), '(POISON)'],
    ['is of a newer version', (text) => text.replace('"schema":3', '"schema":99'), '(SCHEMA)'],
    ['is something else', () => 'hello', 'is not JSON'],
    ['is empty', () => '', 'is empty; a journal file begins with its header'],
    ['has only blank lines', () => '\n\r\n', 'is empty; a journal file begins with its header'],
    ['has a header alone', (text) => text.slice(0, text.indexOf('\n')), 'is incomplete: it has 0 records'],
    ['says that it has no records', () => noRecords, 'has a header and no records'],
  ])('a file that %s is refused, and nothing is written', async (_what, change, sentence) => {
    const { stdout } = await runInProcess(['export', await oneTurn(), ...where]);
    const file = join(folder.path, 'changed.jsonl');
    writeFileSync(file, change(stdout));
    for (const source of [file, '-']) {
      const end = await runInProcess(['import', source, ...elsewhere], { stdin: change(stdout) });
      expect(end.exitCode).toBeGreaterThan(0);
      expect(end.stderr).toContain(source === '-' ? 'stdin' : file);
      expect(end.stderr).toContain(sentence);
    }
    expect(existsSync(elsewhereFolder)).toBe(false);
  });
});
