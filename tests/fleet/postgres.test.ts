import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { agent, InMemoryStateStore } from 'millrace';
import { turnQueue, worker } from 'millrace/fleet';
import { describePostgres } from '../stores/postgres/describe-postgres.ts';
import { type PostgresProcess, startPostgres } from '../stores/postgres/postgres-process.ts';
import { asking, callsOnce, times, until, user } from './fleet-bench.ts';

describePostgres('a queue in PostgreSQL', () => {
  let server: PostgresProcess | undefined;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server?.remove());

  it('carries turns, their answers and any id of a task, and refuses what needs Redis', async () => {
    const store = new InMemoryStateStore();
    const queue = turnQueue({ connection: { postgres: server?.url ?? '' }, store });
    const ada = agent({ id: 'ada', provider: callsOnce('pay'), tools: [asking()], enableTracing: false });
    const given = { queue, agents: [ada], ...times, sweepEveryMs: 600_000 };
    expect(() => worker({ ...given, tenantConcurrency: () => 1 })).toThrow('tenantConcurrency needs a queue on Redis');
    const working = worker(given);
    const over = working.run();
    const ids = ['7', 'a:b', 'x'.repeat(128)];
    try {
      for (const taskId of ids) await queue.start(user('Pay'), { agentId: 'ada', taskId });
      const all = (state: string) => ids.every((id) => store.describe(id)?.state === state);
      await until(() => all('input-required'));
      for (const taskId of ids) await queue.answer(taskId, { '1:0': { approved: true } });
      await until(() => all('completed'));
      await until(async () => (await queue.health()).active === 0);
      expect(await queue.health()).toMatchObject({ waiting: 0, delayed: 0, workers: [] });
      for (const id of ids) expect(store.read(id)[1]?.type).not.toBe('turn.resumed');
    } finally {
      await working.drain();
      await over;
      await queue.close();
    }
  });
});
