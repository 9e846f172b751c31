import { expect, it } from '@jest/globals';
import { AgentLoopError, agent } from 'millrace';
import { gate } from 'millrace/testing';
import type { JournalRecord } from 'millrace/types';
import { answering, asking, callsOnce, fleetBench, modelOf, says, until, user } from '../fleet/fleet-bench.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';

/** Neither wakes a turn within a test. */
const withoutSweep = { sweepEveryMs: 600_000 };

describeRedis('wake-ups of a fleet', () => {
  const on = fleetBench();

  /** Answers a turn as soon as its question is in the journal, so many moments after a record was written. */
  async function answerAfter(taskId: string, type: JournalRecord['type'], ticks: number, answer: () => Promise<void>) {
    const seen = new Promise<void>((resolve, reject) => {
      const following = on.store.follow(taskId).subscribe({
        next: (signal) => {
          if (signal.type !== 'record' || signal.record.type !== type) return;
          queueMicrotask(() => following.unsubscribe());
          resolve();
        },
        error: reject,
      });
    });
    await seen;
    for (let tick = 0; tick < ticks; tick++) await new Promise((resolve) => setImmediate(resolve));
    await answer();
  }

  it('F-08 a turn is not lost when the one ahead ends while a worker releases it unrun, without a sweep', async () => {
    const { store } = on;
    let isRefused = false;
    const refused = gate();
    const seen = gate();
    const slow = new Proxy(store, {
      get(target, name) {
        if (name === 'release')
          return async (...given: Parameters<typeof store.release>) => {
            if (given[0].taskId === 'second' && !isRefused) {
              isRefused = true;
              refused.open();
              await seen.pass();
            }
            return store.release(...given);
          };
        if (name === 'describe')
          return async (taskId: string) => {
            const first = await store.describe('first');
            const summary = await store.describe(taskId);
            // The worker of the first turn looks for the next one.
            if (taskId === 'second' && first?.state === 'completed') {
              heldThen.push(summary?.held === true);
              queueMicrotask(() => seen.open());
            }
            return summary;
          };
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const heldThen: boolean[] = [];
    const queue = on.queue({ store: slow });
    const provider = modelOf(async ({ messages }) => {
      if (messages.at(-1)?.content === '1') await refused.pass();
      return says('Done.');
    });
    on.work(queue, [answering({ provider })], { ...withoutSweep, leaseMs: 10_000, lockMs: 30_000 });
    for (const [text, taskId] of [
      ['1', 'first'],
      ['2', 'second'],
    ] as const)
      await queue.start(user(text), { agentId: 'ada', taskId, contextId: 'c' });
    expect(await on.ended('second')).toBe('completed');
    expect(heldThen[0]).toBe(true);
  });

  it('F-08 an answer at any moment around the suspension is not lost, without a sweep', async () => {
    const queue = on.queue();
    const provider = callsOnce('pay');
    const ada = agent({ id: 'ada', provider, tools: [asking()], enableTracing: false });
    on.work(queue, [ada], { ...withoutSweep, concurrency: 10 });
    on.work(queue, [ada], { ...withoutSweep, concurrency: 10 });
    const approve = { '1:0': { approved: true } };
    const moments = (['turn.asked', 'turn.suspended'] as const).flatMap((type) =>
      Array.from({ length: 20 }, (_, ticks) => ({ type, ticks })),
    );
    const ids = moments.map(({ type, ticks }) => `${type}-${ticks}`);
    await Promise.all(
      moments.map(async ({ type, ticks }, index) => {
        const taskId = ids[index] ?? '';
        await queue.start(user('Pay'), { agentId: 'ada', taskId });
        await answerAfter(taskId, type, ticks, () => queue.answer(taskId, approve));
      }),
    );
    await until(async () => (await on.store.list({ state: 'completed', limit: 100 })).length === ids.length);
  });

  it('waking a turn any number of times, while it runs and after, runs it once', async () => {
    const queue = on.queue();
    let calls = 0;
    const provider = modelOf(async () => {
      calls++;
      await Promise.all(Array.from({ length: 20 }, () => queue.wake('t')));
      return says('Done.');
    });
    on.work(queue, [answering({ provider })], withoutSweep);
    await queue.start(user('1'), { agentId: 'ada', taskId: 't' });
    expect(await on.ended('t')).toBe('completed');
    await Promise.all(Array.from({ length: 20 }, () => queue.wake('t')));
    await until(async () => {
      const { waiting, active, delayed } = await queue.health();
      return waiting + active + delayed === 0;
    });
    expect(calls).toBe(1);
    expect((await on.store.read('t')).filter(({ type }) => type === 'turn.resumed')).toEqual([]);
  });

  it('F-02 a turn whose producer died before its job was added begins with a sweep', async () => {
    const queue = on.queue();
    const { store } = on;
    const producer = agent({
      id: 'ada',
      provider: modelOf(() => says('Never.')),
      taskStateStore: store,
      enableTracing: false,
    });
    await producer.submit('1', { taskId: 't', contextId: 'c' });
    // An odd number: Redis refused the half of it, and there was no sweep.
    on.work(queue, [answering()], { sweepEveryMs: 501 });
    expect(await on.ended('t')).toBe('completed');
  });

  it('F-11 a turn whose model is away backs off under its id, holding no place of a worker, and continues', async () => {
    const queue = on.queue();
    const { store } = on;
    let calls = 0;
    const provider = modelOf(({ messages }) => {
      if (messages.at(-1)?.content !== 'patient') return says('Done.');
      calls++;
      if (calls < 3) throw new AgentLoopError('PROVIDER_RATE_LIMIT', 'Slow down.', { retryable: true, status: 429 });
      return says('At last.');
    });
    on.work(queue, [answering({ provider, retry: null })], { ...withoutSweep, concurrency: 1 });
    const retryPlan = { attempts: 4, delayMs: 4_500, maxDelayMs: 20_000 };
    await queue.start(user('patient'), { agentId: 'ada', taskId: 'patient', retryPlan });
    await until(async () => (await queue.health()).delayed === 1);
    const suspended = (await store.describe('patient'))?.seq ?? 0;
    expect(await store.describe('patient')).toMatchObject({ state: 'working', held: false });
    // The one place is free.
    await queue.start(user('other'), { agentId: 'ada', taskId: 'other' });
    expect(await on.ended('other')).toBe('completed');
    expect(suspended).toBeLessThan(5);
    expect(await on.ended('patient')).toBe('completed');
    expect(calls).toBe(3);
    const records = await store.read('patient');
    const pauses = records.flatMap((record) =>
      record.type === 'turn.suspended' ? [(record.hold?.until ?? 0) - record.at] : [],
    );
    expect(pauses).toHaveLength(2);
    expect(pauses[0]).toBeGreaterThan(1_000);
    expect(pauses[1]).toBeGreaterThan(pauses[0] ?? 0);
    expect(records.at(-1)?.type).toBe('turn.done');
  });

  it('F-11 a turn that used up its attempts is dead', async () => {
    const queue = on.queue();
    const provider = modelOf(() => {
      throw new AgentLoopError('PROVIDER_RATE_LIMIT', 'Slow down.', { retryable: true, status: 429 });
    });
    on.work(queue, [answering({ provider, retry: null })], withoutSweep);
    const retryPlan = { attempts: 2, delayMs: 10 };
    const { taskId } = await queue.start(user('1'), { agentId: 'ada', retryPlan });
    expect(await on.ended(taskId)).toBe('failed');
    expect((await on.store.read(taskId)).at(-1)).toMatchObject({ type: 'turn.failed', reason: 'retries' });
    expect(await queue.dead()).toMatchObject([{ taskId, code: 'PROVIDER_RATE_LIMIT' }]);
  });
});
