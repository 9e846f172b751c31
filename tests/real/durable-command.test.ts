import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { ScriptStep } from 'millrace/testing';
import { modelServer, settingsOf } from '../cli/commands/model-servers.ts';
import { runInProcess } from '../cli/run-in-process.ts';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import { Command } from '../e2e/command.ts';
import { eventually } from '../eventually.ts';

const tools = fileURLToPath(new URL('../e2e/durable-tools.mjs', import.meta.url));
const someTools = fileURLToPath(new URL('../cli/commands/some-tools.mjs', import.meta.url));
const folder = temporaryFolder({});
const store = `lmdb:${join(folder.path, 'journals')}`;
const where = ['--store', store];
const calm = [...where, '--tools', tools];
/** So that another process soon takes a turn over. */
const how = [...calm, '--lease-ms', '200'];
const ledgerFile = join(folder.path, 'ledger');
process.env['TEST_LEDGER'] = ledgerFile;

beforeEach(() => {
  for (const name of ['journals', 'ledger']) rmSync(join(folder.path, name), { recursive: true, force: true });
});
afterAll(() => folder.remove());

const asking = (...names: readonly string[]): ScriptStep => ({
  text: 'Working.',
  toolCalls: names.map((name) => ({ name, arguments: { email: 'ann@x.org' } })),
});

function start(args: readonly string[], env: Readonly<Record<string, string>>): Command {
  return new Command(args, { env: { ...env, TEST_LEDGER: ledgerFile } });
}

function ledger(): readonly string[] {
  return existsSync(ledgerFile) ? readFileSync(ledgerFile, 'utf8').trimEnd().split('\n').sort() : [];
}

/**
 * Runs a turn until `shown`, a start or an end of each call, stands on the screen and each has run, and kills its process; resolves when
 * nobody holds the task any more.
 */
async function killed(prompt: readonly string[], env: Readonly<Record<string, string>>, shown: readonly string[]) {
  const command = start(['run', ...prompt, ...how], env);
  for (const text of shown) await command.shows(text);
  await eventually(() => ledger().length >= shown.length);
  command.child.kill('SIGKILL');
  await command.ended;
  await free();
}

async function free(): Promise<void> {
  for (;;) {
    const { stdout } = await runInProcess(['tasks', '--json', ...where]);
    if (!stdout.includes('"held":true')) return;
  }
}

