import type { LanguageModelV3 } from '@ai-sdk/provider';
import { describe, expect, it } from '@jest/globals';
import type { LLMChunk, Message } from 'millrace';
import { type AISDKModel, AISDKProvider, type AISDKProviderOptions } from 'millrace/ai-sdk';
import type { SdkModel } from 'millrace/internals';
import { lastValueFrom, toArray } from 'rxjs';
import { same } from '../../same-type.ts';
import { codedError } from '../provider-error.ts';
import { history, pixel } from './request-of-call.ts';

interface Part {
  readonly type: string;
  readonly [member: string]: unknown;
}

const noTokens = { total: undefined, cacheRead: undefined, cacheWrite: undefined };
const usage = { inputTokens: noTokens, outputTokens: { total: undefined, reasoning: undefined } };
const finish = (unified = 'stop', raw = 'stop'): Part => ({ type: 'finish', usage, finishReason: { unified, raw } });
const said = (text: string): readonly Part[] => [
  { type: 'text-start', id: '0' },
  { type: 'text-delta', id: '0', delta: text },
  { type: 'text-end', id: '0', citations: [] },
];

const fileMembers = ['data', 'filename', 'mediaType', 'providerOptions', 'type'];

/** Throws where a file is not one of v4: real models drop such a file silently. */
function assertV4File(part: Part): void {
  const { data } = part;
  const tagged = typeof data === 'object' && data !== null && 'type' in data ? data : { type: 'none' };
  const isData = tagged.type === 'data' && 'data' in tagged && typeof tagged.data === 'string';
  const isUrl = tagged.type === 'url' && 'url' in tagged && tagged.url instanceof URL;
  const unknown = Object.keys(part).filter((member) => !fileMembers.includes(member));
  if (part.type !== 'file' || unknown.length > 0 || !(isData || isUrl))
    throw new Error(`No file: ${JSON.stringify(part)}`);
}

const partsOfRole: Readonly<Record<string, readonly string[]>> = {
  user: ['text', 'file'],
  assistant: ['text', 'file', 'custom', 'reasoning', 'tool-call', 'tool-result'],
  tool: ['tool-result'],
};

interface V4Request {
  readonly prompt: readonly { readonly role: string; readonly content: string | readonly Part[] }[];
}

/** Throws at any part that the interface v4 does not have. */
function assertV4Prompt({ prompt }: V4Request): void {
  for (const { role, content } of prompt) {
    for (const part of typeof content === 'string' ? [] : content) {
      if (!partsOfRole[role]?.includes(part.type)) throw new Error(`No part of ${role}: ${part.type}`);
      if (part.type === 'file') assertV4File(part);
      const { output } = part;
      if (typeof output !== 'object' || output === null || !('value' in output) || !Array.isArray(output.value))
        continue;
      for (const one of output.value) {
        if (one.type !== 'text') assertV4File(one);
      }
    }
  }
}

/** A model of the interface v4, which checks its prompt, and answers with these parts. */
function v4Model(parts: readonly Part[], left?: () => void): { model: AISDKModel; requests: V4Request[] } {
  const requests: V4Request[] = [];
  const take = (request: V4Request) => {
    assertV4Prompt(request);
    requests.push(request);
  };
  const content = parts.flatMap((part): readonly Part[] => {
    if (part.type === 'text-delta') return [{ type: 'text', text: part['delta'], citations: [] }];
    return ['text-start', 'text-end', 'finish', 'ping'].includes(part.type) ? [] : [part];
  });
  const model = {
    specificationVersion: 'v4' as const,
    provider: 'test.chat',
    modelId: 'm-4',
    supportedUrls: {},
    doGenerate: async (request: V4Request) => {
      take(request);
      return { content, ...finish(), usage, warnings: [] };
    },
    doStream: async (request: V4Request) => {
      take(request);
      const start = (controller: ReadableStreamDefaultController<Part>) => {
        for (const part of parts) controller.enqueue(part);
        if (left === undefined) controller.close();
      };
      return { stream: new ReadableStream<Part>({ start, cancel: () => left?.() }) };
    },
  };
  return { model, requests };
}

async function chunksOf(
  parts: readonly Part[],
  messages: readonly Message[],
  options: Partial<AISDKProviderOptions> = {},
): Promise<readonly LLMChunk[]> {
  const provider = new AISDKProvider({ model: v4Model(parts).model, ...options });
  return lastValueFrom(provider.stream({ messages }).pipe(toArray()));
}

const hi: readonly Message[] = [{ role: 'user', content: 'Hi' }];

