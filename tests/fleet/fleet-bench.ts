import { randomUUID } from 'node:crypto';
import { afterEach } from '@jest/globals';
import { type Agent, agent, type LLMProvider, tool } from 'millrace';
import {
  type TurnQueue,
  type TurnQueueOptions,
  type TurnWorker,
  turnQueue,
  type WorkerOptions,
  worker,
} from 'millrace/fleet';
import type { RedisStateStore } from 'millrace/redis';
import type { AgentSettings, LLMCallParams, LLMResponse } from 'millrace/types';
import { eventually, testLimitMs } from '../eventually.ts';
import { RedisBench } from '../stores/redis/redis-bench.ts';

/** Short ones, in which a takeover takes a second or two. */
export const times = { lockMs: 2_000, leaseMs: 1_000, stalledCheckMs: 500, drainMs: 5_000, sweepEveryMs: 500 };

/** Of workers that nobody kills: a busy machine that does not let them run takes no turn from them. */
const lasting = { ...times, lockMs: 3 * testLimitMs, leaseMs: testLimitMs };

export interface FleetBench {
  readonly redis: RedisBench;
  /** Of the running test. */
  readonly store: RedisStateStore;
  /** Of the queue, and the prefix of the store. */
  readonly nameOfTest: string;
  queue(options?: Partial<TurnQueueOptions>): TurnQueue;
  /** Runs until the test is over. */
  work(queue: TurnQueue, agents: readonly Agent[], options?: Partial<WorkerOptions>): TurnWorker;
  /** Ends these workers as a drain does, and waits for it. */
  stop(...workers: readonly TurnWorker[]): Promise<void>;
  ended(taskId: string): Promise<string>;
}

/** Queues, workers and a store of journals on one Redis of its own. Each test has a queue name of its own. */
export function fleetBench(): FleetBench {
  const redis = new RedisBench();
  let store: RedisStateStore | undefined;
  let name = '';
  const queues: TurnQueue[] = [];
  const workers: TurnWorker[] = [];
  const storeOfTest = () => {
    name ||= `q-${randomUUID().slice(0, 8)}`;
    store ??= redis.open({ prefix: name });
    return store;
  };
  afterEach(async () => {
    await Promise.all(workers.splice(0).map((each) => each.drain()));
    await Promise.all(queues.splice(0).map((each) => each.close()));
    store = undefined;
    name = '';
  });
  return {
    redis,
    get store() {
      return storeOfTest();
    },
    get nameOfTest() {
      storeOfTest();
      return name;
    },
    queue(options = {}) {
      const made = turnQueue({ connection: redis.server.url, store: storeOfTest(), name, ...options });
      queues.push(made);
      return made;
    },
    work(queue, agents, options = {}) {
      const made = worker({ queue, agents, ...lasting, ...options });
      workers.push(made);
      void made.run();
      return made;
    },
    async stop(...some) {
      await Promise.all(some.map((each) => each.drain()));
    },
    async ended(taskId) {
      await until(async () => {
        const state = (await storeOfTest().describe(taskId))?.state ?? 'none';
        return ['completed', 'failed', 'canceled'].includes(state);
      });
      return (await storeOfTest().describe(taskId))?.state ?? 'none';
    },
  };
}

export const until = eventually;

/** A model that answers each request by what it is asked. */
export function modelOf(answer: (params: LLMCallParams) => LLMResponse | Promise<LLMResponse>): LLMProvider {
  return { call: async (params) => answer(params) };
}

export const says = (content: string): LLMResponse => ({
  message: { role: 'assistant', content },
  finishReason: 'stop',
});

/** An agent that answers at once, unless it is given another model. */
export function answering(settings: Partial<AgentSettings> = {}): Agent {
  return agent({ id: 'ada', provider: modelOf(() => says('Done.')), enableTracing: false, ...settings });
}

export const user = (content: string) => [{ role: 'user' as const, content }];

/** Asks for the tool until there is a result of it. */
export function callsOnce(name: string, args: object = {}): LLMProvider {
  return modelOf(({ messages }) => {
    if (messages.at(-1)?.role === 'tool') return says('Done.');
    const call = { id: 'c', type: 'function' as const, function: { name, arguments: JSON.stringify(args) } };
    return { message: { role: 'assistant', content: null, toolCalls: [call] }, finishReason: 'tool_calls' };
  });
}

/** A tool that asks before it does anything. */
export function asking(done: () => void = () => {}) {
  return tool({
    name: 'pay',
    description: 'Pays.',
    parameters: { type: 'object', properties: {} },
    needsApproval: true,
    execute: () => {
      done();
      return 'paid';
    },
  });
}