describe('a turn whose process is killed', () => {
  it('goes on in another one: finished calls once, those that were cut off as their tools say', async () => {
    const names = ['quick', 'again', 'once', 'known', 'reads'];
    const server = await modelServer({ script: [asking(...names), { text: 'Done.' }] });
    const env = settingsOf(server);
    await killed(['Go', '--task', 't'], env, ['✓ quick', '· again', '· once', '· known', '· reads']);

    const end = await start(['resume', 't', ...how], env).ended;
    expect(end).toMatchObject({ exitCode: 0, stdout: 'Working.\n\nDone.\n' });
    expect(end.stderr).toMatch(/· resumed \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n/);
    expect(end.stderr).toContain('· again ann@x.org, attempt 2\n');
    expect(end.stderr).toContain('✗ once          ann@x.org → OUTCOME_UNKNOWN');
    expect(end.stderr).toMatch(/2 iterations · 5 tool calls · .* · task t\n$/);
    expect(ledger()).toEqual([
      'again t:1:1 1',
      'again t:1:1 2',
      'known t:1:3 1',
      'once t:1:2 1',
      'quick t:1:0 1',
      'reads t:1:4 1',
      'reads t:1:4 2',
    ]);
    expect(server.requests[1]?.['messages']).toMatchObject([
      { role: 'user' },
      { role: 'assistant' },
      { content: 'quick ann@x.org' },
      { content: 'again ann@x.org' },
      { content: expect.stringContaining('OUTCOME_UNKNOWN') },
      { content: 'found t:1:3' },
      { content: 'reads ann@x.org' },
    ]);
    server.assertDone();
  });

  it('is listed as resumable, and its timeline says what was cut off and how to go on', async () => {
    const server = await modelServer({ script: [asking('quick', 'again')] });
    await killed(['Invite them', '--task', 't'], settingsOf(server), ['✓ quick', '· again']);
    const listed = await runInProcess(['tasks', '--state', 'resumable', ...where]);
    expect(listed.stdout).toMatch(
      /^TASK .*\nt +resumable +\S+ \S+ +Invite them\n +waits: no process runs it; its last one shut down or was lost\n$/,
    );
    const shown = await runInProcess(['show', 't', ...where]);
    expect(shown.stdout).toMatch(/^task t · .*\n❯ Invite them\n\niteration 1\n/);
    expect(shown.stdout).toMatch(/ ✓ quick +ann@x.org → quick ann@x.org {2}\d+ ms\n/);
    expect(shown.stdout).toMatch(/\nresumable · 1 iteration · 1 tool call · /);
    expect(shown.stdout).toContain(`  millrace resume t --tools ${tools} --store ${store}\n`);
    const report = JSON.parse((await runInProcess(['show', 't', '--json', ...where])).stdout);
    expect(report).toMatchObject({ taskId: 't', status: 'working', held: false, toolCalls: 1, questions: [] });
    expect(report.timeline).toMatchObject([
      { type: 'model' },
      { callId: '1:0', attempt: 1, done: {} },
      { callId: '1:1' },
    ]);
  });

  it('started again with its id, it goes on; started once more, it shows how it ended', async () => {
    const server = await modelServer({ script: [asking('again'), { text: 'Done.' }] });
    const env = settingsOf(server);
    await killed(['Go', '--task', 't'], env, ['· again']);
    for (const _ of [1, 2]) {
      const end = await runInProcess(['run', 'Go', '--task', 't', '--tools', tools, ...where], { env });
      expect(end).toMatchObject({ exitCode: 0, stdout: 'Working.\n\nDone.\n' });
    }
    expect(server.received).toBe(2);
    const other = await runInProcess(['run', 'Something else', '--task', 't', ...where], { env });
    expect(other).toMatchObject({ exitCode: 1, stdout: '' });
    expect(other.stderr).toContain('(CONFLICT)');
  });
});

