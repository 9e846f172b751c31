import { EventEmitter } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { ScriptStep } from 'millrace/testing';
import { modelServer, settingsOf } from '../cli/commands/model-servers.ts';
import { runInProcess } from '../cli/run-in-process.ts';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';

const tools = fileURLToPath(new URL('durable-tools.mjs', import.meta.url));
const folder = temporaryFolder({});
const store = `lmdb:${join(folder.path, 'journals')}`;
const where = ['--store', store];
process.env['TEST_LEDGER'] = join(folder.path, 'ledger');

beforeEach(() => rmSync(join(folder.path, 'journals'), { recursive: true, force: true }));
afterAll(() => folder.remove());

const asking = (name: string): ScriptStep => ({
  text: 'Working.',
  toolCalls: [{ name, arguments: { email: 'ann@x.org' } }],
});

/** Sends SIGTERM as soon as somebody listens for it. */
function terminatedAtOnce(): EventEmitter {
  const signals = new EventEmitter();
  signals.on('newListener', (name) => {
    if (name === 'SIGTERM') queueMicrotask(() => signals.emit('SIGTERM', 'SIGTERM'));
  });
  return signals;
}

/** The words of the command that an output ends with. */
function commandIn(output: string): readonly string[] {
  const { command = '' } = /(?:^ {2}|: )millrace (?<command>resume .*)\n$/m.exec(output)?.groups ?? {};
  return command.split(' ').map((word) => word.replace(/^'(.*)'$/, '$1'));
}

describe('SIGTERM before the first record', () => {
  it('says that nothing was written, and names no command that could go on with nothing', async () => {
    const server = await modelServer({ script: [] });
    const env = settingsOf(server);
    const end = await runInProcess(['run', 'Go', '--task', 't', ...where], { env, signals: terminatedAtOnce() });
    expect(end).toMatchObject({
      exitCode: 143,
      stdout: '',
      stderr: 'millrace: stopped before the turn was recorded; start it again\n',
    });
    expect((await runInProcess(['tasks', ...where])).stdout).toBe('');
    expect(server.received).toBe(0);
  });

  it('of a turn that is resumed hands it on as it was', async () => {
    const server = await modelServer({ script: [asking('approved')] });
    const env = settingsOf(server);
    await runInProcess(['run', 'Go', '--task', 't', '--tools', tools, ...where], { env });
    const args = ['resume', 't', '--tools', tools, '--answer', '1:0={"approved":true}', ...where];
    const end = await runInProcess(args, { env, signals: terminatedAtOnce() });
    expect(end.exitCode).toBe(143);
    expect(end.stderr).toContain(`millrace: resume with: millrace resume t --tools ${tools} --store ${store}\n`);
  });
});

describe('millrace retry', () => {
  it('H-32 continues a turn that failed as a new one, which shows the old and repeats no call', async () => {
    const server = await modelServer({ script: [asking('lookup'), { status: 400 }, { text: 'Found.' }] });
    const env = settingsOf(server);
    const failed = await runInProcess(['run', 'Go', '--task', 'old', '--tools', tools, ...where], { env });
    expect(failed.exitCode).toBe(1);
    const again = await runInProcess(['retry', 'old', '--task', 'new', '--tools', tools, ...where], { env });
    expect(again).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('Found.') });
    expect(server.received).toBe(3);
    const shown = await runInProcess(['show', 'new', ...where]);
    expect(shown.stdout).toContain('retry of old, which ended in iteration 1');
    const same = await runInProcess(['run', 'Go', '--task', 'old', '--tools', tools, ...where], { env });
    expect(same.exitCode).toBe(1);
  });
});

describe('the command that resumes a turn', () => {
  it.each([
    ['show', ['show', 't', ...where]],
    ['show --watch', ['show', 't', '--watch', ...where]],
    ['resume, without its options', ['resume', 't', ...where]],
  ])('is printed by %s with the tools and the model that the turn was started with', async (_name, args) => {
    const server = await modelServer({ script: [asking('approved'), { text: 'Done.' }] });
    const { OPENAI_BASE_URL: url = '' } = settingsOf(server);
    const model = ['--base-url', url, '--model', 'm'];
    await runInProcess(['run', 'Go', '--task', 't', '--tools', tools, ...model, ...where]);
    const { stdout, stderr } = await runInProcess(args);
    const command = commandIn(stdout + stderr);
    expect(command.slice(0, -2)).toEqual(['resume', 't', '--tools', tools, ...model, ...where]);
    expect(await runInProcess(command)).toMatchObject({ exitCode: 0, stdout: 'Working.\n\nDone.\n' });
  });

  it('is printed so by fork', async () => {
    const server = await modelServer({ script: [asking('quick'), { text: 'One end.' }, { text: 'Another.' }] });
    const env = settingsOf(server);
    await runInProcess(['run', 'Go', '--task', 't', '--tools', tools, ...where], { env });
    const forked = await runInProcess(['fork', 't', '--at', '1', '--task', 'f', ...where]);
    const command = commandIn(forked.stderr);
    expect(command).toEqual(['resume', 'f', '--tools', tools, ...where]);
    expect(await runInProcess(command, { env })).toMatchObject({ exitCode: 0, stdout: 'Working.\n\nAnother.\n' });
  });

  it('names the store also where a task is not in it', async () => {
    await runInProcess(['run', 'Go', ...where], { env: settingsOf(await modelServer({ script: [{ text: 'Hi.' }] })) });
    const end = await runInProcess(['show', 'nope', ...where]);
    expect(end.stderr).toContain(`; "millrace tasks --store ${store}" lists the tasks (NOT_FOUND)\n`);
  });
});

describe('an answer that is given without the tools', () => {
  it('R-04 is kept, and messages and tasks say what the turn waits for; with the tools it continues', async () => {
    const server = await modelServer({ script: [asking('approved'), { text: 'Done.' }] });
    const env = settingsOf(server);
    await runInProcess(['run', 'Go', '--task', 't', '--tools', tools, ...where], { env });
    const end = await runInProcess(['resume', 't', '--answer', '1:0={"approved":true}', ...where], { env });
    expect(end.exitCode).toBe(1);
    expect(end.stderr).toContain(
      '(MISSING_TOOL)\nmillrace: the answer to 1:0 is recorded and need not be given again\n',
    );
    const listed = (await runInProcess(['tasks', ...where])).stdout;
    expect(listed).toMatch(/^t .*\n {2}waits: The turn has an open call of the tool "approved", /m);
    const command = commandIn(end.stderr);
    expect(command).toEqual(['resume', 't', '--tools', tools, ...where]);
    expect(await runInProcess(command, { env })).toMatchObject({ exitCode: 0, stdout: 'Working.\n\nDone.\n' });
  });
});
