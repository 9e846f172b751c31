import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { type Agent, AgentLoopError, agent, InMemoryStateStore, type LLMProvider, limits, tool } from 'millrace';
import { type BatchItem, type BatchOptions, type BatchProgress, type BatchRow, runBatch } from 'millrace/batch';
import { gate, scriptedLLM } from 'millrace/testing';
import type { Observable } from 'rxjs';
import { z } from 'zod';
import { same } from '../same-type.ts';
import { Echoing, keysIn, linesIn, prompts, ran, temporaryFolder } from './echoing.ts';

const echo = (model: Echoing, options: Partial<Agent['options']> = {}) =>
  agent({ id: 'echo', provider: model, enableTracing: false, retry: null, ...options });

describe('runBatch', () => {
  it('gives a row for each item, and the file has the same rows', async () => {
    const out = join(temporaryFolder(), 'results.jsonl');
    const { rows, last } = await ran(['one', { key: 'b', prompt: 'two', metadata: { n: 2 } }], {
      agent: echo(new Echoing()),
      out,
    });
    expect(rows.map(({ key, status }) => [key, status])).toEqual([
      ['1', 'completed'],
      ['b', 'completed'],
    ]);
    expect(linesIn(out)).toEqual(JSON.parse(JSON.stringify(rows)));
    expect(linesIn(out)[1]).toMatchObject({
      key: 'b',
      text: 'echo: two',
      attempts: 1,
      metadata: { n: 2 },
      usage: { totalTokens: 10 },
    });
    expect(last).toMatchObject({
      state: 'completed',
      total: 2,
      completed: 2,
      failed: 0,
      running: 0,
      waiting: 0,
      usage: { totalTokens: 20 },
    });
  });

  it('writes rows in the order in which items end, whatever their order was', async () => {
    const slow = gate();
    const model = new Echoing({ wait: async (prompt) => (prompt === 'slow' ? slow.pass() : undefined) });
    const { rows } = await ran(['slow', 'a', 'b', 'c'], { agent: echo(model), concurrency: 2 }, ({ completed }) => {
      if (completed === 3) slow.open();
    });
    expect(rows.map(({ key }) => key)).toEqual(['2', '3', '4', '1']);
  });

  it('runs at most `concurrency` turns at once, and as many where there are items', async () => {
    const model = new Echoing({ wait: () => new Promise(setImmediate) });
    const { all } = await ran(prompts(40), { agent: echo(model), concurrency: 7 });
    expect(model.maxActive).toBe(7);
    expect(Math.max(...all.map(({ running }) => running))).toBeLessThanOrEqual(7);
  });

  it('runs 10 at once by default', async () => {
    const model = new Echoing({ wait: () => new Promise(setImmediate) });
    await ran(prompts(30), { agent: echo(model) });
    expect(model.maxActive).toBe(10);
  });

  it('gives each item a conversation of its own, and the agent keeps none of them without a store', async () => {
    const model = new Echoing();
    const forgetful = echo(model);
    const { rows } = await ran(['same', 'same'], { agent: forgetful });
    expect(rows).toHaveLength(2);
    expect(await forgetful.resolved.messageStore.contexts()).toEqual({ contexts: [] });
  });

  it('passes messages, metadata and the shared options to the turn', async () => {
    const seen: unknown[] = [];
    const model = scriptedLLM([{ toolCalls: [{ name: 'look', arguments: {} }] }, { text: 'Done.' }]);
    const look = tool<{ user: string }>()({
      name: 'look',
      description: 'Looks.',
      parameters: z.object({}),
      execute: (_, { metadata, context }) => {
        seen.push(metadata, context);
        return 'seen';
      },
    });
    const curious = agent<{ user: string }>()({ provider: model, tools: [look] });
    const item = { messages: [{ role: 'user', content: 'Look.' }], metadata: { tenant: 'a' } } as const;
    await ran([item], { agent: curious, turn: { context: { user: 'ada' } } });
    expect(seen).toEqual([{ tenant: 'a' }, { user: 'ada' }]);
  });

  it('types the value of rows by the output schema of the agent', async () => {
    const forecaster = agent({
      provider: scriptedLLM([{ toolCalls: [{ name: '__finish__', arguments: { city: 'Oslo' } }] }]),
      outputSchema: z.object({ city: z.string() }),
    });
    const { rows } = await ran(['Where is it cold?'], { agent: forecaster });
    expect(same<(typeof rows)[number], BatchRow<{ city: string }>>(true)).toBe(true);
    const [row] = rows;
    expect(row?.status === 'completed' && row.value.city).toBe('Oslo');
    const batch$ = runBatch(['x'], { agent: echo(new Echoing()) });
    expect(same<typeof batch$, Observable<BatchProgress<unknown>>>(true)).toBe(true);
    const plain$ = runBatch(['x'], { agent: agent({ provider: new Echoing() }) });
    expect(same<typeof plain$, Observable<BatchProgress<undefined>>>(true)).toBe(true);
  });

  it('nothing runs before it is subscribed to', () => {
    const model = new Echoing();
    let asked = 0;
    const source = {
      *[Symbol.iterator]() {
        asked += 1;
        yield 'x';
      },
    };
    runBatch(source, { agent: echo(model) });
    expect([asked, model.prompts.length]).toEqual([0, 0]);
  });
});

