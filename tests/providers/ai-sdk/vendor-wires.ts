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

const gptUsage = {
  input_tokens: 7,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 5,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 12,
};

const gpt = {
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  model: 'gpt-x-1',
  error: null,
  incomplete_details: null,
};

/** An event of the Responses API without its type: the type is `response.NAME`. */
export type GptEvent = readonly [name: string, members: object];

const gptBegun: GptEvent = ['created', { response: { ...gpt, status: 'in_progress', output: [] } }];

export function gptEvents(list: readonly GptEvent[]): string {
  return events(list.map(([name, members], at) => ({ type: `response.${name}`, sequence_number: at, ...members })));
}

/** A whole stream of the Responses API: `items` with the events between their beginning and their end. */
export function gptStream(items: readonly (readonly [item: object, ...deltas: readonly GptEvent[]])[]): string {
  const output = items.map(([item]) => item);
  return gptEvents([
    gptBegun,
    ...items.flatMap(([item, ...deltas], at): readonly GptEvent[] => [
      ['output_item.added', { output_index: at, item: { ...item, ...unfinished } }],
      ...deltas.map(([name, members]): GptEvent => [name, { output_index: at, ...members }]),
      ['output_item.done', { output_index: at, item }],
    ]),
    ['completed', { response: { ...gpt, status: 'completed', output, usage: gptUsage } }],
  ]);
}

/** What an item does not have yet when it is added. */
const unfinished = { status: 'in_progress', arguments: '', content: [], summary: [], encrypted_content: '' };

export function gptMessage(text: string, id = 'msg_1'): readonly [object, ...GptEvent[]] {
  return [
    {
      type: 'message',
      id,
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text, annotations: [] }],
    },
    ['output_text.delta', { item_id: id, content_index: 0, delta: text, logprobs: [] }],
  ];
}

export function gptCall(id: string, name: string, args: string): readonly [object, ...GptEvent[]] {
  return [
    { type: 'function_call', id: `fc_${id}`, call_id: id, name, arguments: args, status: 'completed' },
    ['function_call_arguments.delta', { item_id: `fc_${id}`, delta: args }],
  ];
}

/** Reasoning whose content only OpenAI can read. */
export function gptReasoning(id: string, encrypted: string, summary: string): readonly [object, ...GptEvent[]] {
  const part = { item_id: id, summary_index: 0 };
  return [
    { type: 'reasoning', id, summary: [{ type: 'summary_text', text: summary }], encrypted_content: encrypted },
    ['reasoning_summary_part.added', { ...part, part: { type: 'summary_text', text: '' } }],
    ['reasoning_summary_text.delta', { ...part, delta: summary }],
    ['reasoning_summary_part.done', { ...part, part: { type: 'summary_text', text: summary } }],
  ];
}

/** The body of an answer that is not streamed. */
export function gptBody(items: readonly (readonly [object, ...GptEvent[]])[]): object {
  return { ...gpt, status: 'completed', output: items.map(([item]) => item), usage: gptUsage };
}

export const openai: VendorWire = {
  model: 'openai:gpt-5.1',
  path: '/v1/responses',
  text: (text) => gptStream([gptMessage(text)]),
  opening: (text) => {
    const [item, delta] = gptMessage(text);
    return gptEvents([
      gptBegun,
      ['output_item.added', { output_index: 0, item: { ...item, content: [] } }],
      ...(delta ? [delta] : []),
    ]);
  },
  call: (id, name, args) => gptStream([gptCall(id, name, args)]),
  body: (text) => gptBody([gptMessage(text)]),
  error: (type, message) => ({ error: { type, message, code: null, param: null } }),
};

/** A whole stream of chat completions that says `text`. */
export function chatText(text: string): string {
  const choice = (delta: object, reason: string | null) =>
    event({ id: 'cmpl-1', model: 'gpt-x-1', choices: [{ index: 0, delta, finish_reason: reason }] });
  const usage = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 };
  const end = event({ id: 'cmpl-1', model: 'gpt-x-1', choices: [], usage }) + event('[DONE]');
  return choice({ role: 'assistant', content: text }, null) + choice({}, 'stop') + end;
}

export const wires: readonly (readonly [string, VendorWire])[] = [
  ['anthropic', anthropic],
  ['google', google],
  ['openai', openai],
];
