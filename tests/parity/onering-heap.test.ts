import { getEventListeners } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { AgentLoop } from '../../src/core/agent-loop.ts';
import { openResources, type ResourceLedger } from '../../src/testing/ledger.ts';
import { scriptedLLM } from '../../src/testing/scripted-llm.ts';
import { localTools } from './local-tools.ts';

let resources: ResourceLedger;

beforeEach(() => {
  resources = openResources();
});

afterEach(() => resources.assertNone());

const toolProviders = [
  localTools({
    look: async () => 'a tree',
    fail: () => {
      throw new Error('no light');
    },
  }),
];
const messages = [{ role: 'user', content: 'What is it? '.repeat(100) }] as const;

/** A turn that completes, fails or is cancelled, by its number. */
async function turn(number: number, signal: AbortSignal): Promise<void> {
  const cancel = number % 3 === 2;
  const ask = { toolCalls: [{ name: 'look' }, { name: 'fail' }] };
  const last = [{ text: 'It is a tree.' }, { error: new Error('no route') }, { never: true }][number % 3] ?? {};
  const llmProvider = scriptedLLM([ask, last]);
  const loop = new AgentLoop({ agentId: 'tester', llmProvider, toolProviders });
  const started = loop.startTurn(messages, { signal });
  await new Promise<void>((resolve, reject) => {
    started.subscribe({
      next(event) {
        if (cancel && event.kind === 'internal:llm-call' && event.iteration === 2) void started.cancel();
      },
      error: reject,
      complete: resolve,
    });
  });
}

it('S0-61 keeps nothing of turns that are over: after 10,000 of them the heap is as small as before', async () => {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect !== 'function') throw new Error('the garbage collector cannot be called');
  const heap = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const { signal } = new AbortController();
  // V8 keeps what a WeakRef was made of or asked for until the microtasks are done; turns alone never let them be.
  const eventLoop = () => new Promise((resolve) => setImmediate(resolve));
  const run = async (turns: number) => {
    for (let number = 1; number <= turns; number++) {
      await turn(number, signal);
      if (number % 50 === 0) await eventLoop();
    }
  };
  await run(1_000);
  const before = heap();
  await run(10_000);
  const bytesPerTurn = (heap() - before) / 10_000;
  expect(bytesPerTurn).toBeLessThan(100);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
}, 60_000);
