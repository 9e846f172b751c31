import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { cutAt, foldChunks, replay, replayCall, replayText } from './piecewise.ts';
import { recordedStream, recordedText } from './recorded-streams.ts';

const utf8 = new TextEncoder();

interface Excerpt {
  readonly starts: string;
  readonly ends: string;
  readonly length: number;
}

interface Recorded {
  readonly file: string;
  readonly text: Excerpt | null;
  readonly reasoning?: Excerpt;
  readonly calls?: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
  readonly rest: object;
}

const recorded: readonly Recorded[] = [
  {
    file: 'openai-text.chunks.txt',
    text: { starts: '**Holiday Name:** Harmony Day', ends: 'mutual respect.', length: 1_724 },
    rest: {
      finishReason: 'stop',
      id: 'chatcmpl-D8Z5oo6uDh67AD85p73ksdT1KxhE0',
      model: 'gpt-4.1-nano-2025-04-14',
      usage: { promptTokens: 16, completionTokens: 300, totalTokens: 316, cachedTokens: 0, reasoningTokens: 0 },
    },
  },
  {
    file: 'mistral-text.chunks.txt',
    text: { starts: 'Hello, world!', ends: ' This is a test response.', length: 38 },
    rest: {
      finishReason: 'stop',
      id: '5319bd0299614c679a0068a4f2c8ffd0',
      model: 'mistral-small-latest',
      usage: { promptTokens: 13, completionTokens: 8, totalTokens: 21 },
    },
  },
  {
    file: 'groq-tool-call.chunks.txt',
    text: null,
    calls: [{ id: 'tk85n1k4m', name: 'weather', arguments: '{}' }],
    rest: {
      finishReason: 'tool_calls',
      id: 'chatcmpl-b610d559-f156-4aca-8827-24b4fe6af54f',
      model: 'llama-3.3-70b-versatile',
      usage: { promptTokens: 210, completionTokens: 15, totalTokens: 225 },
    },
  },
  {
    file: 'deepseek-tool-call.chunks.txt',
    text: null,
    reasoning: { starts: 'The user is asking', ends: 'to "San Francisco".', length: 191 },
    calls: [{ id: 'call_00_ioIn7yN9p1ZOMNpDLwd4MgAF', name: 'weather', arguments: '{"location": "San Francisco"}' }],
    rest: {
      finishReason: 'tool_calls',
      id: 'cca85624-4056-401f-b220-d77601d1f70d',
      model: 'deepseek-reasoner',
      usage: { promptTokens: 339, completionTokens: 83, totalTokens: 422, cachedTokens: 320, reasoningTokens: 39 },
    },
  },
  {
    file: 'deepseek-reasoning.chunks.txt',
    text: { starts: 'The word "strawberry"', ends: 'three "r"s.', length: 42 },
    reasoning: { starts: 'We need to', ends: 'the answer is 3.', length: 606 },
    rest: {
      finishReason: 'stop',
      id: 'cac7192e-e619-40c6-96b0-ed4276bc03ac',
      model: 'deepseek-reasoner',
      usage: { promptTokens: 18, completionTokens: 219, totalTokens: 237, cachedTokens: 0, reasoningTokens: 205 },
    },
  },
  {
    file: 'litellm-style-anthropic-tool-call.sse',
    text: { starts: 'Reading it.', ends: 'Reading it.', length: 11 },
    calls: [{ id: 'toolu_sanitized', name: 'read_file', arguments: '{"path": "a.txt"}' }],
    rest: { finishReason: 'tool_calls', id: 'msg_sanitized', model: 'claude-haiku-4-5-20251001' },
  },
];

function expectExcerpt(text: unknown, excerpt: Excerpt | null | undefined): void {
  if (excerpt === null || excerpt === undefined) {
    expect(text).toBe(excerpt);
    return;
  }
  expect(text).toHaveLength(excerpt.length);
  expect(String(text).slice(0, excerpt.starts.length)).toBe(excerpt.starts);
  expect(String(text).slice(-excerpt.ends.length)).toBe(excerpt.ends);
}

