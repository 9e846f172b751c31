import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { type Agent, AgentLoopError, agent, InMemoryStateStore, type Message } from 'millrace';
import { type BatchQueue, type QueuedTurnOptions, queueRunner } from 'millrace/batch';
import { gate } from 'millrace/testing';
import { Echoing, keysIn, prompts, ran, temporaryFolder } from './echoing.ts';

/** A queue whose workers are in this process: three turns at once, in order. */
class SmallQueue implements BatchQueue {
  readonly started: string[] = [];
  readonly #agent: Agent;
  readonly #waiting: string[] = [];
  #free = 3;
  #open = 0;
  maxOpen = 0;

  constructor(worker: Agent) {
    this.#agent = worker;
  }

  async start(messages: readonly Message[], { taskId, contextId, metadata }: QueuedTurnOptions): Promise<void> {
    await this.#agent.submit(messages, { taskId, contextId, ...(metadata && { metadata }) });
    this.started.push(taskId);
    this.#open += 1;
    this.maxOpen = Math.max(this.maxOpen, this.#open);
    this.#waiting.push(taskId);
    this.#work();
  }

  #work(): void {
    const taskId = this.#free > 0 ? this.#waiting.shift() : undefined;
    if (taskId === undefined) return;
    this.#free -= 1;
    const over = () => {
      this.#free += 1;
      this.#open -= 1;
      this.#work();
    };
    this.#agent.resume(taskId, { onBusy: 'wait', detached: true }).result().then(over, over);
  }
}

function fleet(model: Echoing) {
  const store = new InMemoryStateStore();
  const worker = agent({ id: 'clerk', provider: model, taskStateStore: store, retry: null, enableTracing: false });
  const queue = new SmallQueue(worker);
  return { store, queue, runner: queueRunner(queue, { agentId: 'clerk', store }) };
}

it('runs a batch on the workers of a queue, with as many turns enqueued as the window has', async () => {
  const out = join(temporaryFolder(), 'results.jsonl');
  const model = new Echoing({ wait: () => new Promise(setImmediate) });
  const { runner, queue } = fleet(model);
  const { last, rows } = await ran(prompts(40), { agent: runner, out, window: 12 });
  expect(last).toMatchObject({ state: 'completed', completed: 40, usage: { totalTokens: 400 } });
  expect(rows.map(({ key, status }) => [key, status])).toContainEqual(['k40', 'completed']);
  expect(rows).toContainEqual(expect.objectContaining({ key: 'k7', text: 'echo: prompt 7', attempts: 1 }));
  expect([model.maxActive, queue.maxOpen]).toEqual([3, 12]);
  expect([queue.started.length, keysIn(out).length]).toEqual([40, 40]);
});

it('a turn that a worker fails is a row with its cause, and runs again where the batch retries', async () => {
  const away = new AgentLoopError('PROVIDER_SERVER', 'The model is away.');
  const model = new Echoing({ fail: (prompt, call) => (prompt === 'prompt 1' || call === 2 ? away : undefined) });
  const { runner } = fleet(model);
  const retry = { attempts: 2, delayMs: 0 };
  const { rows } = await ran(prompts(2), { agent: runner, id: 'b', concurrency: 1, retry });
  expect(rows).toMatchObject([
    { key: 'k1', status: 'failed', attempts: 2, error: { code: 'PROVIDER_SERVER' } },
    { key: 'k2', status: 'completed', attempts: 1 },
  ]);
});

it('turns continue when the batch is left, and the next start takes their results', async () => {
  const opened = gate();
  const model = new Echoing({ wait: async (prompt) => (prompt === 'prompt 2' ? opened.pass() : undefined) });
  const { runner } = fleet(model);
  const stop = new AbortController();
  const options = { agent: runner, id: 'b' };
  const first = ran(prompts(3), { ...options, signal: stop.signal });
  await opened.reached;
  stop.abort();
  expect((await first).last.state).toBe('stopped');
  opened.open();
  const { last } = await ran(prompts(3), options);
  expect(last).toMatchObject({ state: 'completed', completed: 3 });
  expect(model.prompts.toSorted()).toEqual(['prompt 1', 'prompt 2', 'prompt 3']);
});