describe('a turn that waits', () => {
  it.each([
    ['approved', '{"approved":true}', 'approved ann@x.org', ['approved t:1:0 1']],
    ['picky', '{"approved":true}', 'picky ann@x.org', ['picky t:1:0 1']],
  ])('%s: exit code 3 with the question and the command that answers it', async (name, answer, content, ran) => {
    const server = await modelServer({ script: [asking(name), { text: 'Done.' }] });
    const env = settingsOf(server);
    const asked = await runInProcess(['run', 'Go', '--task', 't', ...how], { env });
    expect(asked).toMatchObject({ exitCode: 3, stdout: 'Working.\n' });
    expect(asked.stderr).toContain('millrace: the turn waits for an answer\n');
    expect(asked.stderr).toContain(`  ? 1:0  ${name} needs approval: ann@x.org\n`);
    expect(asked.stderr).toContain(`  millrace resume t --tools ${tools} --store ${store} --answer '1:0=${answer}'\n`);

    const unanswered = await runInProcess(['resume', 't', ...how], { env });
    expect(unanswered).toMatchObject({ exitCode: 3, stdout: 'Working.\n' });
    const end = await runInProcess(['resume', 't', ...how, '--answer', `1:0=${answer}`], { env });
    expect(end).toMatchObject({ exitCode: 0, stdout: 'Working.\n\nDone.\n' });
    expect(server.requests[1]?.['messages']).toMatchObject([{}, {}, { content }]);
    expect(ledger()).toEqual(ran);
  });

  it('without its tools it rests, and the command says what is missing', async () => {
    const server = await modelServer({ script: [asking('approved')] });
    const env = settingsOf(server);
    await runInProcess(['run', 'Go', '--task', 't', ...how], { env });
    const end = await runInProcess(['resume', 't', '--answer', '1:0={"approved":true}', ...where], { env });
    expect(end.exitCode).toBe(1);
    expect(end.stderr).toContain('(MISSING_TOOL)\n');
    expect(end.stderr).toContain(`millrace resume t --tools ${tools} --store ${store}\n`);
    expect((await runInProcess(['tasks', '--state', 'resumable', ...where])).stdout).toMatch(/^t /m);
  });

  it('a call that was cut off is asked about where its tool says so', async () => {
    const server = await modelServer({ script: [asking('doubtful'), { text: 'Done.' }] });
    const env = settingsOf(server);
    await killed(['Go', '--task', 't'], env, ['· doubtful']);
    const asked = await runInProcess(['resume', 't', ...how], { env });
    expect(asked.exitCode).toBe(3);
    expect(asked.stderr).toContain('? 1:0  doubtful was cut off: did it take effect?: ann@x.org');
    const answer = '1:0={"outcome":"applied","content":"it did"}';
    expect(await runInProcess(['resume', 't', ...how, '--answer', answer], { env })).toMatchObject({ exitCode: 0 });
    expect(server.requests[1]?.['messages']).toMatchObject([{}, {}, { content: 'it did' }]);
    expect(ledger()).toEqual(['doubtful t:1:0 1']);
  });

  it.each([
    [['1:0=yes'], 2, 'the answer to the question 1:0 is not JSON'],
    [['yes'], 2, "--answer must be CALL=JSON, like '1:0="],
    [['1:0=1', '1:0=2'], 2, '--answer names the question 1:0 twice'],
    [['2:7={"approved":true}'], 2, 'open questions: "1:0" (approval, approved)'],
    [['1:0={"ok":true}'], 2, 'must be { "approved": true }'],
  ])('%j is refused in one sentence', async (answers, exitCode, sentence) => {
    const server = await modelServer({ script: [asking('approved')] });
    const env = settingsOf(server);
    await runInProcess(['run', 'Go', '--task', 't', ...how], { env });
    const flags = answers.flatMap((answer) => ['--answer', answer]);
    const end = await runInProcess(['resume', 't', ...how, ...flags], { env });
    expect(end).toMatchObject({ exitCode, stdout: '' });
    expect(end.stderr).toContain(sentence);
  });
});