describe('a model of the interface v4', () => {
  it('P-17 gets pictures and files of messages and of results in tagged form', async () => {
    const { model, requests } = v4Model([...said('ok'), finish()]);
    const provider = new AISDKProvider({ model, toolMedia: 'result' });
    const messages: readonly Message[] = [
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } },
          { type: 'image_url', image_url: { url: 'https://example.com/a.webp' } },
          { type: 'image_url', image_url: { url: 'https://example.com/b' } },
        ],
      },
      ...history,
    ];
    const tools = ['weather', 'camera', 'radar'].map((name) => ({
      type: 'function' as const,
      function: { name, description: '', parameters: { type: 'object' } },
    }));
    await provider.call({ messages, tools });
    const [request] = requests;
    expect(request?.prompt[1]?.content).toEqual([
      { type: 'file', mediaType: 'image/png', data: { type: 'data', data: pixel } },
      { type: 'file', mediaType: 'image/webp', data: { type: 'url', url: new URL('https://example.com/a.webp') } },
      { type: 'file', mediaType: 'image/jpeg', data: { type: 'url', url: new URL('https://example.com/b') } },
      { type: 'text', text: 'How is Oslo?' },
    ]);
    expect(request?.prompt.at(-1)?.content).toContainEqual({
      type: 'tool-result',
      toolCallId: expect.stringMatching(/^\w{9}$/),
      toolName: 'camera',
      output: {
        type: 'content',
        value: [
          { type: 'text', text: 'Two views:\nboth cloudy' },
          { type: 'file', mediaType: 'image/png', data: { type: 'data', data: pixel } },
          { type: 'file', mediaType: 'application/pdf', data: { type: 'data', data: 'JVBERi0=' }, filename: 'log.pdf' },
        ],
      },
    });
  });

  it('P-17 gives the same answer streamed and whole, without parts that are not part of it', async () => {
    const file = (data: object): Part => ({ type: 'file', mediaType: 'image/png', data });
    const parts = [
      { type: 'custom', kind: 'anthropic.message_start', providerMetadata: { anthropic: { id: 'x' } } },
      { type: 'ping' },
      { type: 'of-the-future', text: 5 },
      ...said('Here.'),
      { type: 'reasoning-file', mediaType: 'image/png', data: { type: 'data', data: 'AAAA' } },
      file({ type: 'data', data: pixel }),
      file({ type: 'data', data: new Uint8Array([1, 2, 3]) }),
      file({ type: 'url', url: new URL('https://example.com/c.png') }),
      finish(),
    ];
    const last = (await chunksOf(parts, hi)).at(-1);
    const whole = await new AISDKProvider({
      model: v4Model(parts.filter(({ type }) => type !== 'of-the-future')).model,
    }).call({
      messages: hi,
    });
    expect(last).toEqual({ type: 'done', response: whole });
    expect(whole.message).toMatchObject({
      content: [
        { type: 'text', text: 'Here.' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AQID' } },
        { type: 'image_url', image_url: { url: 'https://example.com/c.png' } },
      ],
    });
    expect(JSON.stringify(whole)).not.toMatch(/message_start|AAAA/);
  });

  it('P-17 counts the data of a file, not its tag', async () => {
    const file = { type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'A'.repeat(101) } };
    const error = await codedError(chunksOf([file, finish()], hi, { maxAnswerLength: 100 }));
    expect(error).toMatchObject({ code: 'PROVIDER_TOO_LARGE' });
  });

  it('P-17 interrupted is a closed stream, worth another try', async () => {
    const error = await codedError(chunksOf([...said('Hel'), finish('interrupted', 'x')], hi));
    expect(error).toMatchObject({ code: 'PROVIDER_STREAM_CLOSED', retryable: true });
  });

  it('P-17 gets its summary of the conversation back, which nobody else sees and no model of v3 gets', async () => {
    const data = { test: { itemId: 'cmp_1', encryptedContent: 'secret-state' } };
    const compaction = { type: 'custom', kind: 'test.compaction', providerMetadata: data };
    const chunks = await chunksOf([compaction, ...said('ok'), finish()], hi);
    expect(chunks.slice(0, -1)).toEqual([{ type: 'text', text: 'ok' }]);
    const done = chunks.at(-1);
    if (done?.type !== 'done') throw new Error('The stream did not end with done.');
    expect(done.response.message.content).toBe('ok');

    const messages: readonly Message[] = [...hi, JSON.parse(JSON.stringify(done.response.message)), ...hi];
    const { model, requests } = v4Model([...said('ok'), finish()]);
    await new AISDKProvider({ model }).call({ messages });
    expect(requests[0]?.prompt[1]?.content).toEqual([
      { type: 'custom', kind: 'test.compaction', providerOptions: data },
      { type: 'text', text: 'ok' },
    ]);

    let prompt: unknown;
    const v3: AISDKModel = {
      ...model,
      specificationVersion: 'v3',
      doGenerate: (request: V4Request) => {
        prompt = request.prompt[1];
        return Promise.resolve({ content: [{ type: 'text', text: 'ok' }], ...finish(), usage, warnings: [] });
      },
    };
    await new AISDKProvider({ model: v3 }).call({ messages });
    expect(prompt).toEqual({ role: 'assistant', content: [{ type: 'text', text: 'ok' }] });
  });

  it('P-17 is left when the subscriber leaves', async () => {
    await new Promise<void>((resolve) => {
      const { model } = v4Model(said('Hel'), resolve);
      const subscription = new AISDKProvider({ model }).stream({ messages: hi }).subscribe(() => {
        queueMicrotask(() => subscription.unsubscribe());
      });
    });
  });

  it('P-17 tells what is deprecated', async () => {
    const heard: string[] = [];
    const warning = { type: 'deprecated', setting: 'topK', message: 'topK is going away' };
    const parts = [{ type: 'stream-start', warnings: [warning] }, ...said('ok'), finish()];
    await chunksOf(parts, hi, { onWarning: (sentence) => heard.push(sentence) });
    expect(heard).toEqual(['topK is going away']);
  });
});

type Generated<M extends { doGenerate(options: never): unknown }> = Awaited<ReturnType<M['doGenerate']>>;
type Streamed<M extends { doStream(options: never): unknown }> = Awaited<ReturnType<M['doStream']>>;

it('a model of v3 gives what the provider reads', () => {
  expect(same<Generated<LanguageModelV3> extends Generated<SdkModel> ? 1 : 0, 1>(true)).toBe(true);
  expect(same<Streamed<LanguageModelV3> extends Streamed<SdkModel> ? 1 : 0, 1>(true)).toBe(true);
  expect(same<LanguageModelV3 extends AISDKModel ? 1 : 0, 1>(true)).toBe(true);
});
