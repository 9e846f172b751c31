import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type LLMProvider, retry, timeout } from 'millrace';
import { createProvider } from 'millrace/ai-sdk';
import { AgentLoop, addUsage } from 'millrace/internals';
import { type FakeClock, fakeClock, recordSpans, type SpanRecorder } from 'millrace/testing';
import type { Turn, Usage } from 'millrace/types';
import { anthropic, claudeBlock, claudeStream, geminiBody, google, gptEvents, openai } from './ai-sdk/vendor-wires.ts';
import { codedError } from './provider-error.ts';
import {
  beginStream,
  done,
  type Exchange,
  event,
  type RawServer,
  sendJson,
  sendStream,
  startRawServer,
} from './raw-server.ts';

let server: RawServer;
let recorder: SpanRecorder;

beforeEach(async () => {
  server = await startRawServer();
  recorder = recordSpans();
});

afterEach(async () => {
  await server.close();
  await recorder.dispose();
});

interface Row {
  readonly model: string;
  /** Events with usage, then the first text. */
  readonly opening: string;
  readonly usage: Usage;
  /** A whole answer with a usage of 7 and 5 tokens. */
  readonly answer: string;
}

const named = (events: readonly { readonly type: string }[]): string =>
  events.map((data) => `event: ${data.type}\n${event(data)}`).join('');

const claudeUsage = { input_tokens: 7, cache_read_input_tokens: 20, cache_creation_input_tokens: 3, output_tokens: 1 };
const claudeStart = {
  type: 'message_start',
  message: { id: 'm', type: 'message', role: 'assistant', model: 'm', content: [], usage: claudeUsage },
};
const claudeDelta = { type: 'message_delta', delta: { stop_reason: null }, usage: { output_tokens: 9 } };
const claudeText = claudeBlock(0, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'Hel' }]).slice(0, 2);
const claudeCounts = { promptTokens: 30, cachedTokens: 20, cacheWriteTokens: 3 };

