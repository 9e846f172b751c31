import { expect, it } from '@jest/globals';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { answering, fleetBench, modelOf, says, until, user } from './fleet-bench.ts';

describeRedis('the shares of tenants', () => {
  const on = fleetBench();
  const key = (...parts: readonly string[]) => [`{${on.nameOfTest}}`, ...parts].join(':');
  const cli = (...args: readonly string[]) => on.redis.server.cli(...args);

  /** Turns that say who they are when they begin, in order. */
  function begunBy(begun: string[]) {
    return modelOf(({ messages }) => {
      begun.push(String(messages.at(-1)?.content));
      return says('Done.');
    });
  }

  async function startAll(queue: ReturnType<typeof on.queue>, tenant: string, count: number): Promise<void> {
    for (let index = 0; index < count; index++) await queue.start(user(tenant), { agentId: 'ada', tenant });
  }

  /** By tenant, those that wait, in the order in which workers take them. */
  async function waiting(): Promise<readonly string[]> {
    const ids = cli('ZRANGE', key('ada', 'prioritized'), '0', '-1').split('\n');
    return Promise.all(
      ids.map(async (id) => {
        const { taskId } = JSON.parse(cli('HGET', key('ada', id), 'data'));
        const [started] = await on.store.read(taskId);
        return started?.type === 'turn.started' ? (started.settings.tenant ?? '') : '';
      }),
    );
  }

  it('F-12 1,000 turns of one tenant are queued, and 10 of another are done before 50 more of the first', async () => {
    const queue = on.queue();
    await Promise.all(Array.from({ length: 10 }, () => startAll(queue, 'a', 100)));
    await startAll(queue, 'b', 10);
    const begun: string[] = [];
    const working = on.work(queue, [answering({ provider: begunBy(begun) })], { concurrency: 5 });
    await until(() => begun.filter((tenant) => tenant === 'b').length === 10);
    await on.stop(working);
    expect(begun.slice(0, begun.lastIndexOf('b')).filter((tenant) => tenant === 'a').length).toBeLessThan(50);
  });

  it('a tenant that submits while its turns run gets no second share', async () => {
    const queue = on.queue();
    await startAll(queue, 'a', 40);
    const begun: string[] = [];
    const provider = begunBy(begun);
    const working = on.work(queue, [answering({ provider })], { concurrency: 1 });
    await until(() => begun.length >= 20);
    await on.stop(working);
    await startAll(queue, 'a', 30);
    await startAll(queue, 'b', 3);
    const order = await waiting();
    expect(order.filter((tenant) => tenant === 'b')).toHaveLength(3);
    expect(order.lastIndexOf('b')).toBeLessThan(8);
    await startAll(queue, 'c', 2);
    expect((await waiting()).lastIndexOf('c')).toBeLessThan(10);
  });

  it('tenants that have nothing waiting are forgotten', async () => {
    const queue = on.queue();
    for (let index = 0; index < 30; index++) await startAll(queue, `t${index}`, 1);
    expect(cli('ZCARD', key('fleet', 'shares', 'ada'))).toBe('30');
    const working = on.work(queue, [answering()]);
    await until(async () => (await on.store.list({ state: 'completed', limit: 40 })).length === 30);
    await on.stop(working);
    await startAll(queue, 'a', 1);
    expect(cli('ZCARD', key('fleet', 'shares', 'ada'))).toBe('1');
  });

  it('numbers that reach the largest priority of BullMQ begin again, and the order stays', async () => {
    const queue = on.queue();
    const last = 2 ** 21 - 1;
    await startAll(queue, 'a', 3);
    const ids = cli('ZRANGE', key('ada', 'prioritized'), '0', '-1').split('\n');
    // As they are after two million turns, none of which ever left the queue without another one that waits.
    ids.forEach((id, index) => {
      const priority = last - 2 + index;
      cli('ZADD', key('ada', 'prioritized'), String(priority * 2 ** 32 + index), id);
      cli('HSET', key('ada', id), 'priority', String(priority));
    });
    cli('ZADD', key('fleet', 'shares', 'ada'), String(last), 'a');
    await startAll(queue, 'a', 2);
    await startAll(queue, 'b', 2);
    expect(await waiting()).toEqual(['a', 'b', 'a', 'b', 'a', 'a', 'a']);
    const scores = cli('ZRANGE', key('ada', 'prioritized'), '0', '-1', 'WITHSCORES')
      .split('\n')
      .filter((_, index) => index % 2 === 1);
    expect(scores.map((score) => Math.floor(Number(score) / 2 ** 32))).toEqual([1, 1, 2, 2, 3, 4, 5]);
    expect(ids.map((id) => cli('HGET', key('ada', id), 'priority'))).toEqual(['1', '2', '3']);
  });
});
