import { describe, expect, it } from '@jest/globals';
import { InMemoryStateStore } from 'millrace';
import { InMemoryPushStore } from 'millrace/a2a';
import { fakeClock, gate } from 'millrace/testing';
import { plainTools } from '../../core/plain-tools.ts';
import { answerOf, rpc, serverBench, wireMessage } from './test-server.ts';
import { Webhook } from './webhook.ts';

const on = serverBench();

const refund = plainTools({ refund: { needsApproval: true, execute: () => 'refunded' } });
const asks = { toolCalls: [{ name: 'refund' }] };

async function hooks(count: number): Promise<readonly Webhook[]> {
  const started = await Promise.all(Array.from({ length: count }, () => Webhook.start()));
  for (const hook of started) on.after(() => hook.close());
  return started;
}

/** A server that makes one delivery at a time, or so many, on a clock that runs while something is waited for. */
async function serverOf(steps: Parameters<typeof on.echo>[0], concurrency = 1) {
  const clock = fakeClock();
  let isOver = false;
  on.after(() => {
    isOver = true;
  });
  const store = new InMemoryPushStore({ clock });
  const journal = new InMemoryStateStore();
  const agent = on.echo(steps, { toolProviders: [refund], taskStateStore: journal });
  const push = { store, allowPrivateTargets: true, allowHttp: true, concurrency };
  const { url } = await on.serve({ agent, push, clock, heartbeatMs: 0, recoverEveryMs: 0, rateLimit: null });
  return {
    url,
    store,
    journal,
    send: async (hook: Webhook) => {
      const configuration = { taskPushNotificationConfig: { url: hook.url } };
      const { result } = await answerOf(rpc(url, 'SendMessage', { ...wireMessage('Hi'), configuration }));
      return result.task.id as string;
    },
    until: async (isSo: () => boolean) => {
      while (!isSo() && !isOver) {
        clock.advance(100);
        await new Promise(setImmediate);
      }
    },
  };
}

const has = (hook: Webhook | undefined, state: string) => () =>
  hook?.received.some(({ body }) => body.includes(`TASK_STATE_${state}`)) ?? false;

describe('a delivery that waits for its task', () => {
  it('gives its place to one that has something to deliver, and gets one again', async () => {
    const [waiting, other] = await hooks(2);
    if (!waiting || !other) throw new Error('no hooks');
    const server = await serverOf([asks, { text: 'Hello.' }, { text: 'Done.' }]);
    const taskId = await server.send(waiting);
    await server.until(has(waiting, 'INPUT_REQUIRED'));
    await server.send(other);
    await server.until(has(other, 'COMPLETED'));
    const answer = { messageId: 'yes', role: 'ROLE_USER', taskId, parts: [{ data: { approved: true } }] };
    await rpc(server.url, 'SendMessage', { message: answer });
    await server.until(has(waiting, 'COMPLETED'));
    const ids = waiting.received.map(({ headers }) => headers['x-millrace-delivery']);
    expect(new Set(ids).size).toBe(ids.length);
    expect(waiting.received.filter(({ body }) => 'task' in JSON.parse(body))).toHaveLength(1);
  });

  it('takes turns with others that wait, each of which is told how its task ends', async () => {
    const all = await hooks(3);
    const server = await serverOf([asks, asks, asks, ...all.map(() => ({ text: 'Done.' }))]);
    const ids: string[] = [];
    for (const hook of all) {
      ids.push(await server.send(hook));
      await server.until(has(hook, 'INPUT_REQUIRED'));
    }
    for (const taskId of ids) await rpc(server.url, 'CancelTask', { id: taskId });
    for (const hook of all) await server.until(has(hook, 'CANCELED'));
  });

  it('keeps its place while nobody else has something to deliver', async () => {
    const [waiting] = await hooks(1);
    if (!waiting) throw new Error('no hook');
    const server = await serverOf([asks]);
    const taskId = await server.send(waiting);
    await server.until(has(waiting, 'INPUT_REQUIRED'));
    let reads = 0;
    const read = server.journal.read.bind(server.journal);
    server.journal.read = (...args) => {
      reads++;
      return read(...args);
    };
    let ticks = 0;
    await server.until(() => ++ticks > 400);
    expect(reads).toBe(0);
    expect(server.store.claim({ owner: 'x', leaseMs: 1, limit: 9, taskId })).toEqual([]);
  });
});

