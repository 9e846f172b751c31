import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import {
  AgentLoop,
  type AgentLoopConfig,
  InMemoryStateStore,
  type LLMCallParams,
  type LLMChunk,
  LocalToolProvider,
  systemClock,
  type ToolProvider,
  tool,
} from 'millrace';
import { from, lastValueFrom, Observable } from 'rxjs';

// Costs as counts: they are the same on every machine.

interface Work {
  /** Answers that ask for tools. */
  readonly iterations: number;
  /** Calls of each. Default 1. */
  readonly calls?: number;
  readonly stored?: boolean;
  readonly config?: Partial<AgentLoopConfig>;
}

/** Answers of one text each, at once. */
function model(iterations: number, calls: number) {
  let answers = 0;
  return ({ messages }: Pick<LLMCallParams, 'messages'>): Observable<LLMChunk> => {
    const last = ++answers > iterations;
    const toolCalls = Array.from({ length: last ? 0 : calls }, (_, index) => ({
      id: `call-${messages.length}-${index}`,
      type: 'function' as const,
      function: { name: 'echo', arguments: '{"text":"a"}' },
    }));
    const message = { role: 'assistant' as const, content: 'Well.' };
    return from<LLMChunk[]>([
      { type: 'text', text: 'Well.' },
      { type: 'done', response: { message, toolCalls } },
    ]);
  };
}

const echo = tool({
  name: 'echo',
  description: 'Says it again.',
  parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  execute: async ({ text }: { text: string }) => text,
});

function loop({ iterations, calls = 1, stored = false, config }: Work) {
  return new AgentLoop({
    agentId: 'bench',
    maxIterations: 1_000,
    llmProvider: { call: () => Promise.reject(new Error('It streams.')), stream: model(iterations, calls) },
    toolProviders: [new LocalToolProvider([echo])],
    ...(stored && { taskStateStore: new InMemoryStateStore() }),
    ...config,
  });
}

async function run(work: Work): Promise<void> {
  const last = await lastValueFrom(loop(work).startTurn([{ role: 'user', content: 'Hello' }]));
  expect(last).toMatchObject({ kind: 'status-update', final: true, status: { state: 'completed' } });
}

afterEach(() => {
  jest.restoreAllMocks();
});

describe('subscriptions of a turn', () => {
  /** Without that of the caller. */
  async function subscriptions(work: Work): Promise<number> {
    const subscribe = jest.spyOn(Observable.prototype, 'subscribe');
    await run(work);
    const { length } = subscribe.mock.calls;
    subscribe.mockRestore();
    return length - 1;
  }

  for (const stored of [false, true]) {
    it(`W-08 are 4 an iteration, one of them for its tool call${stored ? ', with a store too' : ''}`, async () => {
      const [few, many] = [
        await subscriptions({ iterations: 2, stored }),
        await subscriptions({ iterations: 12, stored }),
      ];
      expect((many - few) / 10).toBeLessThanOrEqual(4);
      const [one, eleven] = [
        await subscriptions({ iterations: 1, stored }),
        await subscriptions({ iterations: 1, calls: 11, stored }),
      ];
      expect((eleven - one) / 10).toBeLessThanOrEqual(1);
    });
  }

  it('W-08 are 11 for one that asks for no tool', async () => {
    expect(await subscriptions({ iterations: 0 })).toBeLessThanOrEqual(11);
  });
});

it('W-15 makes no AbortController where nobody reads a signal', async () => {
  let made = 0;
  const { AbortController: Real } = globalThis;
  globalThis.AbortController = class extends Real {
    constructor() {
      super();
      made++;
    }
  };
  try {
    await run({ iterations: 3, calls: 3, stored: true });
  } finally {
    globalThis.AbortController = Real;
  }
  expect(made).toBe(0);
});

