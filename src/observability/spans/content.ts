import type { Attributes } from '@opentelemetry/api';
import {
  type Content,
  type ContentPart,
  type FinishReason,
  headOf,
  type LLMCallParams,
  type LLMResponse,
  type Message,
  type ToolCall,
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

/** A value as JSON text, redacted and truncated. */
export function contentJson(tracing: TurnTracing, value: unknown): string {
  return contentText(tracing, jsonOf(value));
}

/** The input of the model. */
export function inputContent(tracing: TurnTracing, params: LLMCallParams): Attributes {
  const instructions = params.messages.filter(isInstruction);
  const attributes: Attributes = { [attribute.inputMessages]: messagesJson(tracing, params.messages) };
  if (instructions.length > 0) {
    const parts = instructions.flatMap((message) => contentParts(tracing, message.content));
    attributes[attribute.systemInstructions] = JSON.stringify(parts);
  }
  if (params.tools !== undefined) {
    const definitions = params.tools.map((tool) => ({ type: tool.type, ...tool.function }));
    attributes[attribute.toolDefinitions] = contentJson(tracing, definitions);
  }
  return attributes;
}

/** The output of the model. */
export function outputContent(tracing: TurnTracing, response: LLMResponse): Attributes {
  const { message } = response;
  const calls = response.toolCalls ?? callsOf(message);
  const parts = [...contentParts(tracing, message.content), ...calls.map((call) => callPart(tracing, call))];
  const output = [{ role: message.role, parts, finish_reason: finishReasonOf(response) }];
  return { [attribute.outputMessages]: JSON.stringify(output) };
}

/** Why the model stopped; if the vendor does not report it: `tool_calls` if there are calls, else `stop`. */
export function finishReasonOf(response: LLMResponse): FinishReason {
  const calls = response.toolCalls ?? callsOf(response.message);
  return response.finishReason ?? (calls.length > 0 ? 'tool_calls' : 'stop');
}

/** Messages other than instructions; if they exceed the limit, the newest are kept. */
export function messagesJson(tracing: TurnTracing, messages: readonly Message[]): string {
  const kept: string[] = [];
  let length = 0;
  for (let index = messages.length - 1; index >= 0 && length < tracing.maxContentLength; index--) {
    const message = messages[index];
    if (message === undefined || isInstruction(message)) continue;
    const json = JSON.stringify({ role: message.role, parts: messageParts(tracing, message) });
    length += json.length;
    kept.push(json);
  }
  return `[${kept.reverse().join(',')}]`;
}

function messageParts(tracing: TurnTracing, message: Message): readonly SemconvPart[] {
  if (message.role === 'tool') {
    const response = contentText(tracing, textOf(message.content));
    return [{ type: 'tool_call_response', id: message.toolCallId, response }];
  }
  return [...contentParts(tracing, message.content), ...callsOf(message).map((call) => callPart(tracing, call))];
}

function contentParts(tracing: TurnTracing, content: Content | null): readonly SemconvPart[] {
  if (content === null || content === '') return [];
  if (typeof content === 'string') return [{ type: 'text', content: contentText(tracing, content) }];
  return content.map((part) => contentPart(tracing, part));
}

/** Images and files are named, never copied into a span. */
function contentPart(tracing: TurnTracing, part: ContentPart): SemconvPart {
  if (part.type === 'text') return { type: 'text', content: contentText(tracing, part.text) };
  if (part.type === 'file') return { type: 'file', modality: 'file', file_id: part.file.file_id ?? part.file.filename };
  const { url } = part.image_url;
  if (url.startsWith('data:')) return { type: 'blob', modality: 'image', mime_type: url.slice(5).split(/[;,]/, 1)[0] };
  return { type: 'uri', modality: 'image', uri: contentText(tracing, url) };
}

function callPart(tracing: TurnTracing, call: ToolCall): SemconvPart {
  const text = contentText(tracing, call.function.arguments);
  return { type: 'tool_call', id: call.id, name: call.function.name, arguments: text };
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
