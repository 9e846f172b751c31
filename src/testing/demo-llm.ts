import { concat, concatMap, defer, from, type Observable, of, timer } from 'rxjs';
import {
  invalidConfig,
  type LLMCallParams,
  type LLMChunk,
  type LLMProvider,
  type LLMResponse,
  type Message,
  shownValue,
  textOf,
} from '../core/contracts/index.ts';
import { usageOfAnswer } from '../extensions/usage/estimated-usage.ts';
import { assertKnownOptions } from '../options/option-rules.ts';
import { demoModel } from './demo-model.ts';
import type { ChatMessage, ChatRequest } from './model-server/chat-request.ts';
import { cutReply } from './model-server/model-answer.ts';

/** Options of `demoLLM`. */
export interface DemoLLMOptions {
  /** Milliseconds before each word of an answer. Default 0. */
  readonly delayMs?: number | undefined;
}

/**
 * The demo model of {@link demoModel} as a provider, without a server, a key or another package: for first programs, and for tests of everything but the
 * model. Equal requests get equal answers, except for the ids of calls, which follow from the length of the conversation.
 *
 * `stream` emits a chunk a word; unsubscribing stops it. `call` answers at once, or throws the reason of an aborted `signal`. Errors: `INVALID_CONFIG`.
 */
export function demoLLM(options: DemoLLMOptions = {}): LLMProvider {
  assertKnownOptions('demoLLM', options, { delayMs: true });
  const { delayMs = 0 } = options;
  if (!Number.isFinite(delayMs) || delayMs < 0)
    throw invalidConfig(`delayMs is ${shownValue(delayMs)}`, 'it must be a number of milliseconds, at least 0');
  return {
    info: { providerName: 'demo', model: 'demo' },
    async call(params) {
      params.signal?.throwIfAborted();
      return responseOf(params);
    },
    stream: (params) => defer(() => chunksOf(responseOf(params), delayMs)),
  };
}

function chunksOf(response: LLMResponse, delayMs: number): Observable<LLMChunk> {
  const words = textOf(response.message.content).match(/\s*\S+|\s+$/g) ?? [];
  const text = from(words).pipe(
    concatMap((word) => timer(delayMs).pipe(concatMap(() => of<LLMChunk>({ type: 'text', text: word })))),
  );
  const calls = (response.toolCalls ?? []).map(
    ({ id, function: { name, arguments: json } }, index): LLMChunk => ({
      type: 'tool-call',
      index,
      id,
      name,
      arguments: json,
    }),
  );
  return concat(text, from([...calls, { type: 'done', response } as const]));
}

function responseOf(params: LLMCallParams): LLMResponse {
  const { text, toolCalls = [], finishReason } = cutReply(demoModel(requestOf(params)), params.maxTokens);
  const response: LLMResponse = {
    ...(finishReason && { finishReason }),
    message: { role: 'assistant', content: text ?? null },
    toolCalls: toolCalls.map(({ name, arguments: json }, index) => ({
      id: `call_${params.messages.length}_${index}`,
      type: 'function',
      function: { name, arguments: json },
    })),
  };
  return { ...response, usage: { ...usageOfAnswer(params, response), cost: 0 } };
}

function requestOf({ messages, tools = [], toolChoice = 'auto', model, maxTokens }: LLMCallParams): ChatRequest {
  return {
    model,
    messages: messages.map(chatMessageOf),
    tools: tools.map(({ function: { name, description, parameters } }) => ({ name, description, parameters })),
    toolChoice,
    parallel: true,
    maxTokens,
    stream: true,
    includeUsage: false,
  };
}

function chatMessageOf(message: Message): ChatMessage {
  const calls = message.role === 'assistant' ? (message.toolCalls ?? []) : [];
  return {
    role: message.role,
    text: textOf(message.content),
    calls: calls.map(({ id, function: { name, arguments: json } }) => ({ id, name, arguments: json })),
    ...(message.role === 'tool' && { callId: message.toolCallId }),
  };
}
