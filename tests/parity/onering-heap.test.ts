import { getEventListeners } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { AgentLoop } from 'millrace/internals';
import { type LLMStep, openResources, type ResourceLedger, scriptedLLM } from 'millrace/testing';
import { localTools } from './local-tools.ts';

let resources: ResourceLedger;

beforeEach(() => {
  resources = openResources();
});

afterEach(() => resources.assertNone());

const toolProviders = [localTools({ look: async () => 'a tree' })];
const messages = [{ role: 'user', content: 'What is it? '.repeat(100) }] as const;
const endings: readonly (readonly LLMStep[])[] = [
  [{ toolCalls: [{ name: 'look' }] }, { text: 'It is a tree.' }],
  [{ text: 'It', error: new Error('no route') }],
  [{ text: 'It', never: true }],
];

/** A turn that completes, fails or is cancelled, by its number. */
async function turn(number: number, signal: AbortSignal): Promise<void> {
  const llmProvider = scriptedLLM(endings[number % endings.length] ?? [], { synchronous: true });
  const loop = new AgentLoop({ agentId: 'tester', llmProvider, toolProviders });
  const started = loop.startTurn(messages, { signal });
  await new Promise<void>((resolve, reject) => {
    started.subscribe({ error: reject, complete: resolve });
    if (number % endings.length === 2) void started.cancel();
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
  // Until all code is compiled for good.
  await run(3_000);
  const before = heap();
  await run(10_000);
  const bytesPerTurn = (heap() - before) / 10_000;
  expect(bytesPerTurn).toBeLessThan(100);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});
