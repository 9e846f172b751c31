import { describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import { cacheResponses, InMemoryCacheStore, type LLMCallParams, LocalToolProvider, limits, tool } from 'millrace';
import { AgentLoop, keyOf, requestOf } from 'millrace/internals';
import { fakeClock, scriptedLLM } from 'millrace/testing';
import { chunksOf, hi } from './scripted-calls.ts';

const info = { providerName: 'test', model: 'm' };
const usage = { promptTokens: 3, completionTokens: 2, totalTokens: 5 };

describe('cacheResponses', () => {
  it('S1-99 answers an identical request without a call of the provider, with a usage of 0', async () => {
    const llm = scriptedLLM([{ text: 'Hello', usage }], { info });
    const provider = cacheResponses({ store: new InMemoryCacheStore() })(llm);
    expect(await chunksOf(provider)).toEqual(['Hello', 'done Hello']);
    const again = await provider.call({ messages: [{ ...hi.messages[0], role: 'user', content: 'Hi', id: 'other' }] });
    expect(again.message.content).toBe('Hello');
    expect(again.usage).toEqual({ promptTokens: 0, completionTokens: 0, totalTokens: 0 });
    llm.assertDone();
  });

  it('S1-99 plays a whole turn with tools again, in another loop with the same store', async () => {
    let rolls = 0;
    const roll = tool({
      name: 'roll',
      description: 'Rolls.',
      parameters: { type: 'object' },
      execute: () => `rolled ${++rolls > 0}`,
    });
    const store = new InMemoryCacheStore();
    const llm = scriptedLLM([{ toolCalls: [{ name: 'roll' }] }, { text: 'It is true.' }], { info });
    for (let n = 0; n < 2; n++) {
      const llmProvider = cacheResponses({ store })(llm);
      const loop = new AgentLoop({ agentId: 'a', llmProvider, toolProviders: [new LocalToolProvider([roll])] });
      expect((await loop.startTurn(hi.messages).result()).text).toBe('It is true.');
    }
    expect(rolls).toBe(2);
    llm.assertDone();
  });

  it('counts nothing for an answer that is given again, also where a limit on tokens has others guessed', async () => {
    const store = new InMemoryCacheStore();
    const totals: number[] = [];
    for (let n = 0; n < 2; n++) {
      const llmProvider = cacheResponses({ store })(scriptedLLM(n === 0 ? [{ text: 'Hello', usage }] : [], { info }));
      const loop = new AgentLoop({ agentId: 'a', llmProvider, extensions: [limits({ maxTokens: 1_000 })] });
      totals.push((await loop.startTurn(hi.messages).result()).usage.totalTokens);
    }
    expect(totals).toEqual([5, 0]);
  });

  it.each<[string, Partial<LLMCallParams>]>([
    ['messages', { messages: [{ role: 'user', content: 'Hello' }] }],
    ['tools', { tools: [{ type: 'function', function: { name: 'f', description: '', parameters: {} } }] }],
    ['toolChoice', { toolChoice: 'none' }],
    ['temperature', { temperature: 0.5 }],
    ['maxTokens', { maxTokens: 5 }],
    ['models', { model: 'n' }],
    ['response formats', { responseFormat: { type: 'json_schema', name: 'x', schema: {} } }],
    ['options of the vendor', { providerOptions: { seed: 1 } }],
  ])('asks anew where %s differ', async (_, change) => {
    const llm = scriptedLLM([{ text: 'one' }, { text: 'two' }], { info });
    const provider = cacheResponses({ store: new InMemoryCacheStore() })(llm);
    await provider.call(hi);
    expect((await provider.call({ ...hi, ...change })).message.content).toBe('two');
  });

  it('keeps models and namespaces apart', async () => {
    const store = new InMemoryCacheStore();
    const one = cacheResponses({ store })(scriptedLLM([{ text: 'one' }], { info }));
    const two = cacheResponses({ store })(scriptedLLM([{ text: 'two' }], { info: { model: 'n' } }));
    const three = cacheResponses({ store, namespace: 'x' })(scriptedLLM([{ text: 'three' }], { info }));
    for (let n = 0; n < 2; n++) {
      const given = await Promise.all([one, two, three].map(async (each) => (await each.call(hi)).message.content));
      expect(given).toEqual(['one', 'two', 'three']);
    }
  });

  it('forgets an answer when its time is over', async () => {
    const clock = fakeClock();
    const llm = scriptedLLM([{ text: 'old' }, { text: 'new' }], { info });
    const provider = cacheResponses({ store: new InMemoryCacheStore({ clock }), ttlMs: 1_000 })(llm);
    for (const [pauseMs, answer] of [
      [0, 'old'],
      [999, 'old'],
      [1, 'new'],
    ] as const) {
      clock.advance(pauseMs);
      expect((await provider.call(hi)).message.content).toBe(answer);
    }
  });

  it('keeps no answer that was cut short', async () => {
    const llm = scriptedLLM(
      [
        { text: 'Hel', finishReason: 'length' },
        { text: '', finishReason: 'content_filter' },
        { text: 'Hello', finishReason: 'stop' },
      ],
      { info },
    );
    const provider = cacheResponses({ store: new InMemoryCacheStore() })(llm);
    for (const answer of ['Hel', '', 'Hello', 'Hello']) expect((await provider.call(hi)).message.content).toBe(answer);
  });

  it('goes on without a store that fails, throws or gives nonsense, and says so', async () => {
    const broken = new Error('the store is gone');
    const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const told: unknown[] = [];
    const reject = () => Promise.reject(broken);
    const fail = () => {
      throw broken;
    };
    for (const [get, set] of [
      [reject, reject],
      [fail, fail],
      [() => ({ message: 'nonsense' }), () => {}],
    ] as const) {
      const provider = cacheResponses({
        store: { get, set, delete: () => {} },
        onError: (error) => {
          told.push(error);
          throw broken;
        },
      })(scriptedLLM([{ text: 'Hello' }], { info }));
      expect((await provider.call(hi)).message.content).toBe('Hello');
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(told).toEqual([broken, broken, broken, broken]);
    const warnings = warn.mock.calls.map(([warning]) => warning);
    warn.mockRestore();
    expect(warnings).toEqual(Array(2).fill(`A listener (option onError of cacheResponses) failed: ${broken.message}`));
  });

  it('wants to know which model answers', () => {
    expect(() => cacheResponses({ store: new InMemoryCacheStore() })(scriptedLLM([]))).toThrow(
      /info\.model\): give a namespace/,
    );
  });
});

describe('keyOf', () => {
  it('does not depend on the order of members, and differs with any value', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.string(), (value, other) => {
        const reversed = Object.fromEntries(Object.entries(value).reverse());
        expect(keyOf(reversed)).toBe(keyOf(value));
        expect(keyOf({ ...value, [other]: 'changed by this test' })).not.toBe(keyOf(value));
      }),
    );
  });

  it('does not depend on the ids of calls, but on what they bind together', () => {
    const history = (one: string, two: string, first = one) =>
      requestOf({
        messages: [
          {
            role: 'assistant',
            content: null,
            toolCalls: [one, two].map((id) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })),
          },
          { role: 'tool', toolCallId: first, content: 'yes' },
        ],
      });
    expect(keyOf(history('x1', 'x2'))).toBe(keyOf(history('y1', 'y2')));
    expect(keyOf(history('x1', 'x2'))).not.toBe(keyOf(history('x1', 'x2', 'x2')));
  });
});
