import { createHash } from 'node:crypto';
import type { FinishReason, Usage } from '../../core/contracts/index.ts';
import type { ChatCall, ChatRequest, ModelReply } from './chat-request.ts';

/** An answer with all that the wire needs. The same request and reply give the same answer. */
export interface ModelAnswer {
  readonly id: string;
  readonly model: string;
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly ChatCall[];
  readonly finishReason: FinishReason;
  /** Null: not told. */
  readonly usage: Usage | null;
}

/** The `created` of every answer, in seconds since 1970: fixed, so that equal requests have equal answers. */
const created = 1_767_225_600;

/** Four characters count as a token: near enough for an estimate. */
const charactersPerToken = 4;

const tokensOf = (text: string): number => Math.ceil(text.length / charactersPerToken);

/** Completes a reply: ids from a hash of the request, an estimate of the usage. */
export function answerOf(request: ChatRequest, reply: ModelReply, model: string): ModelAnswer {
  const { messages, tools, toolChoice, maxTokens } = request;
  const asked = JSON.stringify({ model, messages, tools, toolChoice, maxTokens });
  const hash = createHash('sha256').update(asked).digest('hex').slice(0, 24);
  const calls = (reply.toolCalls ?? []).map((call, index) => ({
    id: call.id ?? `call_${hash}_${index}`,
    name: call.name,
    arguments: call.arguments,
  }));
  const { text = '', reasoning = '' } = reply;
  const promptTokens = tokensOf(messages.map(textOfMessage).join('')) + tokensOf(toolText(request));
  const completionTokens = tokensOf(text + reasoning + calls.map((call) => call.name + call.arguments).join(''));
  return {
    id: `chatcmpl-${hash}`,
    model,
    text,
    reasoning,
    calls,
    finishReason: reply.finishReason ?? (calls.length > 0 ? 'tool_calls' : 'stop'),
    usage: { promptTokens, completionTokens, totalTokens: promptTokens + completionTokens },
  };
}

function textOfMessage(message: ChatRequest['messages'][number]): string {
  return message.text + message.calls.map((call) => call.name + call.arguments).join('');
}

function toolText(request: ChatRequest): string {
  return request.tools.length === 0 ? '' : JSON.stringify(request.tools);
}

/** What is left of a reply within `maxTokens`: text first, then calls; the last one may be cut in its arguments. */
export function cutReply(reply: ModelReply, maxTokens: number | undefined): ModelReply {
  if (maxTokens === undefined) return reply;
  let left = Math.floor(maxTokens) * charactersPerToken;
  let isCut = false;
  const take = (text: string): string => {
    const taken = text.slice(0, left);
    left -= taken.length;
    isCut ||= taken.length < text.length;
    return taken;
  };
  const reasoning = take(reply.reasoning ?? '');
  const text = take(reply.text ?? '');
  const toolCalls = (reply.toolCalls ?? []).flatMap((call) => {
    if (call.name.length > left) isCut = true;
    if (isCut) return [];
    left -= call.name.length;
    return [{ ...call, arguments: take(call.arguments) }];
  });
  return isCut ? { reasoning, text, toolCalls, finishReason: 'length' } : reply;
}

/** The body of an answer that is not streamed. */
export function completionOf(answer: ModelAnswer): object {
  const message = {
    role: 'assistant',
    content: answer.text === '' ? null : answer.text,
    ...(answer.reasoning !== '' && { reasoning_content: answer.reasoning }),
    ...(answer.calls.length > 0 && {
      tool_calls: answer.calls.map(({ id, name, arguments: text }) => ({
        id,
        type: 'function',
        function: { name, arguments: text },
      })),
    }),
  };
  return {
    ...head(answer, 'chat.completion'),
    choices: [{ index: 0, message, logprobs: null, finish_reason: answer.finishReason }],
    ...(answer.usage && { usage: wireUsage(answer.usage) }),
  };
}

/** The content of a streamed answer, as the data of its events: reasoning, text, calls. */
export function* contentChunks(answer: ModelAnswer, chunkSize?: number): Generator<string> {
  let first = true;
  for (const delta of deltasOf(answer, chunkSize)) {
    yield chunk(answer, first ? { role: 'assistant', ...delta } : delta, null);
    first = false;
  }
}

/** What follows the content: the finish reason, and the usage where the client asks for it. */
export function* closingChunks(answer: ModelAnswer, includeUsage: boolean): Generator<string> {
  yield chunk(answer, {}, answer.finishReason);
  if (includeUsage && answer.usage !== null) {
    yield JSON.stringify({ ...head(answer, 'chat.completion.chunk'), choices: [], usage: wireUsage(answer.usage) });
  }
}

function* deltasOf(answer: ModelAnswer, chunkSize: number | undefined): Generator<object> {
  for (const piece of piecesOf(answer.reasoning, chunkSize)) yield { reasoning_content: piece };
  for (const piece of piecesOf(answer.text, chunkSize)) yield { content: piece };
  for (const [index, { id, name, arguments: text }] of answer.calls.entries()) {
    yield { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] };
    for (const piece of piecesOf(text, chunkSize)) yield { tool_calls: [{ index, function: { arguments: piece } }] };
  }
}

/** The text in pieces that join to it: words with the space before them, or so many characters each. */
function piecesOf(text: string, chunkSize: number | undefined): readonly string[] {
  if (chunkSize === undefined) return text.match(/\s*\S+(?:\s+$)?|\s+$/g) ?? [];
  const characters = [...text];
  const count = Math.ceil(characters.length / chunkSize);
  return Array.from({ length: count }, (_, index) =>
    characters.slice(index * chunkSize, (index + 1) * chunkSize).join(''),
  );
}

function chunk(answer: ModelAnswer, delta: object, finishReason: FinishReason | null): string {
  const choices = [{ index: 0, delta, logprobs: null, finish_reason: finishReason }];
  return JSON.stringify({ ...head(answer, 'chat.completion.chunk'), choices });
}

function head(answer: ModelAnswer, object: string): object {
  return { id: answer.id, object, created, model: answer.model };
}

function wireUsage(usage: Usage): object {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
    ...(usage.cachedTokens !== undefined && { prompt_tokens_details: { cached_tokens: usage.cachedTokens } }),
    ...(usage.reasoningTokens !== undefined && {
      completion_tokens_details: { reasoning_tokens: usage.reasoningTokens },
    }),
  };
}
