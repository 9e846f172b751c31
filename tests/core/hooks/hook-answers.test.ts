import { describe, expect, it } from '@jest/globals';
import { type Extension, textOf } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, type ScriptedLLMStep } from 'millrace/testing';
import { question } from '../dead-turn.ts';
import { plainTools } from '../plain-tools.ts';
import { turnBench } from '../turn-bench.ts';
import { watch } from '../watch-events.ts';

const bench = turnBench();
const counting: ScriptedLLMStep = { toolCalls: [{ name: 'count' }] };
const done: ScriptedLLMStep = { text: 'Two.' };
const toolProviders = [plainTools({ count: { readOnly: true, onInDoubt: 'retry', execute: () => 2 } })];

function turnOf(steps: readonly ScriptedLLMStep[], ...hooks: readonly Omit<Extension, 'name'>[]) {
  const model = bench.model(steps);
  const extensions = hooks.map((each, index): Extension => ({ name: `x${index}`, ...each }));
  const config = bench.config(model, { toolProviders, extensions });
  return { model, config, turn: new AgentLoop(config).startTurn(question, { taskId: 'live' }) };
}

const _lastText = (messages: readonly { readonly content: Parameters<typeof textOf>[0] }[] = []) =>
  textOf(messages.at(-1)?.content);

type Broken = Omit<Extension, 'name'>;

/** An answer that no hook may give; the types forbid it. */
function nonsense(value: object | string | number | boolean) {
  return JSON.parse(JSON.stringify(value));
}

