import { createOpenAI } from '@ai-sdk/openai';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { AgentEvent, LLMProvider, LLMResponse } from 'millrace';
import { AISDKProvider, createProvider } from 'millrace/ai-sdk';
import { AgentLoop } from 'millrace/internals';
import { LiteLLMProvider } from 'millrace/litellm';
import { fakeClock } from 'millrace/testing';
import { lastValueFrom, toArray } from 'rxjs';
import { foldChunks } from '../piecewise.ts';
import { type RawServer, sendStream, startRawServer } from '../raw-server.ts';
import { recordedStream, recordedText } from '../recorded-streams.ts';
import { chatText } from './vendor-wires.ts';

let server: RawServer;

beforeEach(async () => {
  server = await startRawServer();
});

afterEach(() => server.close());

const messages = [{ role: 'user' as const, content: 'Hi' }];

function aiSdk(model: string): Promise<LLMProvider> {
  return createProvider(model, { apiKey: 'key-of-a-test', baseUrl: server.baseUrl });
}

/** A model of chat completions through the AI SDK. */
function chatModel(): LLMProvider {
  return new AISDKProvider({ model: createOpenAI({ apiKey: 'key-of-a-test', baseURL: server.baseUrl }).chat('m') });
}

/** What `stream` gives for a recorded stream. */
async function replayed(provider: LLMProvider, file: string) {
  server.answer((exchange) => sendStream(exchange, recordedStream(file)));
  if (provider.stream === undefined) throw new Error('It does not stream.');
  const all = await lastValueFrom(provider.stream({ messages }).pipe(toArray()));
  const last = all.at(-1);
  if (last?.type !== 'done') throw new Error('The stream did not end with done.');
  return { chunks: all.slice(0, -1), response: last.response };
}

/** What happens in a turn whose first answer is recorded, fragments of a call put together. */
async function eventsOf(llmProvider: LLMProvider, file: string): Promise<readonly object[]> {
  let asked = 0;
  server.answer((exchange) => sendStream(exchange, asked++ === 0 ? recordedStream(file) : chatText('Done.')));
  const loop = new AgentLoop({ agentId: 'a', llmProvider, clock: fakeClock() });
  const events = await lastValueFrom(loop.startTurn(messages, { taskId: 't', contextId: 'c' }).pipe(toArray()));
  // What is fitted depends on the profile of the server.
  return folded(events.filter(({ kind }) => kind !== 'internal:request-fitted').map(withoutMetadata));
}

/** That of a message is the provider's own. */
function withoutMetadata(event: AgentEvent): AgentEvent {
  if (event.kind !== 'internal:iteration-complete') return event;
  const { metadata: _, ...message } = event.response.message;
  return { ...event, response: { ...event.response, message } };
}

function folded(events: readonly AgentEvent[]): readonly object[] {
  const list: AgentEvent[] = [];
  for (const event of events) {
    const before = list.at(-1);
    if (event.kind === 'internal:tool-call-delta' && before?.kind === event.kind && before.index === event.index) {
      list[list.length - 1] = { ...before, arguments: before.arguments + event.arguments };
    } else {
      list.push(event);
    }
  }
  return list;
}

/** The origin of an answer names the address. */
function withoutOrigin({ message: { metadata: _, ...message }, ...response }: LLMResponse) {
  return { ...response, message };
}

describe('streams of the OpenAI wire', () => {
  it.each([
    'openai-text.chunks.txt',
    'mistral-text.chunks.txt',
    'groq-tool-call.chunks.txt',
    'litellm-style-anthropic-tool-call.sse',
  ])('S1-45 %s gives what LiteLLMProvider gives, and the same events of its turn', async (file) => {
    const litellm = new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'm' });
    const ours = chatModel();
    const expected = await replayed(litellm, file);
    const { chunks, response } = await replayed(ours, file);
    const { metadata: _, ...message } = response.message;
    expect({ ...response, message }).toEqual(withoutOrigin(expected.response));
    expect(foldChunks(chunks)).toEqual(foldChunks(expected.chunks));
    expect(await eventsOf(ours, file)).toEqual(await eventsOf(litellm, file));
  });

  it.each(['groq-tool-call.json', 'mistral-text.json'])(
    'S1-45 %s, a whole body, gives what LiteLLMProvider gives',
    async (file) => {
      server.answer(({ response }) =>
        response.writeHead(200, { 'content-type': 'application/json' }).end(recordedText(file)),
      );
      const expected = await new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'm' }).call({ messages });
      const response = await chatModel().call({ messages });
      const { metadata: _, ...message } = response.message;
      expect({ ...response, message }).toEqual(withoutOrigin(expected));
    },
  );
});

