import { describe, expect, it } from '@jest/globals';
import { InMemoryStateStore } from '../../src/stores/memory/in-memory-state-store.ts';
import { InMemoryMessageStore } from '../../src/stores/messages/in-memory-message-store.ts';
import { gate } from '../../src/testing/gate.ts';
import type { ToolContext } from '../../src/tools/interfaces.ts';
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