describe('the source of a batch', () => {
  it('is not read further than the window, and is closed when the batch is left', async () => {
    let given = 0;
    let closed = false;
    async function* endless(): AsyncGenerator<BatchItem> {
      try {
        for (;;) {
          given += 1;
          yield { prompt: `prompt ${given}` };
        }
      } finally {
        closed = true;
      }
    }
    const held = gate();
    const model = new Echoing({ wait: () => held.pass() });
    const subscription = runBatch(endless(), { agent: echo(model), window: 25, concurrency: 5 }).subscribe();
    await held.reached;
    for (let round = 0; round < 200; round++) await new Promise(setImmediate);
    expect([given, model.active]).toEqual([25, 5]);
    subscription.unsubscribe();
    for (let round = 0; round < 20; round++) await new Promise(setImmediate);
    expect([closed, model.active]).toEqual([true, 0]);
  });

  it('that is slower than the model loses no item: each is given once the one before has its row', async () => {
    const rows = Array.from({ length: 6 }, () => gate());
    async function* waiting(): AsyncGenerator<BatchItem> {
      for (const [index, row] of rows.entries()) {
        yield { key: String(index), prompt: String(index) };
        await row.pass();
      }
    }
    const { rows: given, last } = await ran(waiting(), { agent: echo(new Echoing()) }, ({ row }) =>
      rows[Number(row?.key)]?.open(),
    );
    expect(given.map(({ key }) => key)).toEqual(['0', '1', '2', '3', '4', '5']);
    expect(last).toMatchObject({ total: 6, completed: 6 });
  });

  it('that never gives an item does not hold up a stop', async () => {
    const stop = new AbortController();
    const silent = { [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => {}) }) };
    const { last } = await ran(silent, { agent: echo(new Echoing()), signal: stop.signal }, () => stop.abort());
    expect(last.state).toBe('stopped');
  });

  it('that fails fails the batch with its error, once the turns that run have ended', async () => {
    async function* broken() {
      yield 'one';
      throw new Error('the disk is gone');
    }
    const out = join(temporaryFolder(), 'results.jsonl');
    await expect(ran(broken(), { agent: echo(new Echoing()), out })).rejects.toThrow('the disk is gone');
    expect(keysIn(out)).toEqual(['1']);
  });

  it.each([
    [
      'two items of one key',
      [{ key: 'a', prompt: 'x' }, 'y', { key: 'a', prompt: 'z' }],
      'item 1 and item 3 have the same key "a"',
    ],
    [
      'lines of one key',
      [
        { key: 'a', prompt: 'x', line: 3 },
        { key: 'a', prompt: 'z', line: 17 },
      ],
      'line 3 and line 17 have the same key "a"',
    ],
    ['an empty prompt', ['x', ' '], 'item 2: prompt must be a string with text'],
    ['messages of a wrong form', [{ messages: [{ role: 'clerk', content: 'x' }] }], 'item 1: messages[0] needs a role'],
    ['neither prompt nor messages', [{ key: 'a' }], 'item 1 must have either prompt or messages'],
    ['a number', [7], 'item 1 must be a string or an object { key, prompt }, not 7'],
    [
      'a key that is no string',
      [{ key: 7, prompt: 'x' }],
      'item 1: key must be a string of 1 to 512 characters, not 7',
    ],
    [
      'an unknown property',
      [{ prompt: 'x', line: 3, stray: 1 }],
      'line 3: unknown property "stray"; allowed: key, prompt, messages, metadata; put others into metadata',
    ],
    ['metadata that is no object', [{ metadata: [], prompt: 'x' }], 'item 1: metadata must be an object'],
  ])('with %s is refused', async (_, items, message) => {
    const wrong: Iterable<BatchItem> = JSON.parse(JSON.stringify(items));
    const error = await ran(wrong, { agent: echo(new Echoing()) }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(AgentLoopError);
    expect(error).toMatchObject({ code: 'INVALID_INPUT', message: expect.stringContaining(message) });
  });
});