describe("streams of the vendors' own wires", () => {
  it('S1-45 anthropic-text', async () => {
    const { chunks, response } = await replayed(
      await aiSdk('anthropic:claude-sonnet-4-5'),
      'anthropic-text.chunks.txt',
    );
    const content =
      "Hello! I'm doing well, thank you for asking. How are you doing today? Is there anything I can help you with?";
    expect(response).toEqual({
      message: { role: 'assistant', content },
      finishReason: 'stop',
      id: 'msg_01QC4g3HwBThD4BaNtBckFDJ',
      model: 'claude-sonnet-4-5-20250929',
      usage: { promptTokens: 12, completionTokens: 30, totalTokens: 42, cachedTokens: 0 },
    });
    expect(chunks.length).toBeGreaterThan(3);
    expect(foldChunks(chunks)).toEqual({ text: content, reasoning: '', calls: [] });
  });

  it('H-39 anthropic-text behind a compaction: the summary is no text, and goes back to the vendor', async () => {
    const summary = 'The user said hi.';
    const block = [
      { type: 'content_block_start', index: 7, content_block: { type: 'compaction', content: null } },
      { type: 'content_block_delta', index: 7, delta: { type: 'compaction_delta', content: summary } },
      { type: 'content_block_stop', index: 7 },
    ].map((event) => JSON.stringify(event));
    const [start = '', ...rest] = recordedText('anthropic-text.chunks.txt').trim().split('\n');
    const bodies: unknown[] = [];
    server.answer((exchange) => {
      bodies.push(exchange.body);
      sendStream(exchange, [start, ...block, ...rest].map((line) => `data: ${line}\n\n`).join(''));
    });
    const provider = await aiSdk('anthropic:claude-sonnet-4-5');
    if (provider.stream === undefined) throw new Error('It does not stream.');
    const all = await lastValueFrom(provider.stream({ messages }).pipe(toArray()));
    const content =
      "Hello! I'm doing well, thank you for asking. How are you doing today? Is there anything I can help you with?";
    expect(foldChunks(all).text).toBe(content);
    const last = all.at(-1);
    if (last?.type !== 'done') throw new Error('The stream did not end with done.');
    expect(last.response.message.content).toBe(content);
    const kept = JSON.parse(JSON.stringify(last.response.message));
    await lastValueFrom(provider.stream({ messages: [...messages, kept, ...messages] }));
    expect(bodies[1]).toMatchObject({
      messages: [
        { role: 'user' },
        {
          role: 'assistant',
          content: [
            { type: 'compaction', content: summary },
            { type: 'text', text: content },
          ],
        },
        { role: 'user' },
      ],
    });
  });

  it('S1-45 anthropic-tool-no-args: text, then a call without arguments', async () => {
    const file = 'anthropic-tool-no-args.chunks.txt';
    const { chunks, response } = await replayed(await aiSdk('anthropic:claude-sonnet-4-5'), file);
    const id = 'toolu_01QE1WLsSVp5hy5Q3GmGTmjP';
    const call = { id, type: 'function', function: { name: 'updateIssueList', arguments: '{}' } };
    expect(response).toEqual({
      message: {
        role: 'assistant',
        content: "I'll update the issue list for you.",
        toolCalls: [call],
        metadata: { origin: expect.any(String) },
      },
      toolCalls: [call],
      finishReason: 'tool_calls',
      id: 'msg_01GE2RKp1VYsPzdFs3sS9z5S',
      model: 'claude-sonnet-4-5-20250929',
      usage: { promptTokens: 565, completionTokens: 48, totalTokens: 613, cachedTokens: 0 },
    });
    expect(foldChunks(chunks).calls).toEqual([{ id, name: 'updateIssueList', arguments: '{}' }]);
  });

  it('S1-45 google-text: the signature behind the text is kept with it', async () => {
    const { chunks, response } = await replayed(await aiSdk('google:gemini-3-pro-preview'), 'google-text.chunks.txt');
    const content = 'There are **3** "r"s in strawberry.\n\nst**r**awbe**rr**y';
    expect(foldChunks(chunks).text).toBe(content);
    expect(response).toMatchObject({
      message: { content },
      finishReason: 'stop',
      id: 'bH6LaZW8Fp_3nsEPqtaSwQ4',
      usage: { promptTokens: 9, completionTokens: 208, totalTokens: 217, reasoningTokens: 185 },
    });
    const signature = /"thoughtSignature":"([^"]+)"/.exec(recordedText('google-text.chunks.txt'))?.[1];
    expect(response.message.metadata).toMatchObject({
      aiSdk: { parts: [{ type: 'text', length: content.length, data: { google: { thoughtSignature: signature } } }] },
    });
  });

  it('S1-45 google-tool-call: a whole call with its signature', async () => {
    const { chunks, response } = await replayed(
      await aiSdk('google:gemini-3-pro-preview'),
      'google-tool-call.chunks.txt',
    );
    const args = '{"location":"San Francisco"}';
    expect(response).toMatchObject({
      message: { content: null, toolCalls: [{ type: 'function', function: { name: 'weather', arguments: args } }] },
      finishReason: 'tool_calls',
      usage: { promptTokens: 29, completionTokens: 60, totalTokens: 89, reasoningTokens: 45 },
    });
    expect(foldChunks(chunks).calls).toMatchObject([{ name: 'weather', arguments: args }]);
    const signature = /"thoughtSignature":"([^"]+)"/.exec(recordedText('google-tool-call.chunks.txt'))?.[1];
    expect(JSON.stringify(response.message.metadata)).toContain(JSON.stringify(signature));
  });
});