const chatChunk = {
  id: 'cmpl-1',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta: { role: 'assistant', content: 'Hel' }, finish_reason: null }],
  usage: { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 },
};
const chatEnd = {
  ...chatChunk,
  choices: [{ index: 0, delta: { content: 'lo' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 },
};
const chat = { opening: event(chatChunk), answer: event(chatChunk) + event(chatEnd) + done };
const used = { promptTokens: 7, completionTokens: 5, totalTokens: 12 };
const usedByChat = { promptTokens: 7, completionTokens: 2, totalTokens: 9 };

const rows: Readonly<Record<string, Row>> = {
  'Anthropic, whose usage is in message_start': {
    model: anthropic.model,
    opening: named([claudeStart, ...claudeText]),
    usage: { ...claudeCounts, completionTokens: 1, totalTokens: 31 },
    answer: anthropic.text('Hello'),
  },
  'Anthropic, whose output so far is in message_delta': {
    model: anthropic.model,
    opening: named([claudeStart, claudeDelta, ...claudeText]),
    usage: { ...claudeCounts, completionTokens: 9, totalTokens: 39 },
    answer: anthropic.text('Hello'),
  },
  'Gemini, whose usage is in each chunk': {
    model: google.model,
    opening: event(geminiBody([{ text: 'Hel' }])),
    usage: used,
    answer: google.text('Hello'),
  },
  'chat completions with usage in each chunk': { model: 'openai-chat:gpt-x', ...chat, usage: usedByChat },
  'Mistral with usage in a chunk': { model: 'mistral:mistral-x', ...chat, usage: usedByChat },
};

const question = [{ role: 'user' as const, content: 'Hi' }];
const providerOf = (model: string) => createProvider(model, { apiKey: 'k', baseUrl: server.baseUrl });
const turnOf = (llmProvider: LLMProvider, clock?: FakeClock) =>
  new AgentLoop({ agentId: 'a', llmProvider, ...(clock && { clock }) }).startTurn(question, { detached: true });

/** The error of a turn that does not complete, with the turn's result. */
const errorOf = (turn: Turn) => codedError(turn.result());

async function textOf(turn: Turn): Promise<void> {
  for await (const { kind } of turn) if (kind === 'artifact-update') return;
}

/** The input and output tokens on each span of a model call. */
const tokensOnSpans = () =>
  recorder
    .spans()
    .filter(({ name }) => name === 'llm.call')
    .map(({ attributes }) => [attributes['gen_ai.usage.input_tokens'], attributes['gen_ai.usage.output_tokens']]);

const tokensOf = ({ promptTokens, completionTokens }: Usage) => [promptTokens, completionTokens];

const overloaded = event({ error: { code: 503, message: 'The model is overloaded.' } });

/** How a stream ends after its first text, without an answer. */
const failures: readonly (readonly [string, (exchange: Exchange, seen: Promise<void>) => void])[] = [
  ['an error', ({ response }) => response.end(overloaded)],
  ['an event named as an error', ({ response }) => response.end('event: error\ndata: It broke.\n\n')],
  ['the end of the stream', ({ response }) => response.end()],
  ['JSON that is cut off', ({ response }) => response.end('data: {"so": \n\n')],
  ['a page of HTML', ({ response }) => response.end('<!DOCTYPE html><html><title>502</title></html>\n\n')],
  ['a broken connection', ({ socket }, seen) => void seen.then(() => socket.destroy())],
];

describe.each(Object.entries(rows))('usage of an answer that broke off: %s', (_, { model, opening, usage, answer }) => {
  it.each(failures)('after %s', async (__, fail) => {
    server.answer((exchange) => {
      beginStream(exchange);
      exchange.response.write(opening);
      fail(exchange, seen);
    });
    const turn = turnOf(await providerOf(model));
    const seen = textOf(turn);
    expect(await errorOf(turn)).toMatchObject({ result: { status: 'failed', usage } });
    expect(tokensOnSpans()).toEqual([tokensOf(usage)]);
  });

  it('each attempt counts once', async () => {
    const answers = [opening + overloaded, opening + overloaded, answer];
    server.answer((exchange) => sendStream(exchange, answers.shift() ?? ''));
    const result = await turnOf(retry({ initialDelayMs: 0 })(await providerOf(model))).result();
    expect(result).toMatchObject({ status: 'completed', usage: addUsage(addUsage(usage, usage), used) });
    expect(tokensOnSpans()).toEqual([tokensOf(usage), tokensOf(usage), [7, 5]]);
  });

  it('an answer that arrives counts once', async () => {
    server.answer((exchange) => sendStream(exchange, answer));
    expect((await turnOf(await providerOf(model)).result()).usage).toMatchObject(used);
  });

  it('after a time limit', async () => {
    server.answer((exchange) => {
      beginStream(exchange);
      exchange.response.write(opening);
    });
    const clock = fakeClock();
    const turn = turnOf(timeout({ betweenChunksMs: 1_000, clock })(await providerOf(model)));
    await textOf(turn);
    clock.advance(1_000);
    expect(await errorOf(turn)).toMatchObject({ code: 'PROVIDER_TIMEOUT', result: { status: 'failed', usage } });
    expect(tokensOnSpans()).toEqual([tokensOf(usage)]);
  });

  it.each([
    ['a request', (provider: LLMProvider) => provider],
    ['a request of a policy', retry({ maxRetries: 0 })],
  ])('after the silence of the model, for %s', async (__, policy) => {
    server.answer((exchange) => {
      beginStream(exchange);
      exchange.response.write(opening);
    });
    const clock = fakeClock();
    const turn = turnOf(policy(await providerOf(model)), clock);
    await textOf(turn);
    clock.advance(3_600_000);
    expect(await errorOf(turn)).toMatchObject({ code: 'PROVIDER_TIMEOUT', result: { status: 'failed', usage } });
    expect(tokensOnSpans()).toEqual([tokensOf(usage)]);
  });

  it('after a cancel', async () => {
    server.answer((exchange) => {
      beginStream(exchange);
      exchange.response.write(opening);
    });
    const turn = turnOf(await providerOf(model));
    await textOf(turn);
    await turn.cancel('enough');
    expect(await errorOf(turn)).toMatchObject({ result: { status: 'canceled', usage } });
    expect(tokensOnSpans()).toEqual([tokensOf(usage)]);
  });

  it('is reported when the subscriber leaves, and not again', async () => {
    server.answer((exchange) => {
      beginStream(exchange);
      exchange.response.write(opening);
    });
    const reported: Usage[] = [];
    const provider = await providerOf(model);
    const request = await new Promise<{ unsubscribe(): void }>((resolve) => {
      const chunks = provider
        .stream({ messages: question, noteUsage: (one) => reported.push(one) })
        .subscribe(() => resolve(chunks));
    });
    request.unsubscribe();
    expect(reported).toEqual([expect.objectContaining(usage)]);
    await server.close();
    expect(reported).toHaveLength(1);
    server = await startRawServer();
  });
});

it.each([
  [
    'before its first output',
    gptEvents([
      ['created', { response: { id: 'r', status: 'in_progress', model: 'gpt-x', created_at: 0, output: [] } }],
    ]),
  ],
  ['after output', openai.opening('Hel')],
])('usage of a response that failed is in response.failed, %s', async (_, opening) => {
  const error = { code: 'server_error', message: 'It broke.' };
  const usage = { input_tokens: 7, output_tokens: 2, total_tokens: 9 };
  const failed = gptEvents([['failed', { response: { id: 'r', status: 'failed', output: [], error, usage } }]]);
  server.answer((exchange) => sendStream(exchange, opening + failed));
  expect(await errorOf(turnOf(await providerOf(openai.model)))).toMatchObject({
    code: 'PROVIDER_SERVER',
    message: expect.stringContaining('It broke.'),
    result: { status: 'failed', usage: usedByChat },
  });
  expect(tokensOnSpans()).toEqual([[7, 2]]);
});

it('usage of an answer that broke off after a pause is that of all its requests', async () => {
  const text = claudeBlock(0, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'I search.' }]);
  const { opening = '', usage = used } = rows['Anthropic, whose usage is in message_start'] ?? {};
  const answers = [claudeStream(text, 'pause_turn'), opening + overloaded];
  server.answer((exchange) => sendStream(exchange, answers.shift() ?? ''));
  const error = await errorOf(turnOf(await providerOf(anthropic.model)));
  expect(error).toMatchObject({ result: { usage: addUsage(used, usage) } });
});

it('usage of a whole answer that is none is reported before its error', async () => {
  const reported: Usage[] = [];
  const choices = [{ index: 0, message: { role: 'assistant', content: 'Hel' }, finish_reason: 'error' }];
  server.answer((exchange) => sendJson(exchange, { ...chatChunk, choices }, 200));
  const provider = await providerOf('openai-chat:gpt-x');
  await codedError(provider.call({ messages: question, noteUsage: (one) => reported.push(one) }));
  expect(reported).toEqual([usedByChat]);
});