describe('a turn that another process runs', () => {
  it('H-36 is waited for by resume, and taken over there when its process is killed', async () => {
    // A lease that does not end while the machine is busy.
    const leased = [...calm, '--lease-ms', '3000'];
    const server = await modelServer({ script: [{ text: 'It is a long story', stallAfter: 2 }, { text: 'Short.' }] });
    const runner = start(['run', 'Go', '--task', 't', ...leased], settingsOf(server));
    await runner.shows('It is');
    const heir = start(['resume', 't', ...leased], settingsOf(server));
    await heir.shows('It is');
    expect(heir.child.exitCode).toBe(null);
    runner.child.kill('SIGKILL');
    await runner.ended;
    const end = await heir.ended;
    expect(end).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/Short\.\n$/) });
    expect(end.stderr).toContain('another process runs the turn');
  });

  it('is followed by resume, can be watched, is cancelled from outside, and says so', async () => {
    const server = await modelServer({ script: [asking('quick', 'once')] });
    const runner = start(['run', 'Go', '--task', 't', ...calm], settingsOf(server));
    await runner.shows('✓ quick');
    const follower = start(['resume', 't', ...calm], settingsOf(server));
    await follower.shows('✓ quick');
    const watcher = start(['show', 't', '--watch', ...where], {});
    await watcher.shows('✓ quick');
    const cancelled = await runInProcess(['cancel', 't', '--reason', 'too slow', ...where]);
    expect(cancelled.exitCode).toBe(0);
    const end = await runner.ended;
    expect(end.exitCode).toBe(1);
    expect(end.stderr).toContain('millrace: cancelled: too slow\n');
    expect(await follower.ended).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('cancelled: too slow\n'),
    });
    const watched = await watcher.ended;
    expect(watched.exitCode).toBe(0);
    expect(watched.stdout).toMatch(/\ncanceled · 1 iteration · .*\ntoo slow\n$/);
    const report = JSON.parse((await runInProcess(['show', 't', '--json', ...where])).stdout);
    expect(report).toMatchObject({ status: 'canceled', reason: 'too slow' });
    const again = await runInProcess(['cancel', 't', ...where]);
    expect(again).toMatchObject({ exitCode: 0, stderr: 'millrace: task t had ended before: canceled\n' });
  });

  it('SIGTERM hands it on: 143, the command that goes on, and another process can at once', async () => {
    const server = await modelServer({ script: [{ text: 'It is a long story', stallAfter: 2 }, { text: 'Short.' }] });
    const env = settingsOf(server);
    const runner = start(['run', 'Go', '--task', 't', ...where], env);
    await runner.shows('It is');
    runner.child.kill('SIGTERM');
    const end = await runner.ended;
    expect(end.exitCode).toBe(143);
    expect(end.stderr).toContain(`millrace: resume with: millrace resume t --store ${store}\n`);
    const resumed = await runInProcess(['resume', 't', ...where], { env });
    expect(resumed).toMatchObject({ exitCode: 0, stdout: 'Short.\n' });
  });

  it('show --watch --json gives its events, as run --json does', async () => {
    const server = await modelServer({ script: [{ text: 'Hello.' }] });
    await runInProcess(['run', 'Go', '--task', 't', ...where], { env: settingsOf(server) });
    const end = await runInProcess(['show', 't', '--watch', '--json', ...where]);
    const events = end.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events[0]).toMatchObject({ kind: 'task', id: 't' });
    expect(events.at(-1)).toMatchObject({ kind: 'status-update', final: true, status: { state: 'completed' } });
  });
});

describe('journals as files', () => {
  it('go from one store into another, where the turn goes on', async () => {
    const server = await modelServer({ script: [asking('quick', 'once'), { text: 'Done.' }] });
    const env = settingsOf(server);
    await killed(['Go', '--task', 't'], env, ['✓ quick', '· once']);
    const file = join(folder.path, 't.jsonl');
    rmSync(file, { force: true });
    expect(await runInProcess(['export', 't', file, ...where])).toMatchObject({ exitCode: 0, stdout: '' });
    const { stdout } = await runInProcess(['export', 't', ...where]);
    expect(stdout).toBe(readFileSync(file, 'utf8'));
    const there = await runInProcess(['export', 't', file, ...where]);
    expect(there).toMatchObject({ exitCode: 2, stdout: '' });

    const elsewhere = ['--store', `lmdb:${join(folder.path, 'elsewhere')}`];
    expect(await runInProcess(['import', ...elsewhere], { stdin: stdout })).toMatchObject({ exitCode: 0, stdout: '' });
    const twice = await runInProcess(['import', file, ...elsewhere]);
    expect(twice.exitCode).toBe(1);
    expect(twice.stderr).toContain('task "t" exists in this store; nothing was imported (CONFLICT)');
    const end = await runInProcess(['resume', 't', '--tools', tools, ...elsewhere], { env });
    expect(end).toMatchObject({ exitCode: 0, stdout: 'Working.\n\nDone.\n' });
    expect(ledger()).toEqual(['once t:1:1 1', 'quick t:1:0 1']);
  });

  it('a fork is a turn of its own that resume runs', async () => {
    const server = await modelServer({ script: [asking('quick'), { text: 'One end.' }, { text: 'Another.' }] });
    const env = settingsOf(server);
    await runInProcess(['run', 'Go', '--task', 't', '--tools', tools, ...where], { env });
    const forked = await runInProcess(['fork', 't', '--at', '1', '--task', 'f', ...where]);
    expect(forked).toMatchObject({ exitCode: 0, stdout: 'f\n' });
    expect(forked.stderr).toContain('millrace resume f');
    const end = await runInProcess(['resume', 'f', '--tools', tools, ...where], { env });
    expect(end).toMatchObject({ exitCode: 0, stdout: 'Working.\n\nAnother.\n' });
    const shown = await runInProcess(['show', 'f', ...where]);
    expect(shown.stdout).toContain('forked from t, after iteration 1');
    const wrong = await runInProcess(['fork', 't', '--at', '7', ...where]);
    expect(wrong).toMatchObject({ exitCode: 2, stdout: '' });
  });
});