describe('recorded streams', () => {
  it.each(recorded)('S1-45 S4-21 $file gives its text, reasoning, calls, finish reason and usage', async (expected) => {
    const { chunks, response } = await replayText(recordedStream(expected.file));
    const { message, toolCalls, ...rest } = response;
    expect(rest).toEqual(expected.rest);
    if (message.role !== 'assistant') throw new Error('The message is not an assistant message.');

    expectExcerpt(message.content, expected.text);
    expectExcerpt(message.reasoning, expected.reasoning);
    const calls = expected.calls?.map(({ id, ...called }) => ({ id, type: 'function', function: called }));
    expect(message.toolCalls).toEqual(calls);
    expect(toolCalls).toEqual(calls);

    expect(foldChunks(chunks)).toEqual({
      text: message.content ?? '',
      reasoning: message.reasoning ?? '',
      calls: expected.calls ?? [],
    });
  });

  it('has the texts that are in the recorded deltas, each delta its own chunk', async () => {
    const lines = recordedText('openai-text.chunks.txt').split('\n');
    const deltas = lines.flatMap((line) => JSON.parse(line).choices).map(({ delta }) => delta.content ?? '');
    const { chunks } = await replayText(recordedStream('openai-text.chunks.txt'));
    expect(chunks).toEqual(deltas.filter((text) => text !== '').map((text) => ({ type: 'text', text })));
  });

  it.each(recorded)('$file gives the same whatever the boundaries of the bytes', async ({ file }) => {
    const bytes = utf8.encode(recordedStream(file));
    const whole = await replay([bytes]);
    const places = fc.array(fc.nat(bytes.length), { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(places, async (cuts) => expect(await replay(cutAt(bytes, cuts))).toEqual(whole)),
      { numRuns: 15 },
    );
  });

  it('gives the same byte by byte', async () => {
    const bytes = utf8.encode(recordedStream('litellm-style-anthropic-tool-call.sse'));
    const single = [...bytes].map((byte) => Uint8Array.of(byte));
    expect(await replay(single)).toEqual(await replay([bytes]));
  });
});

describe('recorded bodies', () => {
  it('S1-45 xai-text.json: reasoning, and tokens of reasoning as a part of the completion', async () => {
    const response = await replayCall(recordedText('xai-text.json'));
    expect(response).toMatchObject({
      message: { role: 'assistant', content: 'Grok' },
      finishReason: 'stop',
      model: 'grok-3-mini',
      usage: { promptTokens: 12, completionTokens: 322, totalTokens: 334, cachedTokens: 2, reasoningTokens: 320 },
    });
    expect(response.message).toHaveProperty('reasoning', expect.stringMatching(/^First, the user said/));
    expect(response.toolCalls).toBeUndefined();
  });

  it('S1-45 deepseek-tool-call.json: a call after reasoning, its empty content null', async () => {
    const call = {
      id: 'call_00_9V0vrf86Pc9aelHCJMZqnJBo',
      type: 'function',
      function: { name: 'weather', arguments: '{"location": "San Francisco"}' },
    };
    expect(await replayCall(recordedText('deepseek-tool-call.json'))).toEqual({
      message: {
        role: 'assistant',
        content: null,
        toolCalls: [call],
        reasoning: expect.stringMatching(/^The user is asking/),
        metadata: { origin: expect.any(String), wire: { reasoning: 'reasoning_content' } },
      },
      toolCalls: [call],
      finishReason: 'tool_calls',
      id: '7a630f5b-b7e6-4878-82f8-d77db164d42b',
      model: 'deepseek-reasoner',
      usage: { promptTokens: 339, completionTokens: 92, totalTokens: 431, cachedTokens: 320, reasoningTokens: 48 },
    });
  });

  it('S1-45 groq-tool-call.json and mistral-text.json', async () => {
    const groq = await replayCall(recordedText('groq-tool-call.json'));
    expect(groq.message).toMatchObject({
      content: null,
      toolCalls: [{ id: 'ax9fskhev', function: { name: 'weather', arguments: '{}' } }],
    });
    expect(groq.usage).toEqual({ promptTokens: 218, completionTokens: 15, totalTokens: 233 });
    const mistral = await replayCall(recordedText('mistral-text.json'));
    expect(mistral.message.content).toMatch(/^\*\*Holiday Name: "World Kindness Day of Sharing".*😊$/s);
    expect(mistral.finishReason).toBe('stop');
  });
});
