import { createHash } from 'node:crypto';
import type { LLMCallParams, LLMResponse, Message } from '../../core/contracts/index.ts';
import { responseFlaw } from '../../core/model-call/index.ts';

/**
 * What decides the answer of a request, as plain JSON: messages, tools and settings of the model. Without what differs from turn to
 * turn and is not asked of the model: ids, times, metadata. The ids of calls, which bind results to them, are numbered.
 */
export function requestOf(params: LLMCallParams): object {
  const { messages, tools, metadata: _, signal: _signal, traceContext: _trace, ...asked } = params;
  const { noteUsage: _usage, note: _note, ...settings } = asked;
  const numbers = new Map<string, string>();
  const numberOf = (id: string): string => {
    const number = numbers.get(id) ?? `call-${numbers.size + 1}`;
    numbers.set(id, number);
    return number;
  };
  return {
    messages: messages.map((message) => askedMessage(message, numberOf)),
    ...(tools && { tools: tools.map((tool) => tool.function) }),
    ...settings,
  };
}

function askedMessage(message: Message, numberOf: (id: string) => string): object {
  const { id: _, createdAt: _at, metadata: _data, ...asked } = message;
  if (asked.role === 'tool') return { ...asked, toolCallId: numberOf(asked.toolCallId) };
  if (asked.role !== 'assistant' || !asked.toolCalls) return asked;
  return { ...asked, toolCalls: asked.toolCalls.map((call) => ({ ...call, id: numberOf(call.id) })) };
}

/** SHA-256, in hexadecimal, of a value's JSON with the members of objects in order: equal values, equal keys. */
export function keyOf(value: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(inOrder(value)))
    .digest('hex');
}

function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOrder);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(members.map(([name, member]) => [name, inOrder(member)]));
}

/** Whether a value that was read has the shape of an answer. */
export function isResponse(value: unknown): value is LLMResponse {
  if (typeof value !== 'object' || value === null) return false;
  const { message, ...rest }: Partial<LLMResponse> = value;
  return message !== undefined && responseFlaw({ message, ...rest }) === undefined;
}