const answers: readonly (readonly [string, Broken, RegExp])[] = [
  ['beforeTurn with a text', { beforeTurn: () => nonsense('yes') }, /it answered string, not an object/],
  [
    'beforeTurn with settings that are none',
    { beforeTurn: () => nonsense({ settings: { temperature: 'hot' } }) },
    /temperature/,
  ],
  ['beforeTurn with messages that are none', { beforeTurn: () => nonsense({ messages: [{ role: 'bard' }] }) }, /role/],
  ['beforeTurn with true', { beforeTurn: () => nonsense(true) }, /it answered boolean/],
  ['beforeTurn with a list', { beforeTurn: () => nonsense([]) }, /it answered a list/],
  ['beforeTurn with a finish that is true', { beforeTurn: () => nonsense({ finish: true }) }, /its finish must be/],
  [
    'beforeTurn with messages that are no JSON',
    { beforeTurn: () => ({ messages: [{ role: 'user', content: 'Hi', metadata: { size: 1n } }] }) },
    /messages is not JSON/,
  ],
  [
    'beforeTurn with an event of the engine',
    { beforeTurn: () => nonsense({ events: [{ kind: 'status-update', final: true }] }) },
    /events\[0\] has "kind"/,
  ],
  ['beforeTurn with data that is no JSON', { beforeTurn: () => ({ data: () => 1 }) }, /data is not JSON/],
  ['beforeTurn with an unknown tool', { beforeTurn: () => ({ tools: { add: ['fly'] } }) }, /no tool "fly"/],
  [
    'prepareIteration with messages outside of its view',
    { prepareIteration: () => nonsense({ messages: [] }) },
    /unknown property "messages"; allowed: data, events, fail, usage, usageBy, view, finish/,
  ],
  [
    'beforeLLMCall with messages',
    { beforeLLMCall: () => nonsense({ messages: [] }) },
    /allowed: params, provider, response/,
  ],
  ['afterLLMCall with a text', { afterLLMCall: () => nonsense({ text: '' }) }, /unknown property "text"/],
  [
    'beforeToolCall with a word of its own',
    { beforeToolCall: () => nonsense({ denied: 'no' }) },
    /"denied"; allowed: deny/,
  ],
  ['afterToolCall with content', { afterToolCall: () => nonsense({ content: '' }) }, /"content".* result/],
  ['beforeFinish with a result', { beforeFinish: () => nonsense({ result: '' }) }, /unknown property "result"/],
  ['afterIteration with a text', { afterIteration: () => nonsense({ text: '' }) }, /unknown property "text"/],
  ['afterTurn with a message', { afterTurn: () => nonsense({ message: '' }) }, /"message"; allowed: text, value, fail/],
  ['shouldPause with a number', { shouldPause: () => nonsense(1) }, /it answered number/],
  [
    'prepareIteration with an unknown tool',
    { prepareIteration: () => ({ view: { tools: ['fly'] } }) },
    /no tool "fly"/,
  ],
  [
    'prepareIteration with a wrong prompt',
    { prepareIteration: () => nonsense({ view: { systemPrompt: 1 } }) },
    /systemPrompt/,
  ],
  [
    'prepareIteration with a view that is none',
    { prepareIteration: () => nonsense({ view: 'x' }) },
    /its view must be/,
  ],
  ['beforeLLMCall with tools that are none', { beforeLLMCall: () => nonsense({ params: { tools: 'x' } }) }, /tools/],
  ['beforeToolCall with false', { beforeToolCall: () => nonsense(false) }, /it answered boolean/],
  [
    'beforeLLMCall with a provider that is none',
    { beforeLLMCall: () => nonsense({ provider: {} }) },
    /no call\(params\) method/,
  ],
  ['beforeLLMCall with an answer that is none', { beforeLLMCall: () => nonsense({ response: {} }) }, /message is not/],
  [
    'afterLLMCall with an answer that is none',
    { afterLLMCall: () => nonsense({ response: { message: 1 } }) },
    /message is not/,
  ],
  [
    'beforeToolCall with an answer without content',
    { beforeToolCall: () => nonsense({ answer: {} }) },
    /returned no content/,
  ],
  [
    'afterToolCall with a result without content',
    { afterToolCall: () => nonsense({ result: {} }) },
    /returned no content/,
  ],
  [
    'afterToolCall with parts that are none',
    { afterToolCall: () => nonsense({ result: { content: [42] } }) },
    /its content\[0\] needs a type/,
  ],
  [
    'afterIteration with parts that are none',
    { afterIteration: () => nonsense({ results: { '1:0': [42] } }) },
    /the result of "1:0"\[0\] needs a type/,
  ],
  [
    'afterIteration with settings that are a text',
    { afterIteration: () => nonsense({ settings: 'x' }) },
    /its settings/,
  ],
  ['afterIteration with results of no call', { afterIteration: () => ({ results: { '9:9': 'x' } }) }, /"9:9"/],
  [
    'afterIteration with a failure that is none',
    { afterIteration: () => nonsense({ fail: { code: 'OOPS' } }) },
    /its fail is not/,
  ],
  [
    'beforeFinish with a finish that is none',
    { beforeFinish: () => nonsense({ finish: { text: 1 } }) },
    /finish\.text/,
  ],
  ['afterTurn with a value that is no JSON', { afterTurn: () => ({ value: 1n }) }, /value is not JSON/],
  ['afterTurn with a text that is none', { afterTurn: () => nonsense({ text: 1 }) }, /text must be a string/],
];

describe('a hook that answers nonsense', () => {
  it.each(answers)('fails the turn in words for its author: %s', async (_, hook, words) => {
    const { model, turn } = turnOf([counting, done], hook);
    const watcher = watch(turn);
    await watcher.ended;
    const [error] = watcher.of('internal:extension-error');
    expect(error).toMatchObject({ extension: 'x0', fatal: true, message: expect.stringMatching(words) });
    await expect(turn.result()).rejects.toMatchObject({ code: 'EXTENSION_FAILED' });
    used(model);
  });

  it.each(answers)('is left out where its failures do not matter: %s', async (_, hook, words) => {
    const { turn } = turnOf([counting, done], { ...hook, onError: 'continue' });
    const watcher = watch(turn);
    await watcher.ended;
    const errors = watcher.of('internal:extension-error');
    expect(errors.length).toBeGreaterThan(0);
    expect(errors[0]).toMatchObject({ fatal: false, message: expect.stringMatching(words) });
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.' });
  });
});