describe('the options of a batch', () => {
  it.each([
    [{ concurrency: 0 }, 'concurrency must be an integer ≥ 1, not 0'],
    [{ window: 5 }, 'window must be at least concurrency'],
    [{ window: 1.5 }, 'window must be an integer ≥ 1, not 1.5'],
    [{ budget: { cost: 0 } }, 'budget.cost must be a number above 0, not 0'],
    [{ budget: { tokens: '7' } }, 'budget.tokens must be a number above 0'],
    [{ maxFailures: 0 }, 'maxFailures must be an integer ≥ 1, not 0'],
    [{ retry: { attempts: 0 } }, 'retry.attempts must be an integer ≥ 1, not 0'],
    [{ retry: { on: ['NOPE'] } }, 'retry.on must be an array of error codes'],
    [{ id: '' }, 'id must be a string of at least one character'],
    [{ concurency: 3 }, 'runBatch has no option "concurency"'],
  ])('%j is refused', async (wrong, message) => {
    const given: Partial<BatchOptions> = JSON.parse(JSON.stringify(wrong));
    const attempt = async () => ran(['x'], { concurrency: 10, ...given, agent: echo(new Echoing()) });
    await expect(attempt()).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringContaining(message),
    });
  });
});

it('a file that cannot be written is named, with what to do, and nothing is asked', async () => {
  const model = new Echoing();
  const out = join(temporaryFolder(), 'none', 'results.jsonl');
  await expect(ran(['x'], { agent: echo(model), out })).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    message: expect.stringMatching(
      /^The results cannot be kept in .*results\.jsonl \(.*ENOENT.*\); name a file in a folder that exists/,
    ),
    cause: expect.objectContaining({ code: 'ENOENT' }),
  });
  expect(model.prompts).toEqual([]);
});

