import type { LanguageModelV3, LanguageModelV3StreamPart } from '@ai-sdk/provider';
import { expect, it } from '@jest/globals';
import type { LLMResponse } from 'millrace';
import { AISDKProvider } from 'millrace/ai-sdk';
import { fakeClock, gate } from 'millrace/testing';
import { lastValueFrom } from 'rxjs';

const messages = [{ role: 'user' as const, content: 'Hi' }];
const noTokens = { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined };
const usage = { inputTokens: noTokens, outputTokens: { total: undefined, text: undefined, reasoning: undefined } };
const finish: LanguageModelV3StreamPart = { type: 'finish', usage, finishReason: { unified: 'stop', raw: 'stop' } };

/** A model whose stream gives a part each time that it is read; `end` is called where there is none left. */
function modelOf(parts: readonly LanguageModelV3StreamPart[], end: (close: () => void) => unknown): LanguageModelV3 {
  const left = [...parts];
  return {
    specificationVersion: 'v3',
    provider: 'test.chat',
    modelId: 'm-1',
    supportedUrls: {},
    doGenerate: () => Promise.reject(new Error('It is not asked.')),
    doStream: async () => ({
      stream: new ReadableStream(
        {
          pull(controller) {
            const part = left.shift();
            if (part) controller.enqueue(part);
            else return void end(() => controller.close());
          },
        },
        { highWaterMark: 0 },
      ),
    }),
  };
}

async function answered(parts: readonly LanguageModelV3StreamPart[]): Promise<LLMResponse> {
  const provider = new AISDKProvider({ model: modelOf([...parts, finish], (close) => close()), clock: fakeClock() });
  const last = await lastValueFrom(provider.stream({ messages }));
  if (last.type !== 'done') throw new Error('The stream did not end with done.');
  return last.response;
}

it('keeps of a tool of the vendor the result, not what it showed on the way', async () => {
  const call = { toolCallId: 'v', toolName: 'search' };
  const { message } = await answered([
    { type: 'tool-call', ...call, input: '{}', providerExecuted: true },
    { type: 'tool-result', ...call, result: 'half', preliminary: true },
    { type: 'tool-result', ...call, result: 'whole' },
  ]);
  const kept = JSON.stringify(message.metadata);
  expect(kept).toContain('"result":"whole"');
  expect(kept).not.toContain('half');
});

it('takes two calls of one id for two', async () => {
  const call = (input: string) => ({ type: 'tool-call', toolCallId: 'c', toolName: 'add', input }) as const;
  const { toolCalls } = await answered([call('{"a":1}'), call('{"a":2}')]);
  expect(toolCalls?.map(({ function: { arguments: given } }) => given)).toEqual(['{"a":1}', '{"a":2}']);
});

it.each([
  ['500 ms', {}, 500],
  ['chunkTimeoutMs, where that is less', { chunkTimeoutMs: 300 }, 300],
])('waits for the end behind the finish reason for %s', async (_, limits, ms) => {
  const clock = fakeClock();
  const silent = gate();
  const model = modelOf([finish], () => void silent.pass());
  const pending = lastValueFrom(new AISDKProvider({ model, clock, ...limits }).stream({ messages }));
  await silent.reached;
  clock.advance(ms - 1);
  expect(clock.pending).toBe(2);
  clock.advance(1);
  expect(await pending).toMatchObject({ type: 'done', response: { finishReason: 'stop' } });
  expect(clock.pending).toBe(0);
});
