import { type Agent, agent, InMemoryMessageStore, type TaskStateStore } from 'millrace';
import { gate, type ScriptedLLMStep } from 'millrace/testing';
import type { AgentSettings, GivenTools } from 'millrace/types';
import { turnBench } from '../core/turn-bench.ts';
import { eventually } from '../eventually.ts';

/** Agents with scripted models on a bench of turns, and a store of messages that is made anew by `fresh`. */
export function agentBench() {
  const bench = turnBench();
  const messages = () => new InMemoryMessageStore({ clock: bench.clock });
  return {
    bench,
    messages,
    /** An agent `ada` in the context `c`, journaled in the bench's store. */
    agent: (steps: readonly ScriptedLLMStep[], options: Partial<AgentSettings> & GivenTools = {}): Agent =>
      agent({
        id: 'ada',
        contextId: 'c',
        provider: bench.model(steps),
        taskStateStore: bench.store,
        clock: bench.clock,
        ...options,
      }),
  };
}

export const user = (content: string) => ({ role: 'user' as const, content });
export const says = (content: string) => ({ role: 'assistant' as const, content });

type Answering = 'create' | 'acquire' | 'append' | 'renew' | 'release' | 'post' | 'read';

/** A store as one process sees it: `before` is called before each call, and may delay or refuse it. */
export function seenBy(
  store: TaskStateStore,
  before: (method: Answering, taskId: string, args: readonly unknown[]) => Promise<void> | undefined,
): TaskStateStore {
  const wrapped: TaskStateStore = new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      return (...args: readonly unknown[]) => {
        const call = () => Reflect.apply(member, target, args);
        const [subject] = args;
        const taskId = typeof subject === 'string' ? subject : String(Reflect.get(Object(subject), 'taskId'));
        const delay = before(String(name) as Answering, taskId, args);
        return delay ? delay.then(call) : call();
      };
    },
  });
  return wrapped;
}

/** A process whose calls of the store wait from `freeze` on, as those of one that was stopped. */
export function stoppedProcess(to: TaskStateStore) {
  const wakes = gate();
  let frozen = false;
  const store = seenBy(to, () => (frozen ? wakes.pass() : undefined));
  return {
    store,
    freeze: () => {
      frozen = true;
    },
    wake: () => {
      frozen = false;
      wakes.open();
    },
  };
}

/** Lets time pass until the promise settles. */
export async function passing<T>(clock: { advance(ms: number): void }, promise: Promise<T>): Promise<T> {
  let over = false;
  const settled = promise.finally(() => {
    over = true;
  });
  settled.catch(() => {});
  await eventually(() => {
    clock.advance(100);
    return over;
  });
  return settled;
}
