import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { AgentLoop, startRecord } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { gate } from 'millrace/testing';
import { runInProcess } from '../cli/run-in-process.ts';
import { question } from './dead-turn.ts';
import { turnBench } from './turn-bench.ts';
import { watch } from './watch-events.ts';

const bench = turnBench();

describe('a lease that an operator breaks', () => {
  it('H-16 loses the turn of the old owner with FENCED, and another process resumes it at once', async () => {
    const answer = gate();
    const model = bench.model([{ gate: answer.pass(), text: 'Two.' }]);
    const turn = new AgentLoop(bench.config(model)).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    expect(await AgentLoop.breakLease('t', { store: bench.store })).toBe(true);
    answer.open();
    await watcher.ended;
    await expect(turn.result()).rejects.toMatchObject({ code: 'FENCED' });
    const again = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Three.' }])));
    expect(await again.result()).toMatchObject({ status: 'completed', text: 'Three.' });
  });

  it('H-16 is FENCED when `millrace tasks release` has run', async () => {
    const path = mkdtempSync(join(tmpdir(), 'millrace-release-'));
    const store = new LmdbStateStore({ path });
    try {
      await store.create('t', startRecord('t'));
      const lease = await store.acquire('t', 'stuck', 3_600_000);
      const release = ['tasks', 'release', 't', '--store', `lmdb:${path}`];
      const end = await runInProcess(release);
      expect(end).toMatchObject({ exitCode: 0, stdout: '', stderr: expect.stringContaining('released') });
      expect(end.stderr).toContain(`millrace resume t --store lmdb:${path}`);
      await expect(store.renew(lease)).rejects.toMatchObject({ code: 'FENCED' });
      await store.acquire('t', 'next', 1_000);
      await runInProcess(release);
      expect((await runInProcess(release)).stderr).toContain('no process runs t');
      const unknown = await runInProcess(['tasks', 'release', 'unknown', '--store', `lmdb:${path}`]);
      expect(unknown).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('there is no task "unknown"') });
    } finally {
      await store.close();
      rmSync(path, { recursive: true });
    }
  });
});
