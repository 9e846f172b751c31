import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from '@jest/globals';
import { healthHandler } from 'millrace/fleet';
import { gate } from 'millrace/testing';
import { answering, fleetBench, modelOf, says, until, user } from '../fleet/fleet-bench.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';

describeRedis('what turns of a fleet get', () => {
  const on = fleetBench();
  const begunBy = (begun: string[], pauseMs = 0) =>
    modelOf(async ({ messages }) => {
      begun.push(String(messages.at(-1)?.content));
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      return says('Done.');
    });
  const idle = async (queue: ReturnType<typeof on.queue>) => {
    const { waiting, active, delayed } = await queue.health();
    return waiting + active + delayed === 0;
  };

  it('F-12 a tenant with few turns is not behind one with many', async () => {
    const queue = on.queue();
    for (let index = 0; index < 60; index++) await queue.start(user('A'), { agentId: 'ada', tenant: 'a' });
    for (let index = 0; index < 5; index++) await queue.start(user('B'), { agentId: 'ada', tenant: 'b' });
    const begun: string[] = [];
    on.work(queue, [answering({ provider: begunBy(begun) })], { concurrency: 1 });
    await until(() => begun.length === 65);
    expect(begun.lastIndexOf('B')).toBeLessThan(15);
  });

  it('F-12 tenantConcurrency holds over several workers, and others are not kept waiting', async () => {
    const queue = on.queue();
    let running = 0;
    let most = 0;
    const other: string[] = [];
    const provider = modelOf(async ({ messages }) => {
      if (messages.at(-1)?.content === 'B') {
        other.push('B');
        return says('Done.');
      }
      running++;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 50));
      running--;
      return says('Done.');
    });
    for (let index = 0; index < 12; index++) await queue.start(user('A'), { agentId: 'ada', tenant: 'a' });
    await queue.start(user('B'), { agentId: 'ada', tenant: 'b' });
    const options = { concurrency: 5, tenantConcurrency: () => 2 };
    for (let count = 0; count < 3; count++) on.work(queue, [answering({ provider })], options);
    await until(() => other.length === 1);
    await until(async () => (await on.store.list({ state: 'completed', limit: 20 })).length === 13);
    expect(most).toBe(2);
  });

  it('F-13 a global concurrency holds over several workers', async () => {
    const queue = on.queue({ limits: { concurrency: 3 } });
    let running = 0;
    let most = 0;
    const provider = modelOf(async () => {
      running++;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 20));
      running--;
      return says('Done.');
    });
    for (let index = 0; index < 24; index++) await queue.start(user('A'), { agentId: 'ada' });
    for (let count = 0; count < 4; count++) on.work(queue, [answering({ provider })]);
    await until(() => idle(queue));
    expect(most).toBe(3);
  });

  it('F-13 limits come back after the queue was lost', async () => {
    const queue = on.queue({ limits: { concurrency: 3 } });
    on.work(queue, [answering()]);
    const meta = `{${on.nameOfTest}}:ada:meta`;
    const concurrency = () => on.redis.server.cli('HGET', meta, 'concurrency');
    await until(() => concurrency() === '3');
    on.redis.server.cli('DEL', meta);
    await until(() => concurrency() === '3');
  });

  it('F-13 a rate holds over several workers', async () => {
    const queue = on.queue({ limits: { rate: { turns: 5, perMs: 300 } } });
    const begunAt: number[] = [];
    const provider = modelOf(() => {
      begunAt.push(Date.now());
      return says('Done.');
    });
    for (let index = 0; index < 20; index++) await queue.start(user('A'), { agentId: 'ada' });
    for (let count = 0; count < 4; count++) on.work(queue, [answering({ provider })]);
    await until(() => idle(queue));
    // Four windows: the first begins with the first turn.
    expect((begunAt.at(-1) ?? 0) - (begunAt[0] ?? 0)).toBeGreaterThan(3 * 300 - 100);
  });

  it('F-13 of many producers at once no more than maxOutstanding turns get in, and the others write nothing', async () => {
    const queues = Array.from({ length: 4 }, () => on.queue({ maxOutstanding: 10 }));
    const starts = queues.flatMap((queue) =>
      Array.from({ length: 10 }, () => queue.start(user('A'), { agentId: 'ada' })),
    );
    const given = await Promise.allSettled(starts);
    expect(given.filter(({ status }) => status === 'fulfilled')).toHaveLength(10);
    for (const each of given)
      if (each.status === 'rejected') expect(each.reason).toMatchObject({ code: 'FULL', retryable: true });
    expect(await on.store.list({ limit: 50 })).toHaveLength(10);
    const [queue] = queues;
    if (!queue) throw new Error('no queue');
    on.work(queue, [answering()]);
    await until(() => idle(queue));
    await expect(queue.start(user('A'), { agentId: 'ada' })).resolves.toBeDefined();
  });

  it('F-24 health and metrics follow what happens', async () => {
    const queue = on.queue();
    const held = gate();
    const provider = modelOf(async ({ messages }) => {
      if (messages.at(-1)?.content === 'fail') throw new Error('No.');
      await held.pass();
      return says('Done.');
    });
    for (let index = 0; index < 3; index++) await queue.start(user('A'), { agentId: 'ada' });
    await new Promise((resolve) => setTimeout(resolve, 30));
    const before = await queue.health();
    expect(before).toMatchObject({ waiting: 3, active: 0, dead: 0, workers: [] });
    expect(before.oldestWaitingMs).toBeGreaterThanOrEqual(25);
    const working = on.work(queue, [answering({ provider, retry: null })], { concurrency: 2, version: '7.1' });
    const server = createServer(healthHandler(working)).listen(0, '127.0.0.1');
    const get = async (path: string) => {
      const { port } = server.address() as AddressInfo;
      const response = await fetch(`http://127.0.0.1:${port}${path}`);
      return { status: response.status, text: await response.text() };
    };
    try {
      await until(async () => (await queue.health()).active === 2);
      expect(await queue.health()).toMatchObject({ waiting: 1, workers: [{ version: '7.1', agents: ['ada'] }] });
      expect([(await get('/healthz')).status, (await get('/readyz')).status, (await get('/x')).status]).toEqual([
        200, 200, 404,
      ]);
      expect((await get('/metrics')).text).toContain('millrace_fleet_waiting{agent="ada"} 1\n');
      expect((await get('/metrics')).text).toContain('millrace_fleet_worker_running 2\n');
      held.open();
      await until(() => idle(queue));
      const { taskId } = await queue.start(user('fail'), { agentId: 'ada' });
      expect(await on.ended(taskId)).toBe('failed');
      await until(async () => (await queue.health()).dead === 1);
      expect((await get('/metrics')).text).toContain('millrace_fleet_worker_runs_total{outcome="completed"} 3\n');
      await on.stop(working);
      expect((await get('/readyz')).status).toBe(503);
    } finally {
      server.close();
    }
  });
});
