import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { foldRecords } from 'millrace';
import { AgentLoop, noteRecord as note, startRecord, upTo } from 'millrace/internals';
import type { LmdbStateStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';
import { eventually } from '../eventually.ts';
import { batchTools } from '../stores/lmdb/batch-tools.ts';
import { ChildPrograms, kill, linesOf, nextMessage } from '../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';

const stores = new TemporaryStores();
const children = new ChildPrograms();

afterEach(() => stores.clear());
afterAll(() => children.clear());

/** mulberry32: the same numbers for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Waits for the lease of a dead process to run out. */
function whenFree(store: LmdbStateStore): Promise<void> {
  return eventually(() => !store.list().some(({ held }) => held));
}

describe('a store whose process is killed', () => {
  const seed = Number(process.env['MILLRACE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
  const rounds = 6;

  it(`S1-71 keeps every acknowledged record over ${rounds} kills, gapless and in order (MILLRACE_SEED=${seed})`, async () => {
    const random = randomOf(seed);
    const path = stores.path();
    let kept = 0;
    for (const round of upTo(rounds)) {
      const child = children.start('append', path, 't', `round-${round}`);
      const printed = linesOf(child);
      await printed.reach(1 + Math.floor(random() * 30));
      await new Promise((resolve) => setTimeout(resolve, random() * 10));
      await kill(child);
      const store = stores.open({ path });
      const records = store.read('t');
      const acknowledged = Math.max(...printed.lines.map(Number));
      expect(acknowledged).toBeGreaterThan(kept);
      expect(records.length).toBeGreaterThanOrEqual(acknowledged);
      expect(records.map(({ seq }) => seq)).toEqual(upTo(records.length));
      expect(foldRecords(records).seq).toBe(records.length);
      expect(store.list()).toMatchObject([{ seq: records.length }]);
      const epochs = records.map(({ epoch }) => epoch);
      expect(epochs).toEqual(epochs.toSorted((a, b) => a - b));
      kept = records.length;
      await whenFree(store);
      await store.close();
    }
  });

  it('lets exactly one of several processes that race for a lease have it', async () => {
    const path = stores.path();
    const store = stores.open({ path });
    const racers = upTo(3).map(() => children.start('race', path));
    await Promise.all(racers.map((racer) => nextMessage(racer)));
    for (const round of upTo(5)) {
      await store.create(`t-${round}`, startRecord(`t-${round}`));
      const outcomes = racers.map((racer) => nextMessage(racer));
      for (const racer of racers) racer.send(`t-${round}`);
      expect((await Promise.all(outcomes)).flat().toSorted()).toEqual(['BUSY', 'BUSY', 'won']);
    }
    await Promise.all(racers.map(kill));
  });

  it('S1-70 S1-79 resumes a turn that was killed between the tools of a batch: the finished ones do not run again, the others as their policy says', async () => {
    const path = stores.path();
    const world = join(stores.path(), 'world');
    const child = children.start('turn', path, world, 't');
    await nextMessage(child);
    await kill(child);
    const store = stores.open({ path });
    await whenFree(store);
    const model = scriptedLLM([{ text: 'All done.' }]);
    const turn = AgentLoop.resume('t', {
      agentId: 'worker',
      llmProvider: model,
      toolProviders: [batchTools(world, { hangs: false })],
      taskStateStore: store,
      enableTracing: false,
    });
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'All done.' });
    await turn.settled;
    const deeds = readFileSync(world, 'utf8').trim().split('\n').toSorted();
    expect(deeds).toEqual(['book', 'look', 'look', 'mail', 'pay']);
    const told = model.calls[0]?.messages.filter(({ role }) => role === 'tool');
    expect(told).toMatchObject([
      { content: 'book done' },
      { content: 'mail done' },
      { content: expect.stringContaining('OUTCOME_UNKNOWN') },
      { content: 'look done' },
    ]);
    const results = store.read('t').filter(({ type }) => type === 'tool.result');
    expect(results).toHaveLength(4);
  });

  it('hands a turn over on SIGTERM: another process goes on long before the lease would have run out', async () => {
    const path = stores.path();
    const world = join(stores.path(), 'world');
    const store = stores.open({ path });
    const child = children.start('drained', path, world, 't');
    const exited = once(child, 'exit');
    await nextMessage(child);
    expect(store.list()).toMatchObject([{ held: true }]);
    const lost = nextMessage(child);
    child.kill('SIGTERM');
    await whenFree(store);
    const model = scriptedLLM([{ text: 'All done.' }]);
    const toolProviders = [batchTools(world, { hangs: false })];
    const config = {
      agentId: 'worker',
      llmProvider: model,
      toolProviders,
      taskStateStore: store,
      enableTracing: false,
    };
    expect(await AgentLoop.resume('t', config).result()).toMatchObject({ status: 'completed', text: 'All done.' });
    expect(await lost).toEqual(['SHUTDOWN', undefined]);
    expect(await exited).toEqual([0, null]);
    expect(readFileSync(world, 'utf8').trim().split('\n').toSorted()).toEqual(['book', 'look', 'mail', 'pay']);
    const attempts = store.read('t').flatMap((record) => (record.type === 'llm.start' ? [record.attempt] : []));
    expect(attempts).toEqual([1, 1, 2]);
  });

  it('can be read and written on while a killed process had it open', async () => {
    const path = stores.path();
    const store = stores.open({ path });
    const child = children.start('append', path, 'theirs', 'child');
    await linesOf(child).reach(2);
    await store.create('ours', startRecord('ours'));
    const lease = await store.acquire('ours', 'parent', 60_000);
    await kill(child);
    for (const seq of upTo(20).map((index) => index + 1)) {
      const record = { ...note(seq), seq, epoch: lease.epoch, at: seq };
      await store.append(lease, [record], { status: 'working', barrier: true });
    }
    expect(store.read('ours')).toHaveLength(21);
    expect(store.read('theirs').length).toBeGreaterThan(1);
  });
});
