import { describe, expect, it } from '@jest/globals';
import { agent, agentTools, InMemoryMessageStore, InMemoryStateStore, type ToolContext } from 'millrace';
import { journalSchema } from 'millrace/stores';
import { gate, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import { plainTools } from '../core/plain-tools.ts';
import { a2aBench, call, send } from './bench.ts';
import { collect, data, message, shortOf } from './messages.ts';

/** What a process leaves behind that drained in the middle of its turns. */
async function left(messages: readonly { readonly text: string; readonly contextId: string }[]) {
  const stores = { store: new InMemoryStateStore(), messageStore: new InMemoryMessageStore() };
  const shutdown = new AbortController();
  const held = gate();
  const steps = messages.map(() => () => ({ gate: held.pass(), text: 'Never.' }));
  const agent = { shutdown: shutdown.signal, busy: 'queue', messageStore: stores.messageStore } as const;
  const { handler, agent: served } = a2aBench({ steps, store: stores.store, agent });
  const tasks: string[] = [];
  for (const { text, contextId } of messages) {
    const { id } = await send(handler, message(text, { contextId }), { returnImmediately: true, user: 'ann' });
    tasks.push(id);
  }
  await held.reached;
  shutdown.abort();
  while (served.state === 'busy') await new Promise((resolve) => setImmediate(resolve));
  return { ...stores, tasks };
}

const listRequest = { tenant: '', contextId: '', status: 0, pageToken: '', statusTimestampAfter: undefined };

const startedAs = (taskId: string) => ({
  type: 'turn.started' as const,
  schema: journalSchema,
  taskId,
  contextId: taskId,
  agentId: 'bo',
  messages: [{ role: 'user' as const, content: 'Hi.' }],
  settings: {},
  seq: 1,
  epoch: 0,
  at: 0,
});

const ann = () => call({ user: 'ann' });

describe('a server that goes on with turns of one that is gone', () => {
  it('finds the oldest of them, too, behind however many newer ones', async () => {
    const { store, tasks } = await left([{ text: 'Hi', contextId: 'first' }]);
    const [started] = await store.read(tasks[0] ?? '');
    if (started?.type !== 'turn.started') throw new Error('no start');
    for (let index = 0; index < 1_000; index++) {
      const taskId = `task-${index}`;
      await store.create(taskId, { ...started, taskId, agentId: 'eve' });
      const lease = await store.acquire(taskId, 'gone', 1);
      const resumed = { type: 'turn.resumed', seq: 2, epoch: lease.epoch, at: started.at } as const;
      await store.append(lease, [resumed], { status: 'working', barrier: true });
    }
    const { handler } = a2aBench({ store, steps: [() => ({ text: 'Done.' })] });
    expect(await handler.recover()).toBe(1);
  });

  it('goes on with turns of one conversation in the order in which they came', async () => {
    const contextId = 'talk';
    const { store, messageStore, tasks } = await left(['One', 'Two', 'Three'].map((text) => ({ text, contextId })));
    const first = gate();
    const says = () => ({ gate: first.pass(), text: 'Done.' });
    const next = a2aBench({ steps: [says, says, says], store, agent: { busy: 'queue', messageStore } });
    expect(await next.handler.recover()).toBe(3);
    first.open();
    for (const id of tasks) {
      const stream = next.handler.resubscribe({ tenant: '', id }, ann());
      await collect(stream).catch(() => {});
      expect((await next.handler.getTask({ tenant: '', id }, ann())).status?.state).toBe(3);
    }
    const asked = next.model.calls.map(({ messages }) =>
      messages.flatMap(({ role, content }) => (role === 'user' ? [content] : [])),
    );
    expect(asked).toEqual([['One'], ['One', 'Two'], ['One', 'Two', 'Three']]);
  });

  it('T-08 opens the root of an orphaned tree only: its child turns continue with it, and the tree ends', async () => {
    const store = new InMemoryStateStore();
    const shutdown = new AbortController();
    const held = gate();
    const ask = (name: string) => ({ toolCalls: [{ name, arguments: { message: 'Go on.' } }] });
    const tree = (deepest: ScriptedLLMStep, isFirst: boolean) => {
      const common = { taskStateStore: store, ...(isFirst && { shutdown: shutdown.signal }) };
      const cy = agent({ ...common, id: 'cy', provider: scriptedLLM([deepest]) });
      const bo = [isFirst ? ask('cy') : { text: 'Cy is done.' }];
      // The agent that is served is also one of its own helpers.
      const helper = agent({
        ...common,
        id: 'ada',
        name: 'bo',
        provider: scriptedLLM(bo),
        toolProviders: [agentTools([cy])],
      });
      const steps = isFirst ? [ask('bo')] : [{ text: 'All done.' }];
      return a2aBench({ store, steps, agent: { ...common, toolProviders: [agentTools([helper])] } });
    };
    const first = tree(() => ({ gate: held.pass(), text: 'Never.' }), true);
    const { id } = await send(first.handler, 'Go', { returnImmediately: true, user: 'ann' });
    await held.reached;
    shutdown.abort();
    while (store.list().some((task) => task.held)) await new Promise((resolve) => setImmediate(resolve));
    const ids = store.list().map(({ taskId }) => taskId);
    expect(ids).toHaveLength(3);
    const opened: (readonly [string, string | undefined])[] = [];
    const acquire = store.acquire.bind(store);
    store.acquire = (taskId, owner, leaseMs, under) => {
      opened.push([taskId, under?.taskId]);
      return acquire(taskId, owner, leaseMs, under);
    };
    const next = tree({ text: 'Cy is done.' }, false);
    expect(await next.handler.recover()).toBe(1);
    await collect(next.handler.resubscribe({ tenant: '', id }, ann())).catch(() => {});
    expect(opened).toEqual([
      [id, undefined],
      [`${id}:1:0`, id],
      [`${id}:1:0:1:0`, `${id}:1:0`],
    ]);
    expect(store.list().map(({ state }) => state)).toEqual(['completed', 'completed', 'completed']);
    const listed = await next.handler.listTasks(listRequest, ann());
    expect(listed.tasks.map((task) => task.id)).toEqual([id]);
  });

  it('T-08 cancels child turns whose parent turn has ended, with their own, and leaves those of open ones alone', async () => {
    const store = new InMemoryStateStore();
    const open = (taskId: string, parent?: string) => {
      const link = parent && { parent: { taskId: parent, callId: '1:0', agentId: 'ada', rootTaskId: parent } };
      store.create(taskId, { ...startedAs(taskId), ...link });
      const lease = store.acquire(taskId, 'gone', 1_000);
      const resumed = { type: 'turn.resumed', seq: 2, epoch: lease.epoch, at: 0 } as const;
      store.append(lease, [resumed], { status: 'working', barrier: true });
      store.release(lease);
    };
    open('parent');
    open('child', 'parent');
    open('orphan', 'gone');
    const { handler } = a2aBench({ store });
    expect(await handler.recover()).toBe(0);
    const states = Object.fromEntries(store.list().map(({ taskId, state }) => [taskId, state]));
    expect(states).toEqual({ parent: 'working', child: 'working', orphan: 'canceled' });
  });

  it('lets a tool that needs to know who asks have the owner sign in: the answer says who it is', async () => {
    const shutdown = new AbortController();
    const stores = { store: new InMemoryStateStore() };
    const held = gate();
    const first = a2aBench({
      steps: [() => ({ gate: held.pass(), text: 'Never.' })],
      store: stores.store,
      agent: { shutdown: shutdown.signal },
    });
    const { id } = await send(first.handler, 'Mail', { returnImmediately: true, user: 'ann' });
    await held.reached;
    shutdown.abort();
    while (first.agent.state === 'busy') await new Promise((resolve) => setImmediate(resolve));
    const users: unknown[] = [];
    const mail = ({ authContext, ask }: ToolContext) => {
      if (authContext === undefined) ask({ kind: 'auth', prompt: 'Say again who you are.' });
      users.push(authContext);
      return 'sent';
    };
    const next = a2aBench({
      steps: [{ toolCalls: [{ name: 'mail' }] }, { text: 'Done.' }],
      store: stores.store,
      agent: { toolProviders: [plainTools({ mail })] },
    });
    expect(await next.handler.recover()).toBe(1);
    const stream = next.handler.resubscribe({ tenant: '', id }, ann());
    for (let last = ''; last !== 'status:8' && last !== 'task:8'; ) last = shortOf((await stream.next()).value ?? {});
    const done = await send(next.handler, message([data({ again: true })], { taskId: id }), { user: 'ann' });
    expect(done.status?.state).toBe(3);
    expect(users).toEqual([{ user: 'ann' }]);
    await stream.return();
  });
});
