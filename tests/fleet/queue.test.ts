import { expect, it } from '@jest/globals';
import { AgentLoopError, agent, InMemoryStateStore, systemClock, tool } from 'millrace';
import { turnQueue, worker } from 'millrace/fleet';
import type { FleetQueue } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { startedRecord } from '../core/dead-turn.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { answering, asking, callsOnce, fleetBench, modelOf, says, until, user } from './fleet-bench.ts';

describeRedis('turnQueue and worker', () => {
  const on = fleetBench();
  const typesOf = async (taskId: string) => (await on.store.read(taskId)).map(({ type }) => type);

  it('F-01 starts a turn with one record, and its first run by a worker is no resume', async () => {
    const queue = on.queue();
    const { taskId } = await queue.start(user('Hello'), { agentId: 'ada', metadata: { order: 17 } });
    expect(await typesOf(taskId)).toEqual(['turn.started']);
    on.work(queue, [answering()]);
    expect(await on.ended(taskId)).toBe('completed');
    expect(await typesOf(taskId)).not.toContain('turn.resumed');
  });

  it('starting a turn again with its id adds nothing, and another turn of that id is a conflict', async () => {
    const queue = on.queue();
    const options = { agentId: 'ada', taskId: 'once', contextId: 'c' };
    await queue.start(user('Hello'), options);
    await queue.start(user('Hello'), options);
    expect(await queue.health()).toMatchObject({ waiting: 1 });
    await expect(queue.start(user('Other'), options)).rejects.toMatchObject({ code: 'CONFLICT' });
  });

  it('a run of a turn that a later run has replaced does not give up the place of that turn in its tenant', async () => {
    const { counts } = on.queue() as FleetQueue;
    const limits = { most: 1, forMs: 60_000 };
    const lost = { tenant: 'acme', taskId: 't', epoch: 1 };
    const current = { ...lost, epoch: 2 };
    const other = { tenant: 'acme', taskId: 'other', epoch: 1 };
    expect(await counts.enter(lost, limits)).toBe(true);
    expect(await counts.enter(current, limits)).toBe(true);
    expect(await counts.enter(lost, { ...limits, most: 2 })).toBe(false);
    await counts.stay(lost, 0);
    await counts.leave(lost);
    expect(await counts.enter(other, limits)).toBe(false);
    await counts.leave(current);
    expect(await counts.enter(other, { ...limits, forMs: 0 })).toBe(true);
    // Its entry has expired.
    expect(await counts.enter(current, limits)).toBe(true);
    await counts.leave(current);
    for (const key of ['running', 'epochs']) expect(on.redis.server.cli('KEYS', `*:fleet:${key}:*`)).toBe('');
  });

  it('F-09 any id of a task is run, once', async () => {
    const queue = on.queue();
    let calls = 0;
    const counting = modelOf(() => {
      calls++;
      return says('Done.');
    });
    const ids = ['7', 'a:b', 'a:b:c', 'x'.repeat(128)];
    await Promise.all(ids.map((taskId) => queue.start(user('Hello'), { agentId: 'ada', taskId })));
    on.work(queue, [answering({ provider: counting })]);
    for (const taskId of ids) expect(await on.ended(taskId)).toBe('completed');
    expect(calls).toBe(ids.length);
  });

  it('turns of a context run in the order in which they were started, and hold no place of a worker while they wait', async () => {
    const queue = on.queue();
    const order: string[] = [];
    const held = gate();
    const provider = modelOf(async ({ messages }) => {
      const asked = String(messages.at(-1)?.content);
      order.push(asked);
      if (asked === '1') await held.pass();
      return says(`Answer ${asked}.`);
    });
    const ada = answering({ provider });
    for (const text of ['1', '2', '3'])
      await queue.start(user(text), { agentId: 'ada', taskId: `t${text}`, contextId: 'c' });
    await queue.start(user('other'), { agentId: 'ada', taskId: 'other', contextId: 'd' });
    on.work(queue, [ada], { concurrency: 2, sweepEveryMs: 600_000 });
    expect(await on.ended('other')).toBe('completed');
    expect(order).toEqual(['1', 'other']);
    held.open();
    expect(await on.ended('t3')).toBe('completed');
    expect(order).toEqual(['1', 'other', '2', '3']);
  });

  it('an answer wakes a turn that waits, and a cancel lets the next of its context begin', async () => {
    const queue = on.queue();
    let paid = 0;
    const ada = agent({
      id: 'ada',
      provider: callsOnce('pay'),
      tools: [asking(() => paid++)],
      enableTracing: false,
    });
    on.work(queue, [ada], { sweepEveryMs: 600_000 });
    await queue.start(user('1'), { agentId: 'ada', taskId: 'first', contextId: 'c' });
    await queue.start(user('2'), { agentId: 'ada', taskId: 'second', contextId: 'c' });
    await queue.start(user('3'), { agentId: 'ada', taskId: 'third', contextId: 'c' });
    const waits = async (taskId: string) => (await on.store.describe(taskId))?.state === 'input-required';
    await until(() => waits('first'));
    await queue.answer('first', { '1:0': { approved: true } });
    expect(await on.ended('first')).toBe('completed');
    expect(paid).toBe(1);
    await until(() => waits('second'));
    await queue.cancel('second', 'never mind');
    await until(() => waits('third'));
  });

  it('a failed turn is listed as dead until it is revived as a task of its own', async () => {
    const queue = on.queue();
    let broken = true;
    const provider = modelOf(() => {
      if (broken) throw new AgentLoopError('PROVIDER_AUTH', 'The key is wrong.');
      return says('Done.');
    });
    on.work(queue, [answering({ provider, retry: null })]);
    await queue.start(user('1'), { agentId: 'ada', taskId: 'lost' });
    expect(await on.ended('lost')).toBe('failed');
    expect(await queue.dead()).toMatchObject([{ taskId: 'lost', state: 'failed', code: 'PROVIDER_AUTH' }]);
    expect(await queue.health()).toMatchObject({ dead: 1 });
    broken = false;
    const { taskId } = await queue.revive('lost');
    expect(await on.ended(taskId)).toBe('completed');
    expect(await queue.revive('lost')).toEqual({ taskId });
    expect(await queue.dead()).toEqual([]);
  });

  it('a turn whose tool is missing is dead and open, and a worker that has the tool continues it', async () => {
    const queue = on.queue();
    const pay = asking();
    const provider = callsOnce('pay');
    const able = agent({ id: 'ada', provider, tools: [pay], enableTracing: false });
    const first = on.work(queue, [able], { sweepEveryMs: 600_000 });
    await queue.start(user('1'), { agentId: 'ada', taskId: 't' });
    await until(async () => (await on.store.describe('t'))?.state === 'input-required');
    await on.stop(first);
    const unable = agent({ id: 'ada', provider, enableTracing: false });
    const second = on.work(queue, [unable], { sweepEveryMs: 600_000 });
    await queue.answer('t', { '1:0': { approved: true } });
    await until(async () => (await queue.dead()).length === 1);
    expect(await queue.dead()).toMatchObject([
      { taskId: 't', state: 'stuck', message: expect.stringContaining('MISSING_TOOL') },
    ]);
    await on.stop(second);
    on.work(queue, [able], { sweepEveryMs: 600_000 });
    expect(await queue.revive('t')).toEqual({ taskId: 't' });
    expect(await on.ended('t')).toBe('completed');
    expect(await queue.dead()).toEqual([]);
  });

  it('a fork that was not written to its end is dead, and not taken for a child turn', async () => {
    const queue = on.queue();
    const forkedFrom = { taskId: 'old', at: 1, records: 5 };
    await on.store.create('t', startedRecord(systemClock, { forkedFrom, agentId: 'ada' }));
    on.work(queue, [answering()], { sweepEveryMs: 100 });
    await until(async () => (await queue.dead()).length === 1);
    expect(await queue.dead()).toMatchObject([
      { taskId: 't', message: expect.stringContaining('not written to its end') },
    ]);
  });

  it('a schedule starts turns under ids of their own', async () => {
    const queue = on.queue();
    on.work(queue, [answering()]);
    await queue.schedule('report', { every: 200 }, { agentId: 'ada', messages: user('Report.') });
    await until(async () => (await on.store.list({ state: 'completed' })).length >= 2);
    await queue.unschedule('report', 'ada');
    const ids = (await on.store.list({ state: 'completed' })).map(({ taskId }) => taskId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(id).toMatch(/^report:\d+$/);
  });

  it('a delayed turn begins when it is due, also where it is woken before', async () => {
    const queue = on.queue();
    let begunAt = 0;
    const provider = modelOf(() => {
      begunAt = Date.now();
      return says('Done.');
    });
    on.work(queue, [answering({ provider })]);
    const from = Date.now();
    await queue.start(user('Later'), { agentId: 'ada', taskId: 'later', delayMs: 700 });
    await queue.wake('later');
    expect(await on.ended('later')).toBe('completed');
    expect(begunAt - from).toBeGreaterThanOrEqual(680);
  });

  it('a turn gets what no journal keeps', async () => {
    const queue = on.queue();
    const seen: unknown[] = [];
    const look = tool({
      name: 'look',
      description: 'Looks.',
      parameters: { type: 'object', properties: {} },
      execute: (_, { authContext, context }) => {
        seen.push({ authContext, context });
        return 'seen';
      },
    });
    const ada = agent({ id: 'ada', provider: callsOnce('look'), tools: [look], enableTracing: false });
    on.work(queue, [ada], {
      turnOptions: ({ tenant, metadata }) => ({
        authContext: { user: { id: String(metadata['user']) } },
        context: { tenant },
      }),
    });
    const { taskId } = await queue.start(user('1'), { agentId: 'ada', tenant: 'acme', metadata: { user: 'ann' } });
    expect(await on.ended(taskId)).toBe('completed');
    expect(seen).toEqual([{ authContext: { user: { id: 'ann' } }, context: { tenant: 'acme' } }]);
  });
});

describeRedis('options of a fleet', () => {
  const connection = 'redis://127.0.0.1:1';

  it('a lock that is no longer than lease and stalled check is refused', async () => {
    const queue = turnQueue({ connection, store: new InMemoryStateStore() });
    const given = { queue, agents: [answering()], lockMs: 3_000, leaseMs: 2_000, stalledCheckMs: 1_000 };
    expect(() => worker(given)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
    expect(() => worker(given)).toThrow('lockMs is 3000, not above leaseMs + stalledCheckMs (2000 + 1000)');
    expect(worker({ ...given, lockMs: 3_001 })).toBeDefined();
    await queue.close();
  });

  it('what is no option, no agent and no queue is refused by its name', async () => {
    const store = new InMemoryStateStore();
    const queue = turnQueue({ connection, store });
    const refusal = (options: object) => () => worker(Object.assign({ queue, agents: [answering()] }, options));
    expect(refusal({ lock: 1 })).toThrow('worker has no option "lock"');
    expect(refusal({ agents: [] })).toThrow('give an array of at least one agent');
    expect(refusal({ agents: [answering(), answering()] })).toThrow('two agents have the id "ada"');
    expect(refusal({ queue: {} })).toThrow('give turnQueue({ connection, store })');
    expect(refusal({ agents: [answering({ taskStateStore: new InMemoryStateStore() })] })).toThrow(
      'another taskStateStore',
    );
    expect(() => turnQueue({ connection, store, maxOutstanding: 0 })).toThrow('maxOutstanding must be an integer ≥ 1');
    expect(() => turnQueue({ connection: { postgres: 'mysql://x' }, store })).toThrow('connection.postgres is');
    await queue.close();
  });

  it('a queue that does not answer is UNAVAILABLE, and the turn is kept', async () => {
    const store = new InMemoryStateStore();
    const queue = turnQueue({ connection, store });
    await expect(queue.start(user('1'), { agentId: 'ada', taskId: 't' })).rejects.toMatchObject({
      code: 'UNAVAILABLE',
    });
    expect(store.describe('t')).toMatchObject({ state: 'submitted' });
    await queue.close();
  });
});
