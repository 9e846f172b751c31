import type { Attributes } from '@opentelemetry/api';
import {
  type Content,
  type ContentPart,
  type FinishReason,
  headOf,
  type LLMCallParams,
  type LLMResponse,
  type Message,
  parsedJson,
  type ToolCall,
  type ToolDefinition,
  textOf,
} from '../../core/contracts/index.ts';
import { attribute } from '../attributes.ts';
import type { TurnTracing } from './tracing-options.ts';

/** A message part in the form of the conventions. */
type SemconvPart = Readonly<Record<string, unknown>>;

/** A string that may leave the process: redacted, then truncated. */
export function contentText(tracing: TurnTracing, text: string): string {
  const redacted = tracing.redact(text);
  if (redacted.length <= tracing.maxContentLength) return redacted;
  return `${headOf(redacted, tracing.maxContentLength)}… [${redacted.length - tracing.maxContentLength} more]`;
}

/** The texts of one message share its limit, so that a message of thousands of calls has no more content than one of one. */
class MessageTexts {
  readonly #tracing: TurnTracing;
  #left: number;

  constructor(tracing: TurnTracing) {
    this.#tracing = tracing;
    this.#left = tracing.maxContentLength;
  }

  shown(text: string): string {
    const shown = contentText({ ...this.#tracing, maxContentLength: this.#left }, text);
    this.#left = Math.max(0, this.#left - shown.length);
    return shown;
  }
}

/** A value as JSON text, redacted and truncated. */
export function contentJson(tracing: TurnTracing, value: unknown): string {
  return contentText(tracing, jsonOf(value));
}

/** The input of the model. */
export function inputContent(tracing: TurnTracing, params: LLMCallParams): Attributes {
  const instructions = params.messages.filter(isInstruction);
  const attributes: Attributes = { [attribute.inputMessages]: messagesJson(tracing, params.messages) };
  if (instructions.length > 0) {
    const texts = new MessageTexts(tracing);
    const parts = instructions.flatMap((message) => contentParts(texts, message.content));
    attributes[attribute.systemInstructions] = JSON.stringify(parts);
  }
  if (params.tools !== undefined) {
    attributes[attribute.toolDefinitions] = definitionsJson(tracing, params.tools);
  }
  return attributes;
}

/** Once the definitions exceed the limit, the further ones have no description and no parameters. */
function definitionsJson(tracing: TurnTracing, tools: readonly ToolDefinition[]): string {
  let left = tracing.maxContentLength;
  const definitions = tools.map((tool) => {
    const { type } = tool;
    const text = left > 0 ? tracing.redact(jsonOf({ type, ...tool.function })) : '';
    left -= text.length;
    return left < 0 || !isJson(text) ? JSON.stringify({ type, name: tool.function.name }) : text;
  });
  return `[${definitions.join(',')}]`;
}

/** The output of the model. */
export function outputContent(tracing: TurnTracing, response: LLMResponse): Attributes {
  const { message } = response;
  const calls = response.toolCalls ?? callsOf(message);
  const reasoning = message.role === 'assistant' ? message.reasoning : undefined;
  const parts = assistantParts(new MessageTexts(tracing), { content: message.content, reasoning }, calls);
  const output = [{ role: message.role, parts, finish_reason: semconvReason(finishReasonOf(response)) }];
  return { [attribute.outputMessages]: JSON.stringify(output) };
}

/** Why the model stopped; if the vendor does not report it: `tool_calls` if there are calls, else `stop`. */
export function finishReasonOf(response: LLMResponse): FinishReason {
  const calls = response.toolCalls ?? callsOf(response.message);
  return response.finishReason ?? (calls.length > 0 ? 'tool_calls' : 'stop');
}

/** The conventions have `tool_call` in messages; other reasons are named alike. */
function semconvReason(reason: FinishReason): string {
  return reason === 'tool_calls' ? 'tool_call' : reason;
}

/** The responses of the model among the messages of a turn. The results of its tools are on their spans. */
export function outputMessagesJson(tracing: TurnTracing, messages: readonly Message[]): string {
  const responses = messages.filter(({ role }) => role === 'assistant');
  return messagesJson(tracing, responses, (message) => ({
    finish_reason: semconvReason(callsOf(message).length > 0 ? 'tool_calls' : 'stop'),
  }));
}

/** Messages other than instructions, each with the properties that `more` adds; if they exceed the limit, the newest are kept. */
export function messagesJson(
  tracing: TurnTracing,
  messages: readonly Message[],
  more: (message: Message) => object = () => ({}),
): string {
  const kept: string[] = [];
  let length = 0;
  for (let index = messages.length - 1; index >= 0 && length < tracing.maxContentLength; index--) {
    const message = messages[index];
    if (message === undefined || isInstruction(message)) continue;
    const name = message.role === 'user' && message.name !== undefined ? { name: message.name } : {};
    const parts = messageParts(new MessageTexts(tracing), message);
    const json = JSON.stringify({ role: message.role, ...name, parts, ...more(message) });
    length += json.length;
    kept.push(json);
  }
  return `[${kept.reverse().join(',')}]`;
}

function messageParts(texts: MessageTexts, message: Message): readonly SemconvPart[] {
  if (message.role === 'assistant') return assistantParts(texts, message, callsOf(message));
  if (message.role !== 'tool') return contentParts(texts, message.content);
  const response = texts.shown(textOf(message.content));
  return [{ type: 'tool_call_response', id: message.toolCallId, response }];
}

function assistantParts(
  texts: MessageTexts,
  { content, reasoning }: { readonly content: Content | null; readonly reasoning?: string | undefined },
  calls: readonly ToolCall[],
): readonly SemconvPart[] {
  return [
    ...(reasoning ? [{ type: 'reasoning', content: texts.shown(reasoning) }] : []),
    ...contentParts(texts, content),
    ...calls.map((call) => callPart(texts, call)),
  ];
}

function contentParts(texts: MessageTexts, content: Content | null): readonly SemconvPart[] {
  if (content === null || content === '') return [];
  if (typeof content === 'string') return [{ type: 'text', content: texts.shown(content) }];
  return content.map((part) => contentPart(texts, part));
}

/**
 * Images and files are named, never copied into a span: a part of the conventions with inline data requires the data, so these have a type of
 * their own.
 */
function contentPart(texts: MessageTexts, part: ContentPart): SemconvPart {
  switch (part.type) {
    case 'text':
      return { type: 'text', content: texts.shown(part.text) };
    case 'file': {
      const { file_id, file_data, filename } = part.file;
      const named = { modality: 'document', ...(filename !== undefined && { name: texts.shown(filename) }) };
      if (file_id !== undefined) return { type: 'file', ...named, file_id };
      return { type: 'omitted', ...named, ...mimeTypeOf(file_data) };
    }
    case 'image_url': {
      const { url } = part.image_url;
      if (url.startsWith('data:')) return { type: 'omitted', modality: 'image', ...mimeTypeOf(url) };
      return { type: 'uri', modality: 'image', uri: texts.shown(url) };
    }
  }
}

function mimeTypeOf(dataUrl: string | undefined): { readonly mime_type?: string } {
  const type = dataUrl?.startsWith('data:') ? dataUrl.slice(5).split(/[;,]/, 1)[0] : undefined;
  return type ? { mime_type: type } : {};
}

function callPart(texts: MessageTexts, call: ToolCall): SemconvPart {
  const text = texts.shown(call.function.arguments);
  return { type: 'tool_call', id: call.id, name: call.function.name, arguments: parsedOr(text) };
}

function isJson(text: string): boolean {
  try {
    parsedJson(text);
    return true;
  } catch {
    return false;
  }
}

/** The value of a JSON text; the text itself if it is not JSON, was truncated, or nests too deep to be written again. */
function parsedOr(text: string): unknown {
  try {
    return parsedJson(text);
  } catch {
    return text;
  }
}

function callsOf(message: Message): readonly ToolCall[] {
  return message.role === 'assistant' ? (message.toolCalls ?? []) : [];
}

function isInstruction(message: Message): message is Extract<Message, { role: 'system' | 'developer' }> {
  return message.role === 'system' || message.role === 'developer';
}

function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return '[not JSON]';
  }
}
