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
  /** Whether a strict server gives something of its own with it, to be sent back. */
  readonly hasState: boolean;
}

/** When each answer was made, in seconds since 1970: fixed, so that equal requests have equal answers. */
export const created = 1_767_225_600;

/** Four characters count as a token: near enough for an estimate. */
const charactersPerToken = 4;

export const tokensOf = (text: string): number => Math.ceil(text.length / charactersPerToken);

/** How a wire names what it answers with. */
export interface AnswerNames {
  readonly model: string;
  /** From a hash of the request in 24 hex digits. */
  readonly callId?: (hash: string, index: number, name: string) => string;
  readonly answerId?: (hash: string) => string;
}

const chatCallId = (hash: string, index: number): string => `call_${hash}_${index}`;

/** Completes a reply: ids from a hash of the request, an estimate of the usage. */
export function answerOf(
  request: ChatRequest,
  reply: ModelReply,
  { model, callId = chatCallId, answerId = (hash) => `chatcmpl-${hash}` }: AnswerNames,
): ModelAnswer {
  const { messages, tools, toolChoice, maxTokens } = request;
  const asked = JSON.stringify({ model, messages, tools, toolChoice, maxTokens });
  const hash = createHash('sha256').update(asked).digest('hex').slice(0, 24);
  const calls = (reply.toolCalls ?? []).map((call, index) => ({
    id: call.id ?? callId(hash, index, call.name),
    name: call.name,
    arguments: call.arguments,
  }));
  const { text = '', reasoning = '' } = reply;
  const promptTokens = tokensOf(messages.map(textOfMessage).join('')) + tokensOf(toolText(request));
  const completionTokens = tokensOf(text + reasoning + calls.map((call) => call.name + call.arguments).join(''));
  return {
    id: answerId(hash),
    model,
    text,
    reasoning,
    calls,
    finishReason: reply.finishReason ?? (calls.length > 0 ? 'tool_calls' : 'stop'),
    hasState: false,
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

/** The text in pieces that join to it: words with the space before them, or so many characters each. */
export function piecesOf(text: string, chunkSize: number | undefined): readonly string[] {
  if (chunkSize === undefined) return text.match(/\s*\S+(?:\s+$)?|\s+$/g) ?? [];
  const characters = [...text];
  const count = Math.ceil(characters.length / chunkSize);
  return Array.from({ length: count }, (_, index) =>
    characters.slice(index * chunkSize, (index + 1) * chunkSize).join(''),
  );
}

/** The arguments of a call for a wire that has them as an object; text that is none is the value itself. */
export function parsedArguments(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