const asyncHooks = [
  'beforeTurn',
  'shouldPause',
  'prepareIteration',
  'beforeLLMCall',
  'afterLLMCall',
  'beforeToolCall',
  'afterToolCall',
  'beforeFinish',
  'afterIteration',
  'afterTurn',
] as const;

/** A hook that waits, and says when it began to. */
function waiting(hook: (typeof asyncHooks)[number], act: (signal: AbortSignal) => Promise<undefined>): Broken {
  return {
    [hook]: (first: { signal: AbortSignal }, second?: { signal: AbortSignal }) => act((second ?? first).signal),
  };
}

describe('a hook that does not answer', () => {
  it.each(asyncHooks)('fails the turn behind its time limit, its signal aborted: %s', async (hook) => {
    const begun = gate();
    const signals: AbortSignal[] = [];
    const never = waiting(hook, (signal) => {
      signals.push(signal);
      begun.open();
      return new Promise(() => {});
    });
    const { model, turn } = turnOf([counting, done], { ...never, timeoutMs: 1_000 });
    const watcher = watch(turn);
    await begun.pass();
    while (watcher.end === undefined) {
      await new Promise(setImmediate);
      if (bench.clock.pending > 0) bench.clock.advance(1_000);
    }
    expect(signals[0]?.aborted).toBe(true);
    await expect(turn.result()).rejects.toMatchObject({ code: 'EXTENSION_FAILED', message: /within 1000 ms/ });
    used(model);
  });

  it.each(asyncHooks)('is not waited for once the turn is cancelled: %s', async (hook) => {
    const begun = gate();
    const never = waiting(hook, (signal) => {
      begun.open();
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    });
    const { model, turn } = turnOf([counting, done], never);
    const watcher = watch(turn);
    await begun.pass();
    await turn.cancel('enough');
    await watcher.ended;
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'canceled' }, reason: 'enough' });
    used(model);
  });

  it.each(asyncHooks)('is left where the process shuts down, and asked again by the next: %s', async (hook) => {
    const begun = gate();
    let asked = 0;
    const never = waiting(hook, async () => {
      asked++;
      if (asked > 1) return undefined;
      begun.open();
      return new Promise(() => {});
    });
    const shutdown = new AbortController();
    const model = bench.model([counting, done, done]);
    const config = bench.config(model, { toolProviders, extensions: [{ name: 'x', ...never, timeoutMs: 0 }] });
    const turn = new AgentLoop({ ...config, shutdown: shutdown.signal }).startTurn(question, { taskId: 'live' });
    const watcher = watch(turn);
    await begun.pass();
    shutdown.abort();
    while (watcher.end === undefined) {
      await new Promise(setImmediate);
      if (bench.clock.pending > 0) bench.clock.advance(5_000);
    }
    expect(watcher.end).toMatchObject({ error: { code: 'SHUTDOWN' } });
    bench.leases.advance(60_000);
    expect(await AgentLoop.resume('live', config).result()).toMatchObject({ status: 'completed' });
    expect(asked).toBeGreaterThan(1);
    used(model);
  });

  it('may cancel the turn itself', async () => {
    const cancel: { now: () => Promise<void> } = { now: async () => {} };
    const { model, turn } = turnOf([counting], {
      afterIteration: async () => {
        void cancel.now();
        return { messages: [question[0]] };
      },
    });
    cancel.now = () => turn.cancel('by a hook');
    const watcher = watch(turn);
    await watcher.ended;
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'canceled' }, reason: 'by a hook' });
    expect(model.calls).toHaveLength(1);
  });
});

/** Steps that a turn did not come to are no mistake here. */
function used(model: object): void {
  Object.defineProperty(model, 'assertDone', { value: () => {} });
}