describe('a delivery whose receiver does not answer', () => {
  it('keeps its place while it posts', async () => {
    const [slow, other] = await hooks(2);
    if (!slow || !other) throw new Error('no hooks');
    const held = gate();
    slow.before = () => held.pass();
    const server = await serverOf([{ text: 'One.' }, { text: 'Two.' }]);
    await server.send(slow);
    await held.reached;
    await server.send(other);
    let ticks = 0;
    await server.until(() => ++ticks > 400);
    expect(other.received).toEqual([]);
    held.open();
    await server.until(has(other, 'COMPLETED'));
  });
});

describe('a delivery that is to be tried again', () => {
  it('gives its place to others meanwhile, and is given up after as many tries as ever', async () => {
    const [down, other] = await hooks(2);
    if (!down || !other) throw new Error('no hooks');
    const headers = { 'retry-after': '60' };
    down.answers.push(...Array.from({ length: 20 }, () => ({ status: 503, headers })));
    const server = await serverOf([{ text: 'One.' }, { text: 'Two.' }]);
    const taskId = await server.send(down);
    await server.until(() => down.received.length === 1);
    await server.send(other);
    await server.until(has(other, 'COMPLETED'));
    expect(down.received.length).toBeLessThan(3);
    await server.until(() => down.received.length === 10);
    let ticks = 0;
    await server.until(() => ++ticks > 2_000);
    expect(server.store.claim({ owner: 'x', leaseMs: 1, limit: 9, taskId })).toEqual([]);
    expect(down.received).toHaveLength(10);
  });
});

describe('a delivery whose receiver says that it is gone', () => {
  it('is given up at once', async () => {
    const [gone] = await hooks(1);
    if (!gone) throw new Error('no hook');
    gone.answers.push({ status: 410 });
    const server = await serverOf([{ text: 'One.' }]);
    await server.send(gone);
    let ticks = 0;
    await server.until(() => gone.received.length > 0 && ++ticks > 400);
    expect(gone.received).toHaveLength(1);
  });
});

describe('a registration that is replaced or deleted', () => {
  it('is delivered to its new address only, where it has one', async () => {
    const [before, after] = await hooks(2);
    if (!before || !after) throw new Error('no hooks');
    const server = await serverOf([asks], 2);
    const taskId = await server.send(before);
    await server.until(has(before, 'INPUT_REQUIRED'));
    const { length } = before.received;
    const [registered] = server.store.list(taskId);
    const config = { taskId, id: registered?.configId, url: after.url };
    await rpc(server.url, 'CreateTaskPushNotificationConfig', config);
    await server.until(has(after, 'INPUT_REQUIRED'));
    await rpc(server.url, 'CancelTask', { id: taskId });
    await server.until(has(after, 'CANCELED'));
    expect(before.received).toHaveLength(length);
  });

  it('is replaced by one of its id that comes with a message', async () => {
    const [before, after] = await hooks(2);
    if (!before || !after) throw new Error('no hooks');
    const server = await serverOf([asks, { text: 'Done.' }], 2);
    const taskId = await server.send(before);
    const [{ configId: id } = { configId: '' }] = server.store.list(taskId);
    const answer = { messageId: 'yes', role: 'ROLE_USER', taskId, parts: [{ data: { approved: true } }] };
    const configuration = { taskPushNotificationConfig: { id, url: after.url } };
    await rpc(server.url, 'SendMessage', { message: answer, configuration });
    expect(server.store.list(taskId)).toMatchObject([{ configId: id, url: after.url }]);
    await server.until(has(after, 'COMPLETED'));
  });

  it('is delivered to nobody once it is deleted', async () => {
    const [hook, witness] = await hooks(2);
    if (!hook || !witness) throw new Error('no hooks');
    const server = await serverOf([asks], 2);
    const taskId = await server.send(hook);
    await server.until(has(hook, 'INPUT_REQUIRED'));
    const { length } = hook.received;
    const [{ configId: id } = { configId: '' }] = server.store.list(taskId);
    await rpc(server.url, 'DeleteTaskPushNotificationConfig', { taskId, id });
    await rpc(server.url, 'CreateTaskPushNotificationConfig', { taskId, url: witness.url });
    await rpc(server.url, 'CancelTask', { id: taskId });
    await server.until(has(witness, 'CANCELED'));
    expect(hook.received).toHaveLength(length);
  });
});
