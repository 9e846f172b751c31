import { describe, expect, it, jest } from '@jest/globals';
import { InMemoryStateStore } from 'millrace';
import { fakeClock, gate } from 'millrace/testing';
import { obedient, plainTools } from '../core/plain-tools.ts';
import { a2aBench, call, refusal, send } from './bench.ts';
import { collect, message, shortOf } from './messages.ts';

const cancel = (id: string) => ({ tenant: '', id, metadata: undefined });

function running(options: Parameters<typeof a2aBench>[0] = {}) {
  const started = gate();
  started.open();
  const wait = { execute: (context: Parameters<typeof obedient>[0]) => started.pass().then(() => obedient(context)) };
  const steps = [{ toolCalls: [{ name: 'wait' }] }];
  return { started, ...a2aBench({ steps, agent: { toolProviders: [plainTools({ wait })] }, ...options }) };
}

describe('a cancel', () => {
  it('ends a task that another process runs', async () => {
    const store = new InMemoryStateStore();
    const owner = running({ store });
    const { id } = await send(owner.handler, 'Wait', { returnImmediately: true });
    await owner.started.reached;
    const other = a2aBench({ store });
    expect((await other.handler.cancelTask(cancel(id), call())).status?.state).toBe(5);
    expect((await owner.handler.getTask({ tenant: '', id }, call())).status?.state).toBe(5);
  });

  it('ends a task that waits, and its subscriptions', async () => {
    const refund = { needsApproval: true, execute: () => '' };
    const { handler } = a2aBench({
      steps: [{ toolCalls: [{ name: 'refund' }] }],
      agent: { toolProviders: [plainTools({ refund })] },
    });
    const { id } = await send(handler, 'Refund');
    const stream = handler.resubscribe({ tenant: '', id }, call());
    expect(shortOf((await stream.next()).value ?? {})).toBe('task:6');
    expect((await handler.cancelTask(cancel(id), call())).status?.state).toBe(5);
    expect((await collect(stream)).map(shortOf)).toEqual(['status:5']);
  });

  it('is answered after its deadline, with the task as it is then', async () => {
    const stubborn = gate();
    const { handler } = a2aBench({
      steps: [{ toolCalls: [{ name: 'wait' }] }, { text: 'Done.' }],
      agent: { toolProviders: [plainTools({ wait: () => stubborn.pass() })], abortGraceMs: 60_000 },
      handler: { cancelDeadlineMs: 20 },
    });
    const { id } = await send(handler, 'Wait', { returnImmediately: true });
    await stubborn.reached;
    expect((await handler.cancelTask(cancel(id), call())).status?.state).toBe(2);
    const stream = handler.resubscribe({ tenant: '', id }, call());
    await stream.next();
    stubborn.open();
    expect((await collect(stream)).map(shortOf).at(-1)).toBe('status:5');
  });
});

it('waits for a turn that does not stop as long as cancelDeadlineMs says', async () => {
  const clock = fakeClock();
  const stubborn = gate();
  const { handler } = a2aBench({
    steps: [{ toolCalls: [{ name: 'wait' }] }, { text: 'Done.' }],
    agent: { toolProviders: [plainTools({ wait: () => stubborn.pass() })], abortGraceMs: 60_000, clock },
    handler: { cancelDeadlineMs: 5_000 },
  });
  const { id } = await send(handler, 'Wait', { returnImmediately: true });
  await stubborn.reached;
  let isAnswered = false;
  const cancelled = handler.cancelTask(cancel(id), call()).finally(() => {
    isAnswered = true;
  });
  const settle = async () => {
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  };
  await settle();
  clock.advance(4_999);
  await settle();
  expect(isAnswered).toBe(false);
  clock.advance(1);
  expect((await cancelled).status?.state).toBe(2);
  stubborn.open();
});

it('refuses a message of a context whose task is not over, where the agent does not queue', async () => {
  const { handler, started } = running();
  const { id, contextId } = await send(handler, 'Wait', { returnImmediately: true });
  await started.reached;
  const words = await refusal(send(handler, message('More', { contextId })));
  expect(words).toMatch(/^UnsupportedOperationError: Another task of this context is not over/);
  await handler.cancelTask(cancel(id), call());
});

it('H-33 refuses such a message also where another server runs the task, records no task, and takes it later', async () => {
  const store = new InMemoryStateStore();
  const owner = running({ store });
  const { id, contextId } = await send(owner.handler, 'Wait', { returnImmediately: true });
  await owner.started.reached;
  const { handler } = a2aBench({ store, steps: [{ text: 'Here.' }] });
  const more = message('More', { contextId });
  expect(await refusal(send(handler, more))).toMatch(
    /^UnsupportedOperationError: Another task of this context is not over/,
  );
  expect(store.list().map(({ taskId }) => taskId)).toEqual([id]);
  await handler.cancelTask(cancel(id), call());
  expect((await send(handler, more)).status?.state).toBe(3);
});

it('says so where a turn ended before it was told', async () => {
  const held = gate();
  class LateEnd extends InMemoryStateStore {
    override append(...args: Parameters<InMemoryStateStore['append']>): void | Promise<void> {
      if (!args[1].some(({ type }) => type === 'turn.done')) return super.append(...args);
      return held.pass().then(() => super.append(...args));
    }
  }
  const store = new LateEnd();
  const post = jest.spyOn(store, 'post');
  const { handler } = a2aBench({ steps: [{ text: 'Done.' }], store });
  const { id } = await send(handler, 'Hi', { returnImmediately: true });
  await held.reached;
  const late = refusal(send(handler, message('Wait!', { taskId: id })));
  while (post.mock.calls.length === 0) await new Promise((resolve) => setImmediate(resolve));
  held.open();
  expect(await late).toMatch(/^UnsupportedOperationError: The task ended before it received the message/);
});