describe('millrace replay', () => {
  it('runs a turn again without model and tools, from a store or a file; what differs is an error', async () => {
    const server = await modelServer({ script: [asking('quick'), { text: 'Done.' }] });
    const env = settingsOf(server);
    await runInProcess(['run', 'Go', '--task', 't', '--tools', tools, ...where], { env });
    const again = await runInProcess(['replay', 't', ...where]);
    expect(again).toMatchObject({ exitCode: 0, stdout: 'Working.\n\nDone.\n' });
    expect(again.stderr).toMatch(/✓ quick[\s\S]*millrace: replayed \d+ records: nothing differs\n$/);
    expect([server.received, ledger()]).toEqual([2, ['quick t:1:0 1']]);

    const file = join(folder.path, 'replayed.jsonl');
    await runInProcess(['export', 't', file, ...where]);
    const other = await runInProcess(['replay', file, '--tools', someTools]);
    expect(other.exitCode).toBe(1);
    expect(other.stderr).toContain('(DEVIATION)');
    const forgiving = await runInProcess(['replay', file, '--tools', someTools, '--forgiving', '--json']);
    expect(forgiving.exitCode).toBe(0);
    expect(forgiving.stderr).toMatch(/millrace: replayed \d+ records: \d+ differences?\n$/);
  });
});

it('a tool of a file that names its own limit of time is held to it', async () => {
  const server = await modelServer({ script: [asking('patient'), { text: 'Done.' }] });
  const end = await runInProcess(['run', 'Go', '--tools', tools, ...where], { env: settingsOf(server) });
  expect(end).toMatchObject({ exitCode: 0 });
  expect(end.stderr).toContain('did not answer within 50 ms');
});

it('a Redis that is away is one sentence, without its password', async () => {
  const server = await modelServer({});
  await server.close();
  const url = `redis://me:very-secret@127.0.0.1:${server.port}/1`;
  const end = await runInProcess(['run', 'Go', '--store', url]);
  expect(end).toMatchObject({ exitCode: 1, stdout: '' });
  expect(end.stderr).toMatch(/^millrace: Redis at redis:\/\/[^@]*\d+\/1 does not answer: .*\(UNAVAILABLE\)$/m);
  expect(end.stderr).not.toContain('very-secret');
});

describe('a task or a store that is not there', () => {
  it.each(['resume nope', 'show nope', 'show nope --watch', 'cancel nope', 'export nope', 'fork nope --at 1'])(
    'millrace %s: one sentence that names the task and the store, exit code 1',
    async (command) => {
      const args = command.split(' ');
      const server = await modelServer({ script: [{ text: 'Hello.' }] });
      const env = settingsOf(server);
      await runInProcess(['run', 'Go', ...where], { env });
      const end = await runInProcess([...args, ...where], { env });
      expect(end).toMatchObject({ exitCode: 1, stdout: '' });
      expect(end.stderr).toBe(
        `millrace: there is no task "nope" in the LMDB store in ${join(folder.path, 'journals')}; "millrace tasks --store ${store}" lists the tasks (NOT_FOUND)\n`,
      );
    },
  );

  it('a folder without a store is not made by looking into it', async () => {
    const end = await runInProcess(['tasks', '--store', `lmdb:${join(folder.path, 'no')}`]);
    expect(end).toMatchObject({ exitCode: 1, stdout: '' });
    expect(end.stderr).toContain('the folder does not exist');
    const memory = await runInProcess(['resume', 't', '--store', 'memory']);
    expect(memory).toMatchObject({ exitCode: 2, stdout: '' });
  });
});