describe('timers of a turn', () => {
  async function timers(tools: ToolProvider, calls: number): Promise<number> {
    const schedule = jest.fn(systemClock.schedule);
    const config = { clock: { ...systemClock, schedule }, toolProviders: [tools], toolConcurrency: 4 };
    await run({ iterations: 3, calls, config });
    return schedule.mock.calls.length;
  }

  it('W-14 are none for tools that answer at once, and one for each batch of others', async () => {
    const atOnce = tool({ name: 'echo', description: 'At once.', parameters: echoSchema, execute: () => 'now' });
    const [quick, slow] = [new LocalToolProvider([atOnce]), new LocalToolProvider([echo])];
    // The first listing compiles the schemas.
    for (const tools of [quick, slow]) await timers(tools, 1);
    const setTimeout = jest.spyOn(globalThis, 'setTimeout');
    expect(await timers(quick, 3)).toBe(0);
    expect(await timers(slow, 1)).toBe(3);
    expect(await timers(slow, 50)).toBe(3);
    expect(setTimeout).not.toHaveBeenCalled();
  });
});

const echoSchema = { type: 'object' } as const;

it('W-11 does not change the messages of a call while it runs, also where the turn is steered', async () => {
  const seen: (readonly [number, string])[] = [];
  const turn = loop({
    iterations: 0,
    config: {
      llmProvider: {
        call: () => Promise.reject(new Error('It streams.')),
        stream: ({ messages }) =>
          new Observable((to) => {
            const note = () => seen.push([messages.length, JSON.stringify(messages)]);
            note();
            turn.steer({ role: 'user', content: 'And shorter.' });
            note();
            to.next({ type: 'text', text: 'Yes.' });
            note();
            to.next({ type: 'done', response: { message: { role: 'assistant', content: 'Yes.' } } });
            to.complete();
          }),
      },
      maxIterations: 2,
    },
  }).startTurn([{ role: 'user', content: 'Hello' }]);
  await lastValueFrom(turn);
  expect(seen).toHaveLength(6);
  for (const index of [0, 3]) expect(new Set(seen.slice(index, index + 3).map(([, text]) => text)).size).toBe(1);
});

it('W-19 fails the turn with PROVIDER_FAILED where the provider throws before it gives an Observable', async () => {
  const broken = new RangeError('no route');
  const stream = (): never => {
    throw broken;
  };
  const turn = loop({ iterations: 0, config: { llmProvider: { call: stream, stream } } }).startTurn([
    { role: 'user', content: 'Hello' },
  ]);
  await expect(turn.result()).rejects.toMatchObject({
    code: 'PROVIDER_FAILED',
    message: expect.stringContaining('no route'),
  });
  const asked = loop({ iterations: 0, config: { llmProvider: { call: stream } } }).startTurn([
    { role: 'user', content: 'Hello' },
  ]);
  await expect(asked.result()).rejects.toMatchObject({ code: 'PROVIDER_FAILED' });
});

// V8 puts a function that is written as the right side of a property assignment (`this.stop = () => …`) into old space, where it keeps
// alive what it refers to until the next full collection: every turn would then survive.
it('lets a minor collection free the turns that are over', async () => {
  setFlagsFromString('--expose-gc');
  const gc: (options?: { type: 'minor' }) => void = runInNewContext('gc');
  const turns = 300;
  for (let n = 0; n < turns; n++) await run({ iterations: 1 });
  gc();
  const before = process.memoryUsage().heapUsed;
  for (let n = 0; n < turns; n++) await run({ iterations: 1 });
  gc({ type: 'minor' });
  gc({ type: 'minor' });
  expect((process.memoryUsage().heapUsed - before) / turns).toBeLessThan(10_000);
});

// `{ ...turn, context }` has a hidden class for each object; `{ context, ...turn }` has one for all.
it('makes the contexts of tool providers with one hidden class', async () => {
  setFlagsFromString('--allow-natives-syntax');
  const haveSameShape = new Function('one', 'other', 'return %HaveSameMap(one, other)');
  const contexts: unknown[] = [];
  const provider: ToolProvider = {
    getTools(context) {
      contexts.push(context);
      return [];
    },
    executeTool: () => Promise.reject(new Error('It has no tools.')),
  };
  for (let n = 0; n < 4; n++) await run({ iterations: 0, config: { toolProviders: [provider] } });
  expect(haveSameShape(contexts[2], contexts[3])).toBe(true);
});