describe('the budget of a batch', () => {
  it('starts no more once the tokens are used up; turns that run come to their end', async () => {
    const model = new Echoing();
    const { last, rows } = await ran(prompts(50), { agent: echo(model), concurrency: 3, budget: { tokens: 100 } });
    expect(last.state).toBe('budget');
    expect(last.usage.totalTokens).toBeGreaterThanOrEqual(100);
    expect(last.usage.totalTokens).toBeLessThanOrEqual(120);
    expect(rows.every(({ status }) => status === 'completed')).toBe(true);
    expect(model.prompts).toHaveLength(rows.length);
  });

  it('counts cost as the model tells it, and that of earlier starts', async () => {
    const out = join(temporaryFolder(), 'results.jsonl');
    const model = new Echoing({ cost: 0.01 });
    const options = { agent: echo(model), concurrency: 1, out };
    const first = await ran(prompts(50), { ...options, budget: { cost: 0.05 } });
    expect([first.last.state, first.last.cost, first.rows.length]).toEqual(['budget', 0.05, 5]);
    const second = await ran(prompts(50), { ...options, budget: { cost: 0.05 } });
    expect([second.last.state, second.rows.length, second.last.earlier]).toEqual(['budget', 0, 5]);
    const third = await ran(prompts(50), { ...options, budget: { cost: 0.08 } });
    expect([third.last.cost, third.rows.length]).toEqual([0.08, 3]);
  });

  it('in dollars is refused with the first row whose cost nobody knows', async () => {
    const model = new Echoing();
    const attempt = ran(prompts(50), { agent: echo(model), concurrency: 1, budget: { cost: 1 } });
    await expect(attempt).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringContaining('budget.cost needs a model whose cost is known'),
    });
    expect(model.prompts).toHaveLength(1);
  });

  it.each([{ tokens: 100 }, { cost: 1 }])(
    'of %j is refused with the first row whose usage no model reports',
    async (budget) => {
      const asked: string[] = [];
      const silent: LLMProvider = {
        async call() {
          asked.push('call');
          return { message: { role: 'assistant', content: 'Done.' }, finishReason: 'stop' };
        },
      };
      const attempt = ran(prompts(50), { agent: agent({ id: 'silent', provider: silent }), concurrency: 1, budget });
      await expect(attempt).rejects.toMatchObject({
        code: 'INVALID_CONFIG',
        message: expect.stringMatching(/^budget\.(tokens|cost) needs a model .* "[^"]+" has none; (give|use) /),
      });
      expect(asked).toHaveLength(1);
    },
  );

  it('in tokens counts the estimate of limits where no model reports its usage', async () => {
    const provider: LLMProvider = {
      call: async () => ({ message: { role: 'assistant', content: 'Done.' }, finishReason: 'stop' }),
    };
    const estimated = agent({ id: 'estimated', provider, extensions: [limits({ maxTokens: 1_000_000 })] });
    const { last } = await ran(prompts(50), { agent: estimated, concurrency: 1, budget: { tokens: 10 } });
    expect(last.state).toBe('budget');
  });

  it('in dollars uses the prices that it is given', async () => {
    const prices = { find: () => ({ prices: { input: 1_000, output: 1_000 } }) };
    const priced = echo(new Echoing());
    const { last } = await ran(prompts(50), { agent: priced, concurrency: 1, budget: { cost: 0.03 }, prices });
    expect([last.state, last.cost]).toEqual(['budget', 0.03]);
  });
});

describe('maxFailures of a batch', () => {
  const wrong = () => new AgentLoopError('PROVIDER_AUTH', 'No key.');

  it('starts no more once so many failed for good, and continues with a limit of its own when it is started again', async () => {
    const out = join(temporaryFolder(), 'results.jsonl');
    const model = new Echoing({ fail: wrong });
    const options = { agent: echo(model), concurrency: 2, out, maxFailures: 4 };
    const { last, rows } = await ran(prompts(50), options);
    expect(last.state).toBe('failures');
    expect(rows.every(({ status }) => status === 'failed')).toBe(true);
    // What ran at once comes to its end.
    expect([4, 5]).toContain(rows.length);
    expect(model.prompts).toHaveLength(rows.length);
    const second = await ran(prompts(50), { ...options, agent: echo(new Echoing()) });
    expect(second.last).toMatchObject({ state: 'completed', failed: rows.length, completed: 50 - rows.length });
  });

  it('counts an item whose retries are used up, once', async () => {
    const retry = { attempts: 2, delayMs: 0, on: ['PROVIDER_AUTH' as const] };
    const model = new Echoing({ fail: wrong });
    const { last } = await ran(prompts(9), { agent: echo(model), concurrency: 1, retry, maxFailures: 3 });
    expect([last.state, last.failed, model.prompts.length]).toEqual(['failures', 3, 6]);
  });
});

