import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { agent, InMemoryStateStore } from 'millrace';
import { queueRunner, runBatch } from 'millrace/batch';
import { type SchedulePlan, turnQueue, worker } from 'millrace/fleet';
import { lastValueFrom } from 'rxjs';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { freePort } from '../stores/redis/free-port.ts';
import { answering, asking, callsOnce, fleetBench, modelOf, says, times, until, user } from './fleet-bench.ts';

const withoutSweep = { sweepEveryMs: 600_000 };

describeRedis('a fleet whose queue is full, and one that is given what it cannot use', () => {
  const on = fleetBench();

  it('a delay that is no whole number of milliseconds is refused before anything is written', async () => {
    const queue = on.queue();
    for (const delayMs of [Number.NaN, -5, 1.5, Number.POSITIVE_INFINITY])
      await expect(queue.start(user('1'), { agentId: 'ada', taskId: 't', delayMs })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining('delayMs must be an integer from 0'),
      });
    expect(await on.store.list()).toEqual([]);
  });

  it.each<[SchedulePlan | object, string]>([
    [{}, 'either { every } or { pattern }'],
    [{ every: 1_000, pattern: '0 6 * * *' }, 'either { every } or { pattern }'],
    [{ every: 0 }, 'every must be an integer ≥ 1'],
    [{ every: -1 }, 'every must be an integer ≥ 1'],
    [{ every: 1.5 }, 'every must be an integer ≥ 1'],
    [{ pattern: 'tomorrow' }, 'pattern must be five or six fields'],
    [{ pattern: '0 6 * * *', tz: 'Nowhere' }, 'tz must be a time zone'],
  ])('the schedule %j is refused', async (plan, message) => {
    const turn = { agentId: 'ada', messages: user('1') };
    const given = JSON.parse(JSON.stringify(plan));
    await expect(on.queue().schedule('s', given, turn)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining(message),
    });
  });

  it('a schedule whose id cannot be that of a task, or that has no messages, is refused', async () => {
    const queue = on.queue();
    const turn = { agentId: 'ada', messages: user('1') };
    for (const id of ['', 'every day', 'x'.repeat(115)])
      await expect(queue.schedule(id, { every: 1_000 }, turn)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    const empty = JSON.parse('{ "agentId": "ada" }');
    await expect(queue.schedule('s', { every: 1_000 }, empty)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  it('a full queue does not keep schedules from starting turns', async () => {
    const queue = on.queue({ maxOutstanding: 1 });
    on.work(queue, [answering()], withoutSweep);
    await queue.schedule('s', { every: 100 }, { agentId: 'ada', messages: user('1') });
    await until(async () => (await on.store.list({ state: 'completed' })).length >= 2);
    await queue.unschedule('s', 'ada');
  });

  it('a batch waits for room in a full queue', async () => {
    const queue = on.queue({ maxOutstanding: 3 });
    on.work(queue, [answering()], withoutSweep);
    const folder = mkdtempSync(join(tmpdir(), 'millrace-batch-'));
    try {
      const runner = queueRunner(queue, { agentId: 'ada', store: on.store });
      const progress$ = runBatch(['1', '2', '3', '4', '5', '6'], { agent: runner, out: join(folder, 'results.jsonl') });
      expect(await lastValueFrom(progress$)).toMatchObject({ state: 'completed', completed: 6, failed: 0 });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('a worker refuses a queue of another copy of the package, and says what to do', () => {
    const other = Object.create({ ...on.queue(), [Symbol.for('millrace.FleetQueue')]: true });
    expect(() => worker({ queue: other, agents: [answering()] })).toThrow(
      'queue was made by another copy of millrace, such as one in a bundle beside the installed package',
    );
  });

  it('starting a turn again is no new turn, also where the queue is full', async () => {
    const queue = on.queue({ maxOutstanding: 1 });
    const first = await queue.start(user('1'), { agentId: 'ada', taskId: 't' });
    expect(await queue.start(user('1'), { agentId: 'ada', taskId: 't' })).toEqual(first);
    await expect(queue.start(user('1'), { agentId: 'ada', taskId: 'u' })).rejects.toMatchObject({ code: 'FULL' });
  });

  it('a turn that is cancelled while it is delayed is not outstanding any more', async () => {
    const queue = on.queue({ maxOutstanding: 1 });
    on.work(queue, [answering()], withoutSweep);
    await queue.start(user('1'), { agentId: 'ada', taskId: 'late', tenant: 'a', delayMs: 3_600_000 });
    await queue.cancel('late');
    await until(async () => {
      const { waiting, active, delayed } = await queue.health();
      return waiting + active + delayed === 0;
    });
    expect(on.redis.server.cli('ZCARD', `{${on.nameOfTest}}:fleet:outstanding:a`).trim()).toBe('0');
    await queue.start(user('2'), { agentId: 'ada', taskId: 'next' });
    expect(await on.ended('next')).toBe('completed');
  });

  it('a tenant without a limit runs, and one whose limit is no whole number does not, and is listed', async () => {
    const queue = on.queue();
    const limits: Readonly<Record<string, number>> = {
      broken: Number.NaN,
      half: 1.5,
      one: 1,
      all: Number.POSITIVE_INFINITY,
    };
    on.work(queue, [answering()], { ...withoutSweep, tenantConcurrency: (tenant) => limits[tenant] });
    for (const tenant of ['broken', 'half', 'one', 'all', 'unknown'])
      await queue.start(user('1'), { agentId: 'ada', taskId: tenant, tenant });
    for (const tenant of ['one', 'all', 'unknown']) expect(await on.ended(tenant)).toBe('completed');
    await until(async () => (await queue.dead()).length === 2);
    const message = expect.stringMatching(/^INVALID_CONFIG: tenantConcurrency gives (NaN|1\.5) for a tenant/);
    expect(await queue.dead()).toMatchObject([{ message }, { message }]);
  });

  it.each(['{"id":"w1",', 'null', '7', '{"id":"w1"}', '{"id":"w1","agents":[1],"at":9e15}'])(
    'R-19 an entry %j in the list of workers spoils itself only',
    async (entry) => {
      const queue = on.queue();
      await queue.start(user('1'), { agentId: 'ada', taskId: 't' });
      const redis = new Redis(on.redis.server.url);
      const good = { id: 'w2', version: '1', agents: ['a'], running: 0, draining: false, at: 9e15 };
      await redis.hset(`{${on.nameOfTest}}:fleet:workers`, 'w1', entry, 'w2', JSON.stringify(good));
      redis.disconnect();
      expect(await queue.health()).toMatchObject({ waiting: 1, workers: [{ id: 'w2' }] });
      expect(await queue.dead()).toEqual([]);
    },
  );

  it('turnOptions that fail are asked again, and the queue keeps nothing of what they failed with', async () => {
    const queue = on.queue();
    const logged: unknown[] = [];
    const log = (_message: string, fields?: object) => {
      logged.push(fields);
    };
    const logger = { debug: log, info: log, warn: log, error: log };
    let asked = 0;
    const turnOptions = () => {
      asked++;
      if (asked === 1) throw new Error('login failed: hunter2');
      return {};
    };
    on.work(queue, [answering()], { ...withoutSweep, logger, turnOptions });
    await queue.start(user('1'), { agentId: 'ada', taskId: 't' });
    await until(() => asked === 1);
    await until(async () => (await queue.health()).delayed === 1);
    expect(logged).toContainEqual({ taskId: 't', error: 'login failed: hunter2' });
    expect(jobs().filter((fields) => fields.includes('turnOptions of the worker failed'))).toHaveLength(1);
    expect(jobs().filter((fields) => fields.includes('hunter2'))).toEqual([]);
    expect(await on.ended('t')).toBe('completed');
  });

  /** What the queue of the agent keeps of each job. */
  function jobs(): readonly string[] {
    const { server } = on.redis;
    const keys = server.cli('KEYS', `{${on.nameOfTest}}:ada:[0-9]*`).split('\n');
    return keys.filter((key) => /:\d+$/.test(key)).map((key) => server.cli('HGETALL', key));
  }

  it('a worker that is drained before its queue answered ends without an error', async () => {
    const store = new InMemoryStateStore();
    const queue = turnQueue({ connection: `redis://127.0.0.1:${await freePort()}`, store });
    const working = worker({ queue, agents: [answering()] });
    const over = working.run();
    await working.drain();
    await queue.close();
    await expect(over).resolves.toBeUndefined();
  });

  it('a failed turn that several processes revive at once is revived once', async () => {
    const queue = on.queue();
    let isAway = true;
    const provider = modelOf(() => {
      if (isAway) throw new Error('away');
      return says('Done.');
    });
    on.work(queue, [answering({ provider, retry: null })], { ...times, ...withoutSweep });
    const all = Array.from({ length: 5 }, (_, index) => `t${index}`);
    for (const taskId of all) await queue.start(user('1'), { agentId: 'ada', taskId });
    for (const taskId of all) expect(await on.ended(taskId)).toBe('failed');
    isAway = false;
    const other = on.queue();
    for (const taskId of all) {
      const revived = await Promise.all([queue.revive(taskId), other.revive(taskId), queue.revive(taskId)]);
      const ids = [...new Set(revived.map((each) => each.taskId))];
      expect(ids).toEqual([`${taskId}:retry`]);
      expect(await on.ended(`${taskId}:retry`)).toBe('completed');
    }
    expect(await queue.dead()).toEqual([]);
  });

  it('a process that has not used the queue yet lists the turns that no worker can run', async () => {
    const queue = on.queue();
    const pays = agent({ id: 'ada', provider: callsOnce('pay'), tools: [asking()], enableTracing: false });
    const first = on.work(queue, [pays], withoutSweep);
    await queue.start(user('Pay'), { agentId: 'ada', taskId: 't' });
    await until(async () => (await on.store.describe('t'))?.state === 'input-required');
    await on.stop(first);
    const withoutTool = on.work(queue, [answering()], withoutSweep);
    await queue.answer('t', { '1:0': { approved: true } });
    await until(async () => (await queue.dead()).length === 1);
    await on.stop(withoutTool);
    expect(await on.queue().dead()).toMatchObject([{ taskId: 't', state: 'stuck' }]);
  });
});
