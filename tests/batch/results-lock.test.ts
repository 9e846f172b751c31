import { spawnSync } from 'node:child_process';
import { readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { agent } from 'millrace';
import { gate } from 'millrace/testing';
import { Echoing, keysIn, prompts, ran, temporaryFolder } from './echoing.ts';

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

  const { pid: dead } = spawnSync(process.execPath, ['--version']);
  it.each([
    ['of a process that has died', { pid: dead, host: hostname(), token: 'a' }, 0],
    ['of a process that had the id of this one', { pid: process.pid, host: hostname(), token: 'a' }, 0],
    ['of another machine that was not renewed for a minute', { pid: 1, host: 'elsewhere', token: 'a' }, 61],
    ['of a process that was not renewed for a minute', { pid: process.ppid, host: hostname(), token: 'a' }, 61],
  ])('that is %s does not count', async (_, owner, ageSeconds) => {
    const { folder, out, lock } = results();
    writeFileSync(lock, JSON.stringify(owner));
    const at = Date.now() / 1_000 - ageSeconds;
    utimesSync(lock, at, at);
    await ran(['x'], { agent: echo(new Echoing()), out });
    expect(readdirSync(folder)).toEqual(['results.jsonl']);
  });

  it.each([
    ['a process that runs', JSON.stringify({ pid: process.ppid, host: hostname(), token: 'a' })],
    ['another machine', JSON.stringify({ pid: dead, host: 'elsewhere', token: 'a' })],
    ['one that is just being written', ''],
  ])('that is of %s counts, and stays', async (_, content) => {
    const { folder, out, lock } = results();
    writeFileSync(lock, content);
    await expect(ran(['x'], { agent: echo(new Echoing()), out })).rejects.toEqual(busy);
    expect(readdirSync(folder)).toEqual(['results.jsonl.lock']);
  });
});
