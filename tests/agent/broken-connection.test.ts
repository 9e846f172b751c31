import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, InMemoryMessageStore, type MessageStore } from 'millrace';
import { agentBench, says, user } from './agent-bench.ts';

const on = agentBench();
type Method = 'begin' | 'load' | 'append';

/** A store whose connection breaks: `at` says in which call of which method, from 1, before or behind its effect. */
function breaking({ method, at, behind = false }: { method: Method; at: (call: number) => boolean; behind?: boolean }) {
  const store = new InMemoryMessageStore({ clock: on.bench.clock });
  let calls = 0;
  const broken = () => new AgentLoopError('UNAVAILABLE', 'The connection broke.', { retryable: true });
  const messageStore: MessageStore = new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      return (...args: readonly unknown[]) => {
        const breaks = name === method && at(++calls);
        if (breaks && !behind) throw broken();
        const answer: unknown = Reflect.apply(member, target, args);
        if (breaks) throw broken();
        return answer;
      };
    },
  });
  return { store, messageStore, calls: () => calls };
}

describe('the connection to the conversations of an agent', () => {
  const methods: readonly Method[] = ['begin', 'load', 'append'];
  it.each(
    methods.flatMap((method) => [false, true].map((behind) => [method, behind ? 'behind' : 'before', behind] as const)),
  )('may break once: at %s, %s its effect', async (method, _, behind) => {
    const { store, messageStore } = breaking({ method, at: (call) => call === 1, behind });
    const ada = on.agent([{ text: 'Hi.' }], { messageStore });
    expect(await ada.run('Hello', { taskId: 't' })).toMatchObject({ status: 'completed', text: 'Hi.' });
    expect(store.load('c')).toMatchObject({ messages: [user('Hello'), says('Hi.')], openTurns: [] });
    await ada.close();
  });

  it('is asked once more, and no oftener, where it stays broken', async () => {
    const { messageStore, calls } = breaking({ method: 'begin', at: () => true });
    const ada = on.agent([], { messageStore });
    await expect(ada.run('Hello', { taskId: 't' })).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(calls()).toBe(2);
    await ada.close();
  });
});
