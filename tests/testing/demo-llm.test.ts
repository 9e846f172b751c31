import { expect, it } from '@jest/globals';
import { agent, tool } from 'millrace';
import { type DemoLLMOptions, demoLLM } from 'millrace/testing';
import { EMPTY, firstValueFrom, lastValueFrom, toArray } from 'rxjs';

const lookUp = tool({
  name: 'lookup_order',
  description: 'Tells the status of an order.',
  parameters: { type: 'object', properties: { order_id: { type: 'string' } }, required: ['order_id'] },
  execute: ({ order_id: id }) => `Order ${id} was shipped.`,
});
const request = { messages: [{ role: 'user', content: 'Hello! Who are you?' }] } as const;

it('calls tools, two of one answer and again in the next turn, and answers with their results', async () => {
  const bo = agent({ id: 'bo', provider: demoLLM(), tools: [lookUp], contextId: 'c' });
  const first = await bo.run('What is the status of order A-1, and what is the status of order A-2?');
  expect(first.text).toContain('Order A-1 was shipped.');
  expect(first.text).toContain('Order A-2 was shipped.');
  const { text, messages } = await bo.run('What is the status of order A-3?');
  expect(text).toContain('Order A-3 was shipped.');
  const ids = [...first.messages, ...messages].flatMap((each) => ('toolCallId' in each ? each.toolCallId : []));
  expect([ids.length, new Set(ids).size]).toEqual([3, 3]);
});

const streamed = (options?: DemoLLMOptions) => demoLLM(options).stream?.(request) ?? EMPTY;
const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;

it('streams a word at a time what call answers at once, cut at maxTokens', async () => {
  const { message } = await demoLLM().call(request);
  const chunks = await lastValueFrom(streamed().pipe(toArray()));
  const words = chunks.flatMap((chunk) => (chunk.type === 'text' ? chunk.text : []));
  expect(words.join('')).toBe(message.content);
  expect(words.length).toBeGreaterThan(10);
  expect(chunks.at(-1)).toEqual({ type: 'done', response: await demoLLM().call(request) });
  expect(await demoLLM().call({ ...request, maxTokens: 1 })).toMatchObject({ finishReason: 'length' });
});

it('waits before each word, and stops where nobody listens or the call is aborted', async () => {
  expect(await firstValueFrom(streamed({ delayMs: 1 }))).toEqual({ type: 'text', text: 'Hello!' });
  const before = timers();
  const subscription = streamed({ delayMs: 3_600_000 }).subscribe();
  expect(timers()).toBe(before + 1);
  subscription.unsubscribe();
  expect(timers()).toBe(before);
  await expect(demoLLM().call({ ...request, signal: AbortSignal.abort('gone') })).rejects.toBe('gone');
});

it.each([-1, Number.NaN])('refuses a delay of %s', (delayMs) => {
  expect(() => demoLLM({ delayMs })).toThrow(
    expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringContaining(`delayMs is ${delayMs};`) }),
  );
});
