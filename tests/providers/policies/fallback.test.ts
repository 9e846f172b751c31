import { describe, expect, it } from '@jest/globals';
import { fallback, type LLMProvider } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { openResources, scriptedLLM, startModelServer } from 'millrace/testing';
import { marbles } from '../../core/operators/marbles.ts';
import { chunk, chunksOf, failure, hi, inShort$, short, streaming } from './scripted-calls.ts';

const down = failure('PROVIDER_SERVER', { status: 503 });

describe('fallback', () => {
  it('voids what the failed provider streamed and asks the next in the same instant', () => {
    marbles(({ cold, expectObservable, expectSubscriptions }) => {
      const first = cold('a-#', chunk, down);
      const second = cold('----b(d|)', chunk);
      const provider = fallback({ to: streaming(second) })(streaming(first));
      expectObservable(inShort$(provider)).toBe('a-(vn)b(d|)', short);
      expectSubscriptions(first.subscriptions).toBe('^-!');
      expectSubscriptions(second.subscriptions).toBe('--^----!');
    });
  });

  it('asks several in their order and passes the error of the last', async () => {
    const [one, two, three] = [
      scriptedLLM([{ error: down }]),
      scriptedLLM([{ error: down }]),
      scriptedLLM([{ text: 'Hello' }]),
    ];
    expect(await chunksOf(fallback({ to: [two, three] })(one))).toEqual([
      'void PROVIDER_SERVER',
      'begin',
      'void PROVIDER_SERVER',
      'begin',
      'Hello',
      'done Hello',
    ]);
    const last = failure('PROVIDER_AUTH');
    const failing = fallback({ to: scriptedLLM([{ error: last }]) })(scriptedLLM([{ error: down }]));
    await expect(failing.call(hi)).rejects.toBe(last);
  });

  it('keeps the model and the vendor’s options of a call from the others, which have their own', async () => {
    const [first, second] = [scriptedLLM([{ error: down }]), scriptedLLM([{ text: 'Hello' }])];
    const asked: unknown[] = [];
    const watched = (llm: LLMProvider): LLMProvider => ({
      call: (params) => {
        asked.push([params.model, params.providerOptions, params.temperature]);
        return llm.call(params);
      },
    });
    const call = { ...hi, model: 'm', providerOptions: { seed: 1 }, temperature: 0.5 };
    await fallback({ to: watched(second) })(watched(first)).call(call);
    expect(asked).toEqual([
      ['m', { seed: 1 }, 0.5],
      [undefined, undefined, 0.5],
    ]);
  });

  it('begins each call with the first provider', async () => {
    const first = scriptedLLM([{ error: down }, { text: 'well again' }]);
    const provider = fallback({ to: scriptedLLM([{ text: 'meanwhile' }]) })(first);
    expect((await provider.call(hi)).message.content).toBe('meanwhile');
    expect((await provider.call(hi)).message.content).toBe('well again');
  });

  it('passes failures that another provider could not mend, or that `on` does not name', async () => {
    const other = scriptedLLM([]);
    for (const error of [failure('CANCELED'), failure('INVALID_INPUT')]) {
      await expect(fallback({ to: other })(scriptedLLM([{ error }])).call(hi)).rejects.toBe(error);
    }
    const only = fallback({ to: other, on: ['PROVIDER_RATE_LIMIT'] });
    await expect(only(scriptedLLM([{ error: down }])).call(hi)).rejects.toBe(down);
    other.assertDone();
  });

  it('asks another where an answer has no shape', async () => {
    const shapeless = {
      call: async () => ({
        message: { role: 'assistant' as const, content: null },
        usage: { promptTokens: Number.NaN, completionTokens: 0, totalTokens: 0 },
      }),
    };
    expect(await chunksOf(fallback({ to: scriptedLLM([{ text: 'Hello' }]) })(shapeless))).toContain(
      'void PROVIDER_PROTOCOL',
    );
  });

  it('goes on over the wire after a break in mid-stream, and leaves no socket', async () => {
    const ledger = openResources();
    const broken = await startModelServer({ script: [{ text: 'one two three', closeAfter: 2 }] });
    const well = await startModelServer({ script: [{ text: 'four five' }] });
    const provider = fallback({ to: new LiteLLMProvider({ baseUrl: well.baseUrl, model: 'b' }) })(
      new LiteLLMProvider({ baseUrl: broken.baseUrl, model: 'a' }),
    );
    expect(await chunksOf(provider)).toEqual([
      'one',
      ' two',
      'void PROVIDER_STREAM_CLOSED',
      'begin',
      'four',
      ' five',
      'done four five',
    ]);
    await Promise.all([broken.close(), well.close()]);
    await ledger.assertNone();
  });
});
