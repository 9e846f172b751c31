import { describe, expect, it } from '@jest/globals';
import { AgentLoop, type MessageStore, type Turn } from 'millrace';
import { watch } from '../core/watch-events.ts';
import { agentBench, says, user } from './agent-bench.ts';

const on = agentBench();

function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}

describe('a busy agent', () => {
  it('S1-06 refuses a second turn of the context, and runs those of others', async () => {
    const held = gate();
    const ada = on.agent([{ gate: held.opened, text: 'One.' }, { text: 'Other.' }, { text: 'Three.' }]);
    const first = ada.startTurn('1', { taskId: 'first' });
    const reader = watch(first);
    await reader.until('internal:llm-call');
    expect(() => ada.startTurn('2')).toThrow(
      expect.objectContaining({ code: 'AGENT_BUSY', message: expect.stringContaining('turn "first" runs') }),
    );
    expect([ada.isBusy(), ada.isBusy('d')]).toEqual([true, false]);
    await expect(ada.run('2', { contextId: 'd' })).resolves.toMatchObject({ text: 'Other.' });
    expect(ada.state).toBe('busy');
    held.open();
    await first.result();
    await expect(ada.run('3')).resolves.toMatchObject({ text: 'Three.' });
  });

  it('stays busy with a turn that was started twice under one id, when a reader of the second leaves', async () => {
    const held = gate();
    const ada = on.agent([{ gate: held.opened, text: 'One.' }]);
    const first = watch(ada.startTurn('1', { taskId: 't' }));
    await first.until('internal:llm-call');
    const second = watch(ada.startTurn('1', { taskId: 't' }));
    await second.until('internal:llm-call');
    second.leave();
    await new Promise(setImmediate);
    expect([ada.isBusy(), ada.state]).toEqual([true, 'busy']);
    expect(() => ada.startTurn('2')).toThrow(expect.objectContaining({ code: 'AGENT_BUSY' }));
    held.open();
    await first.ended;
    expect([ada.isBusy(), ada.state]).toEqual([false, 'ready']);
  });

  it('fails a turn that was made before the other one started', async () => {
    const held = gate();
    const messageStore = on.messages();
    const ada = on.agent([{ gate: held.opened, text: 'One.' }], { messageStore });
    const [first, second] = [ada.startTurn('1'), ada.startTurn('2')];
    const reader = watch(first);
    await reader.until('internal:llm-call');
    await expect(second.result()).rejects.toMatchObject({ code: 'AGENT_BUSY' });
    held.open();
    await first.result();
    expect(messageStore.load('c')).toMatchObject({ messages: [user('1'), says('One.')], openTurns: [] });
  });

  it('S1-06 runs turns one after another with queue, each behind what the one before it said', async () => {
    const held = gate();
    const provider = on.bench.model([{ gate: held.opened, text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }]);
    const ada = on.agent([], { provider, busy: 'queue' });
    const turns = ['1', '2', '3'].map((text) => ada.run(text));
    held.open();
    await Promise.all(turns);
    expect(provider.calls[2]?.messages).toEqual([user('1'), says('One.'), user('2'), says('Two.'), user('3')]);
    expect(provider.maxActive).toBe(1);
  });

  it('leaves the queue where a waiting turn is cancelled', async () => {
    const held = gate();
    const ada = on.agent([{ gate: held.opened, text: 'One.' }], { busy: 'queue' });
    const first = ada.startTurn('1');
    const reader = watch(first);
    await reader.until('internal:llm-call');
    const second = ada.startTurn('2');
    const waiting = watch(second);
    await second.cancel('never mind');
    expect(waiting.events.at(-1)).toMatchObject({ status: { state: 'canceled' } });
    held.open();
    await expect(first.result()).resolves.toMatchObject({ text: 'One.' });
  });

  it('S1-06 steers the running turn with steer', async () => {
    const held = gate();
    const provider = on.bench.model([{ gate: held.opened, text: 'One.' }, { text: 'Two.' }]);
    const ada = on.agent([], { provider, busy: 'steer' });
    const first = ada.startTurn('1');
    const reader = watch(first);
    await reader.until('internal:llm-call');
    const second = ada.startTurn('2');
    expect(second).toBe(first);
    held.open();
    await expect(second.result()).resolves.toMatchObject({ text: 'Two.' });
    expect(provider.calls[1]?.messages).toEqual([user('1'), says('One.'), user('2')]);
  });

  it('S1-06 starts a turn of its own with steer where the one that runs takes no messages any more', async () => {
    const provider = on.bench.model([{ text: 'One.' }, { text: 'Two.' }]);
    const ada = on.agent([], { provider, busy: 'steer' });
    const second = new Promise<Turn>((resolve) => {
      ada.on('status-update', ({ final, taskId }) => {
        if (final && taskId === 'first') resolve(ada.startTurn('2'));
      });
    });
    await expect(ada.run('1', { taskId: 'first' })).resolves.toMatchObject({ text: 'One.' });
    await expect((await second).result()).resolves.toMatchObject({ text: 'Two.' });
    expect(provider.calls[1]?.messages).toEqual([user('1'), says('One.'), user('2')]);
  });

  it('reuses the id of a turn that was refused at the same moment as another started: it runs in order and is saved', async () => {
    const [registered, saved] = [gate(), on.messages()];
    // The other turn is registered after this one has found the context free.
    const late: MessageStore = new Proxy(saved, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name, target);
        if (typeof member !== 'function') return member;
        return async (...args: readonly unknown[]) => {
          if (name === 'begin') await registered.opened;
          return Reflect.apply(member, target, args);
        };
      },
    });
    const held = gate();
    const one = on.agent([{ gate: held.opened, text: 'One.' }, { text: 'Next.' }], {
      busy: 'reject',
      messageStore: saved,
    });
    const two = on.agent([{ text: 'Two.' }], { busy: 'reject', messageStore: late });
    const second = two.run('2', { taskId: 'b' });
    while (!on.bench.store.describe('b')) await new Promise(setImmediate);
    const first = watch(one.startTurn('1', { taskId: 'a' }));
    await first.until('internal:llm-call');
    registered.open();
    await expect(second).rejects.toMatchObject({ code: 'AGENT_BUSY' });
    expect(on.bench.store.describe('b')).toBeNull();
    expect(saved.load('c')).toMatchObject({ openTurns: ['a'] });
    held.open();
    await first.ended;
    await one.run('next', { taskId: 'n' });
    await expect(two.run('2', { taskId: 'b' })).resolves.toMatchObject({ text: 'Two.' });
    expect(saved.load('c').messages).toEqual(
      ['1', 'next', '2'].flatMap((text, n) => [user(text), says(['One.', 'Next.', 'Two.'][n] ?? '')]),
    );
  });

  it('keeps a turn that was accepted before, where a caller attaches to it while another runs', async () => {
    const [held, messageStore] = [gate(), on.messages()];
    const ada = on.agent([{ gate: held.opened, text: 'One.' }], { busy: 'reject', messageStore });
    const first = watch(ada.startTurn('1', { taskId: 'a' }));
    await first.until('internal:llm-call');
    await new AgentLoop(on.bench.config(on.bench.model([]), { agentId: 'ada' })).submit([user('2')], {
      taskId: 'b',
      contextId: 'c',
    });
    await messageStore.begin('c', 'b');
    const other = on.agent([{ text: 'Two.' }], { busy: 'reject', messageStore });
    await expect(other.run('2', { taskId: 'b' })).rejects.toMatchObject({ code: 'AGENT_BUSY' });
    expect(on.bench.store.describe('b')).toMatchObject({ state: 'submitted' });
    held.open();
    await first.ended;
    await expect(other.run('2', { taskId: 'b' })).resolves.toMatchObject({ text: 'Two.' });
  });
});
