import { rename, rm } from 'node:fs/promises';
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { AgentLoop, noteRecord as note, Owner, startRecord } from 'millrace/internals';
import type { LmdbStateStore } from 'millrace/lmdb';
import { gate, scriptedLLM } from 'millrace/testing';
import { ChildPrograms, linesOf } from './child-programs.ts';
import { TemporaryStores } from './temporary-stores.ts';

const programs = new ChildPrograms();
const stores = new TemporaryStores();
const question = [{ role: 'user', content: 'How many?' }] as const;

afterEach(() => stores.clear());
afterAll(() => programs.clear());

async function heldTask(store: LmdbStateStore): Promise<Owner> {
  await store.create('t', startRecord('t'));
  return new Owner(store, await store.acquire('t', 'owner-a', 30_000));
}

describe('a process that is stopped within a transaction', () => {
  it('H-14 does not hold up who opens the file: a turn is UNAVAILABLE in time, timers run, and reads answer', async () => {
    const path = stores.path();
    await stores.open({ path }).create('before', startRecord('before'));
    const child = programs.start('stop-in-transaction', path);
    const { reach } = linesOf(child);
    await reach(1);
    let ticks = 0;
    const timer = setInterval(() => ticks++, 10);
    const store = stores.open({ path });
    expect(store.list()).toMatchObject([{ taskId: 'before' }]);
    const llmProvider = scriptedLLM([]);
    const config = { agentId: 'a', llmProvider, taskStateStore: store, storeDeadlineMs: 500, enableTracing: false };
    const turn = new AgentLoop(config).startTurn(question, { taskId: 't' });
    await expect(turn.result()).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true });
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(0);
    child.kill('SIGCONT');
    await reach(2);
    expect(await store.create('after', startRecord('after'))).toMatchObject({ created: true });
  });
});

describe('a folder that is deleted or replaced while it is open', () => {
  const gone = { code: 'UNAVAILABLE', retryable: false, message: expect.stringContaining('was deleted or replaced') };

  it('H-15 is noticed before the next append is acknowledged, and by check, which answers', async () => {
    const path = stores.path();
    const store = stores.open({ path });
    const owner = await heldTask(store);
    await owner.append(note('kept'));
    await rm(path, { recursive: true });
    expect(await store.check()).toEqual({ ok: false, warnings: [expect.stringContaining('was deleted or replaced')] });
    await expect(owner.append(note('lost'))).rejects.toMatchObject(gone);
    expect(() => store.read('t')).toThrow('was deleted or replaced');
  });

  it('H-15 is noticed where another store stands in its place', async () => {
    const path = stores.path();
    const store = stores.open({ path });
    const owner = await heldTask(store);
    await rename(path, `${path}-old`);
    const other = stores.open({ path });
    await expect(owner.append(note('lost'))).rejects.toMatchObject(gone);
    expect(await other.create('t', startRecord('t'))).toMatchObject({ created: true });
    await rm(`${path}-old`, { recursive: true });
  });

  it('H-15 loses the turn that runs: none ends "completed" in a deleted file', async () => {
    const path = stores.path();
    const store = stores.open({ path });
    const answer = gate();
    const llmProvider = scriptedLLM([{ gate: answer.pass(), text: 'Two.' }]);
    const config = { agentId: 'a', llmProvider, taskStateStore: store, enableTracing: false };
    const turn = new AgentLoop(config).startTurn(question);
    const events: string[] = [];
    const called = new Promise<void>((resolve) => {
      turn.subscribe({
        next(event) {
          events.push(event.kind === 'status-update' ? event.status.state : event.kind);
          if (event.kind === 'internal:llm-call') resolve();
        },
        error: () => {},
      });
    });
    await called;
    await rm(path, { recursive: true });
    answer.open();
    await expect(turn.result()).rejects.toMatchObject(gone);
    expect(events).not.toContain('completed');
  });
});