describe('retries of a batch', () => {
  const away = () => new AgentLoopError('PROVIDER_SERVER', 'The model is away.', { retryable: true });

  it('run an item again until its attempts are used up; usage is that of all attempts', async () => {
    const model = new Echoing({ fail: (_, call) => (call < 3 ? away() : undefined) });
    const { rows } = await ran(['x'], { agent: echo(model), retry: { attempts: 3, delayMs: 0 } });
    expect(rows).toMatchObject([{ status: 'completed', attempts: 3, text: 'echo: x' }]);
    const broken = new Echoing({ fail: away });
    const second = await ran(['x'], { agent: echo(broken), retry: { attempts: 2, delayMs: 0 } });
    expect(second.rows).toMatchObject([{ status: 'failed', attempts: 2, error: { code: 'PROVIDER_SERVER' } }]);
    expect(second.last).toMatchObject({ state: 'completed', failed: 1, completed: 0 });
    expect(broken.prompts).toHaveLength(2);
  });

  it('do not run an item again whose failure does not pass, unless `on` names it', async () => {
    const refused = () => new AgentLoopError('PROVIDER_AUTH', 'No key.');
    const model = new Echoing({ fail: refused });
    await ran(['x'], { agent: echo(model), retry: { attempts: 3, delayMs: 0 } });
    expect(model.prompts).toHaveLength(1);
    await ran(['x'], { agent: echo(model), retry: { attempts: 3, delayMs: 0, on: ['PROVIDER_AUTH'] } });
    expect(model.prompts).toHaveLength(4);
  });

  it('with a store ask the model again that called the finish tool with wrong arguments only', async () => {
    const call = (topic: string) => ({ toolCalls: [{ name: '__finish__', arguments: { topic } }] });
    const model = scriptedLLM([call('bad'), call('bad'), call('bad'), call('invoice')]);
    const outputSchema = z.object({ topic: z.enum(['invoice']) });
    const clerk = agent({
      provider: model,
      taskStateStore: new InMemoryStateStore(),
      enableTracing: false,
      outputSchema,
    });
    const { rows } = await ran(['x'], { agent: clerk, retry: { attempts: 3, delayMs: 0 } });
    expect(rows).toMatchObject([{ status: 'completed', attempts: 2, value: { topic: 'invoice' } }]);
    expect(model.calls).toHaveLength(4);
  });

  it('with a store continue from the last good record: calls that succeeded are not made again', async () => {
    let calls = 0;
    let looks = 0;
    const provider = {
      async call() {
        calls += 1;
        if (calls === 2) throw away();
        const usage = { promptTokens: 6, completionTokens: 4, totalTokens: 10 };
        if (calls === 1) {
          const toolCalls = [{ id: 'c', type: 'function' as const, function: { name: 'look', arguments: '{}' } }];
          return {
            message: { role: 'assistant' as const, content: null, toolCalls },
            finishReason: 'tool_calls' as const,
            usage,
          };
        }
        return { message: { role: 'assistant' as const, content: 'Done.' }, finishReason: 'stop' as const, usage };
      },
    };
    const look = tool({
      name: 'look',
      description: 'Looks.',
      parameters: z.object({}),
      execute: () => String(++looks),
    });
    const durable = agent({ provider, tools: [look], retry: null, taskStateStore: new InMemoryStateStore() });
    const { rows } = await ran(['x'], { agent: durable, id: 'b', retry: { attempts: 2, delayMs: 0 } });
    expect(rows).toMatchObject([{ status: 'completed', attempts: 2, text: 'Done.', usage: { totalTokens: 20 } }]);
    expect([calls, looks]).toEqual([3, 1]);
  });

  it('an item that is left while it waits for its next attempt stops at once', async () => {
    const model = new Echoing({ fail: away });
    const stop = new AbortController();
    const waiting = gate();
    const clock = {
      now: () => 0,
      schedule: () => {
        void waiting.pass();
        return () => {};
      },
    };
    const running = ran(['x'], { agent: echo(model), retry: {}, clock, signal: stop.signal });
    await waiting.reached;
    stop.abort();
    const { last, rows } = await running;
    expect([last.state, rows]).toEqual(['stopped', []]);
  });
});
