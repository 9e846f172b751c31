import { createAnthropic } from '@ai-sdk/anthropic';
import { event } from '../raw-server.ts';

/** Whether the packages are those of AI SDK 7, as in `tests/ai-sdk-7/jest.config.ts`, whose models have the interface v4. */
export const isV4 = String(createAnthropic({ apiKey: 'k' })('m').specificationVersion) === 'v4';

/** How a vendor's server speaks: just enough of it for a test. */
export interface VendorWire {
  /** As `createProvider` takes it. */
  readonly model: string;
  /** Where a streamed call goes, below the base address. */
  readonly path: string;
  /** A whole stream that says `text`. */
  readonly text: (text: string) => string;
  /** The beginning of a stream, up to its first text. */
  readonly opening: (text: string) => string;
  /** A whole stream that calls `name` with the JSON text of its arguments. */
  readonly call: (id: string, name: string, args: string) => string;
  /** The body of an answer that is not streamed. */
  readonly body: (text: string) => object;
  /** The body of an error. */
  readonly error: (type: string, message: string) => object;
}

/** An event of Anthropic's stream. */
export interface ClaudeEvent {
  readonly type: string;
  readonly [member: string]: unknown;
}

function events(list: readonly ClaudeEvent[]): string {
  return list.map((data) => `event: ${data.type}\n${event(data)}`).join('');
}

const claude = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-x-1',
  stop_sequence: null,
};

const begun = {
  type: 'message_start',
  message: { ...claude, content: [], stop_reason: null, usage: { input_tokens: 7, output_tokens: 1 } },
};

export function claudeStream(blocks: readonly ClaudeEvent[], stopReason: string): string {
  return events([
    begun,
    ...blocks,
    { type: 'message_delta', delta: { stop_reason: stopReason, stop_sequence: null }, usage: { output_tokens: 5 } },
    { type: 'message_stop' },
  ]);
}

/** The events of one block: how it begins, its deltas, its end. */
export function claudeBlock(index: number, content: object, deltas: readonly object[]): readonly ClaudeEvent[] {
  const start = { type: 'content_block_start', index, content_block: content };
  const middle = deltas.map((delta) => ({ type: 'content_block_delta', index, delta }));
  return [start, ...middle, { type: 'content_block_stop', index }];
}

export const anthropic: VendorWire = {
  model: 'anthropic:claude-sonnet-4-5',
  path: '/v1/messages',
  text: (text) => claudeStream(claudeBlock(0, { type: 'text', text: '' }, [{ type: 'text_delta', text }]), 'end_turn'),
  opening: (text) =>
    events([begun, ...claudeBlock(0, { type: 'text', text: '' }, [{ type: 'text_delta', text }]).slice(0, 2)]),
  call: (id, name, args) =>
    claudeStream(
      claudeBlock(0, { type: 'tool_use', id, name, input: {} }, [{ type: 'input_json_delta', partial_json: args }]),
      'tool_use',
    ),
  body: (text) => ({
    ...claude,
    content: [{ type: 'text', text }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 7, output_tokens: 5 },
  }),
  error: (type, message) => ({ type: 'error', error: { type, message } }),
};

const geminiUsage = { promptTokenCount: 7, candidatesTokenCount: 5, totalTokenCount: 12 };

export function geminiBody(parts: readonly object[], finishReason?: string): object {
  return {
    responseId: 'r-1',
    candidates: [{ content: { role: 'model', parts }, ...(finishReason === undefined ? {} : { finishReason }) }],
    usageMetadata: geminiUsage,
  };
}

export const google: VendorWire = {
  model: 'google:gemini-2.5-flash',
  path: '/v1/models/gemini-2.5-flash:streamGenerateContent?alt=sse',
  text: (text) => event(geminiBody([{ text }])) + event(geminiBody([{ text: '' }], 'STOP')),
  opening: (text) => event(geminiBody([{ text }])),
  call: (id, name, args) => event(geminiBody([{ functionCall: { id, name, args: JSON.parse(args) } }], 'STOP')),
  body: (text) => geminiBody([{ text }], 'STOP'),
  error: (status, message) => ({ error: { code: 0, message, status } }),
};

function choice(delta: object, finishReason: string | null = null): string {
  return event({
    id: 'cmpl-1',
    object: 'chat.completion.chunk',
    model: 'gpt-x-1',
    choices: [{ index: 0, delta, finish_reason: finishReason }],
  });
}

const gptUsage = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 };
const usageChunk = event({ id: 'cmpl-1', model: 'gpt-x-1', choices: [], usage: gptUsage });

export const openai: VendorWire = {
  model: 'openai:gpt-5.1',
  path: '/v1/chat/completions',
  text: (text) => `${choice({ role: 'assistant', content: text })}${choice({}, 'stop')}${usageChunk}${event('[DONE]')}`,
  opening: (text) => choice({ role: 'assistant', content: text }),
  call: (id, name, args) => {
    const call = { index: 0, id, type: 'function', function: { name, arguments: args } };
    return `${choice({ role: 'assistant', tool_calls: [call] })}${choice({}, 'tool_calls')}${usageChunk}${event('[DONE]')}`;
  },
  body: (text) => ({
    id: 'cmpl-1',
    model: 'gpt-x-1',
    choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
    usage: gptUsage,
  }),
  error: (type, message) => ({ error: { type, message } }),
};

export const wires: readonly (readonly [string, VendorWire])[] = [
  ['anthropic', anthropic],
  ['google', google],
  ['openai', openai],
];
