import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { agent } from 'millrace';
import { gate } from 'millrace/testing';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';
import { Echoing, keysIn, prompts, ran, temporaryFolder } from './echoing.ts';

const programs = new ChildPrograms('tests/batch/children');
afterAll(() => programs.clear());

const echo = (model: Echoing) => agent({ id: 'echo', provider: model, enableTracing: false, retry: null });

function results() {
  const folder = temporaryFolder();
  const out = join(folder, 'results.jsonl');
  return { folder, out, lock: `${out}.lock` };
}

const busy = expect.objectContaining({ code: 'CONFLICT', message: expect.stringContaining('results.jsonl.lock') });

describe('the lock of a results file', () => {
  it('lets one batch at a time write it, and is gone at the end', async () => {
    const { folder, out } = results();
    const open = gate();
    const first = ran(prompts(2), { agent: echo(new Echoing({ wait: () => open.pass() })), out });
    await open.reached;
    const second = new Echoing();
    await expect(ran(prompts(2), { agent: echo(second), out })).rejects.toEqual(busy);
    expect(second.prompts).toEqual([]);
    open.open();
    await first;
    expect([keysIn(out), readdirSync(folder)]).toEqual([['k1', 'k2'], ['results.jsonl']]);
    const { last } = await ran(prompts(2), { agent: echo(second), out });
    expect([last.state, last.earlier, readdirSync(folder)]).toEqual(['completed', 2, ['results.jsonl']]);
  });

  it('is gone where the batch fails', async () => {
    const { folder, out } = results();
    writeFileSync(out, 'notes\n');
    await expect(ran(['x'], { agent: echo(new Echoing()), out })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    expect(readdirSync(folder)).toEqual(['results.jsonl']);
  });

  it('is gone where the disk is full, so that the batch runs once there is room', async () => {
    const { folder, out } = results();
    const program = programs.bundleOf('full-disk');
    // No file of the process may have a byte.
    const line = 'ulimit -f 0 && exec "$0" "$@"';
    const { stdout } = spawnSync('sh', ['-c', line, process.execPath, program, out], { encoding: 'utf8' });
    expect([stdout, readdirSync(folder)]).toEqual(['UNAVAILABLE EFBIG\n', []]);
    const { last } = await ran(prompts(2), { agent: echo(new Echoing()), out });
    expect(last).toMatchObject({ state: 'completed', completed: 2 });
  });

  /** The lock that a run of this process writes. */
  async function ownLock(): Promise<object> {
    const { out, lock } = results();
    const open = gate();
    const run = ran(['x'], { agent: echo(new Echoing({ wait: () => open.pass() })), out });
    await open.reached;
    const own = JSON.parse(readFileSync(lock, 'utf8'));
    open.open();
    await run;
    return own;
  }

  const { pid: dead } = spawnSync(process.execPath, ['--version']);
  const elsewhere = { host: 'elsewhere', space: 'another boot' };
  it.each([
    ['of a process that has died', { pid: dead }, 0],
    ['of a process that had the id of this one', { started: '1' }, 0],
    ['of this process, which has ended that run', { token: 'a' }, 0],
    ['of another machine that was not renewed for a minute', { pid: 1, ...elsewhere }, 61],
    ['of a process that was not renewed for a minute', { pid: process.ppid }, 61],
  ])('that is %s does not count', async (_, owner, ageSeconds) => {
    const { folder, out, lock } = results();
    writeFileSync(lock, JSON.stringify({ ...(await ownLock()), ...owner }));
    const at = Date.now() / 1_000 - ageSeconds;
    utimesSync(lock, at, at);
    await ran(['x'], { agent: echo(new Echoing()), out });
    expect(readdirSync(folder)).toEqual(['results.jsonl']);
  });

  it('R-17 counts for a process that lives here, however long it was not renewed', async () => {
    const { out, lock } = results();
    const open = gate();
    const first = ran(prompts(2), { agent: echo(new Echoing({ wait: () => open.pass() })), out });
    await open.reached;
    utimesSync(lock, 1, 1);
    await expect(ran(prompts(2), { agent: echo(new Echoing()), out })).rejects.toEqual(busy);
    open.open();
    await first;
    expect(keysIn(out)).toEqual(['k1', 'k2']);
  });

  it('R-17 is a fence: who lost it elsewhere writes nothing', async () => {
    const { out, lock } = results();
    const open = gate();
    const first = ran(prompts(2), { agent: echo(new Echoing({ wait: () => open.pass() })), out });
    await open.reached;
    writeFileSync(lock, JSON.stringify({ ...(await ownLock()), ...elsewhere }));
    utimesSync(lock, 1, 1);
    const { last } = await ran(prompts(2), { agent: echo(new Echoing()), out });
    open.open();
    await expect(first).rejects.toMatchObject({ code: 'CONFLICT' });
    expect([last.completed, keysIn(out)]).toEqual([2, ['k1', 'k2']]);
  });

  it.each([
    ['another machine', { pid: dead, ...elsewhere }],
    ['a container with the same host name', { pid: dead, space: 'another namespace' }],
    ['the process of a container with the id of this one', { token: 'a', space: 'another namespace' }],
  ])('that is of %s counts, and stays', async (_, owner) => {
    const { folder, out, lock } = results();
    writeFileSync(lock, JSON.stringify({ ...(await ownLock()), ...owner }));
    await expect(ran(['x'], { agent: echo(new Echoing()), out })).rejects.toEqual(busy);
    expect(readdirSync(folder)).toEqual(['results.jsonl.lock']);
  });

  it('that is just being written counts, and stays', async () => {
    const { folder, out, lock } = results();
    writeFileSync(lock, '');
    await expect(ran(['x'], { agent: echo(new Echoing()), out })).rejects.toEqual(busy);
    expect(readdirSync(folder)).toEqual(['results.jsonl.lock']);
  });

  it('counts while its process runs, not once that is killed, and not for a process that has its id later', async () => {
    const { folder, out, lock } = results();
    const other = spawn(process.execPath, ['-e', 'process.stdin.resume(); console.log()']);
    await once(other.stdout, 'data');
    const { pid } = other;
    // Field 22, see proc_pid_stat(5); the name of the process has no space.
    const started = existsSync('/proc/self/stat') && readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ')[21];
    const owner = { ...(await ownLock()), pid, ...(started && { started }) };
    const write = (content: object) => writeFileSync(lock, JSON.stringify(content));
    write(owner);
    await expect(ran(['x'], { agent: echo(new Echoing()), out })).rejects.toEqual(busy);
    if (started) {
      write({ ...owner, started: String(Number(started) - 1) });
      await ran(['x'], { agent: echo(new Echoing()), out });
      write(owner);
    }
    other.kill('SIGKILL');
    await once(other, 'exit');
    await ran(['x'], { agent: echo(new Echoing()), out });
    expect(readdirSync(folder)).toEqual(['results.jsonl']);
  });
});
