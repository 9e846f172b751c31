import { expect, it } from '@jest/globals';
import { AgentLoop, refuses } from 'millrace/internals';
import { scriptedLLM } from 'millrace/testing';
import { describeRedis } from './describe-redis.ts';
import { faultedTurn, resumedTurn } from './faulted-turn.ts';
import { RedisBench } from './redis-bench.ts';

const config = { agentId: 'a', llmProvider: scriptedLLM([]) };

describeRedis('bad input to turns on Redis', () => {
  const bench = new RedisBench();

  /** A turn that waits behind its first tool, its process gone, its lease run out: six records. */
  async function deadTurn(taskId: string): Promise<void> {
    const store = bench.open();
    const { turn, second, lost } = faultedTurn(store, { taskId });
    await second.reached;
    await turn.pause('so that it stands still');
    second.open();
    await lost;
    await turn.settled;
  }

  function journal(taskId: string): string {
    return bench.server.cli('XRANGE', bench.key(taskId, 'j'), '-', '+');
  }

  /** `[id, field, value]` of each entry. */
  function entries(taskId: string): readonly (readonly [string, string, string])[] {
    const lines = journal(taskId).split('\n');
    return Array.from({ length: lines.length / 3 }, (_, n) => [
      lines[3 * n] ?? '',
      lines[3 * n + 1] ?? '',
      lines[3 * n + 2] ?? '',
    ]);
  }

  it.each(['', 'a b', '}', '../x', 'ä', 'x'.repeat(129)])(
    'the task id %j is INVALID_INPUT wherever it is given',
    async (taskId) => {
      const store = bench.open();
      const loop = new AgentLoop({ ...config, taskStateStore: store });
      await refuses('INVALID_INPUT', () => loop.startTurn([{ role: 'user', content: 'Go' }], { taskId }));
      await refuses('INVALID_INPUT', () => AgentLoop.resume(taskId, { ...config, taskStateStore: store }));
      await refuses('INVALID_INPUT', () => AgentLoop.observe(taskId, { store }));
      await refuses('INVALID_INPUT', () => AgentLoop.cancel(taskId, { store }));
      await refuses('INVALID_INPUT', () => AgentLoop.answer(taskId, { store, answers: { '1:0': {} } }));
      expect(bench.server.cli('DBSIZE')).toBe('0');
    },
  );

  it.each([
    ['its last record', (ids: readonly string[]) => ids.slice(-1)],
    ['its first record', (ids: readonly string[]) => ids.slice(0, 1)],
    ['a record in the middle', (ids: readonly string[]) => ids.slice(2, 3)],
  ])('a journal that lost %s is POISON, runs nothing and stays as it is', async (what, cut) => {
    const taskId = `cut-${what.replaceAll(' ', '-')}`;
    await deadTurn(taskId);
    bench.server.cli('XDEL', bench.key(taskId, 'j'), ...cut(entries(taskId).map(([id]) => id)));
    const left = journal(taskId);
    const { lost, ran } = resumedTurn(bench.open(), taskId, []);
    expect(await lost).toMatchObject({ code: 'POISON' });
    expect(ran).toEqual([]);
    expect(journal(taskId)).toBe(left);
  });

  it.each([
    ['made no JSON', (value: string) => value.slice(1)],
    ['given an unknown type', (value: string) => value.replace('tool.result', 'tool.wish')],
    ['given another call’s id', (value: string) => value.replace('"1:0"', '"7:7"')],
  ])('a journal with a record that was %s is POISON or SCHEMA, runs nothing and stays as it is', async (what, edit) => {
    const taskId = `edited-${what.replaceAll(/\W/g, '-')}`;
    await deadTurn(taskId);
    const edited = entries(taskId);
    bench.server.cli('DEL', bench.key(taskId, 'j'));
    for (const [id, field, value] of edited) {
      const changed = value.includes('"tool.result"') ? edit(value) : value;
      bench.server.cli('XADD', bench.key(taskId, 'j'), id, field, changed);
    }
    const left = journal(taskId);
    const { lost, ran } = resumedTurn(bench.open(), taskId, []);
    expect(await lost).toMatchObject({ code: expect.stringMatching(/^(POISON|SCHEMA)$/), retryable: false });
    expect(ran).toEqual([]);
    expect(journal(taskId)).toBe(left);
  });

  it('journals swapped between two tasks are POISON for both, and named', async () => {
    await Promise.all(['swapped-a', 'swapped-b'].map(deadTurn));
    const [a, b] = [bench.key('swapped-a', 'j'), bench.key('swapped-b', 'j')];
    // Within one slot of no cluster, so that the names may be anything.
    for (const [from, to] of [
      [a, 'aside'],
      [b, a],
      ['aside', b],
    ] as const)
      bench.server.cli('RENAME', from, to);
    for (const [taskId, other] of [
      ['swapped-a', 'swapped-b'],
      ['swapped-b', 'swapped-a'],
    ] as const) {
      const { lost, ran } = resumedTurn(bench.open(), taskId, []);
      expect(await lost).toMatchObject({
        code: 'POISON',
        message: expect.stringContaining(`it belongs to task "${other}"`),
      });
      expect(ran).toEqual([]);
    }
  });

  it.each([
    ['h', 'NOT_FOUND'],
    ['j', 'POISON'],
  ] as const)(
    'a server that evicted key %s of a task: %s, and never a fresh start under its name',
    async (letter, code) => {
      const taskId = `evicted-${letter}`;
      await deadTurn(taskId);
      bench.server.cli('DEL', bench.key(taskId, letter));
      const { lost, ran } = resumedTurn(bench.open(), taskId, []);
      expect(await lost).toMatchObject({ code });
      const again = faultedTurn(bench.open(), { taskId });
      expect(await again.lost).toMatchObject({
        code: 'POISON',
        message: expect.stringContaining('lost or evicted keys'),
      });
      expect([...ran, ...again.ran]).toEqual([]);
    },
  );

  it('a server that evicts is refused by check, with the cure', async () => {
    bench.server.cli('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
    try {
      expect(await bench.open().check()).toMatchObject({
        ok: false,
        warnings: expect.arrayContaining([expect.stringContaining('set it to noeviction')]),
      });
    } finally {
      bench.server.cli('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    }
  });

  it('a result over the limit becomes an error that the model reads, one just below it is kept whole', async () => {
    const store = bench.open();
    const limit = 8 * 1024 * 1024;
    const results = ['x'.repeat(limit + 1), 'x'.repeat(limit - 1_000)];
    for (const [index, result] of results.entries()) {
      const { turn, second } = faultedTurn(store, { fault: () => result });
      second.open();
      expect(await turn.result()).toMatchObject({ status: 'completed' });
      await turn.settled;
      const record = (await store.read(turn.taskId)).find(({ type }) => type === 'tool.result');
      if (index === 0) expect(record).toMatchObject({ success: false, error: { code: 'TOOL_TOO_LARGE' } });
      else expect(record).toMatchObject({ success: true, content: result });
    }
  });
});
