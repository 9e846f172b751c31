import {
  AgentLoopError,
  checkMessages,
  isObject,
  type Message,
  messageOf,
  parsedJson,
  shownValue,
} from '../core/contracts/index.ts';
import { strayProperty } from './batch-item.ts';
import type { BatchItem } from './batch-options.ts';
import { type TextLine, textLines } from './text-lines.ts';

/** Options of `readPrompts`: how lines are read, and what errors call the source. */
export interface ReadPromptsOptions {
  /**
   * `'json'`: each line is JSON, an object `{ key, prompt, messages, metadata }` or a string, the prompt. `'text'`: each line is a prompt. Default: what
   * the first line is.
   */
  readonly format?: 'json' | 'text' | undefined;
  /** What messages call the source. Default: its path, else `the input`. */
  readonly name?: string | undefined;
}

/**
 * The items of a file, or of a stream of bytes, one a line; empty lines are left out. The key of an item without one is the number of its line. Errors: `INVALID_INPUT`
 * for a line that is none, naming it, and for a file that cannot be read. Leaving it closes the source. Memory: a line.
 */
export async function* readPrompts(
  source: string | AsyncIterable<Uint8Array | string>,
  options: ReadPromptsOptions = {},
): AsyncGenerator<BatchItem> {
  const { name = typeof source === 'string' ? source : 'the input' } = options;
  let { format } = options;
  for await (const { text, number } of linesOf(source, name)) {
    const line = number === 1 ? text.replace(/^\uFEFF/, '') : text;
    if (line.trim() === '') continue;
    format ??= isJsonItem(line) ? 'json' : 'text';
    yield format === 'text' ? { prompt: line.trim(), line: number } : itemOf(line, { name, number });
  }
}

async function* linesOf(source: string | AsyncIterable<Uint8Array | string>, name: string): AsyncGenerator<TextLine> {
  try {
    yield* textLines(source);
  } catch (cause) {
    if (typeof source !== 'string') throw cause;
    const message = `${name} cannot be read: ${messageOf(cause)}; name a file of prompts.`;
    throw new AgentLoopError('INVALID_INPUT', message, { cause });
  }
}

interface Place {
  readonly name: string;
  readonly number: number;
}

/** A first line that looks like an object or a string is JSON, also where it is broken. */
function isJsonItem(line: string): boolean {
  return /^\s*(\{\s*["}]|"(?:[^"\\]|\\.)*"\s*$)/.test(line);
}

function itemOf(text: string, place: Place): BatchItem {
  const { number: line } = place;
  const given = parsed(text, place);
  if (typeof given === 'string') return { prompt: given, line };
  if (!isObject(given)) throw invalid(place, `must be an object { key, prompt } or a string, not ${shownValue(given)}`);
  const fields = new Map<string, unknown>(Object.entries(given));
  const flaw = strayProperty(given);
  if (flaw !== undefined) throw invalid(place, flaw);
  const basics = { ...keyIn(fields.get('key'), place), ...metadataIn(fields.get('metadata'), place), line };
  const [prompt, messages] = [fields.get('prompt'), fields.get('messages')];
  if ((prompt === undefined) === (messages === undefined)) throw invalid(place, 'needs either prompt or messages');
  if (messages === undefined) {
    if (typeof prompt === 'string') return { ...basics, prompt };
    throw invalid(place, `prompt must be a string, not ${shownValue(prompt)}`);
  }
  return { ...basics, messages: messagesIn(messages, place) };
}

function parsed(text: string, place: Place): unknown {
  try {
    return parsedJson(text);
  } catch (error) {
    throw invalid(place, `is not JSON: ${messageOf(error)}`);
  }
}

function keyIn(key: unknown, place: Place): { readonly key?: string } {
  if (key === undefined) return {};
  if (typeof key === 'string' || typeof key === 'number') return { key: String(key) };
  throw invalid(place, `key must be a string or a number, not ${shownValue(key)}`);
}

function metadataIn(metadata: unknown, place: Place): Pick<BatchItem, 'metadata'> {
  if (metadata === undefined) return {};
  if (isObject(metadata)) return { metadata: Object.fromEntries(Object.entries(metadata)) };
  throw invalid(place, `metadata must be an object, not ${shownValue(metadata)}`);
}

function messagesIn(messages: unknown, place: Place): readonly Message[] {
  try {
    if (isMessages(messages)) return messages;
  } catch (error) {
    throw invalid(place, messageOf(error));
  }
  throw invalid(place, `messages must be an array of messages, not ${shownValue(messages)}`);
}

function isMessages(value: unknown): value is readonly Message[] {
  if (!Array.isArray(value) || value.length === 0) return false;
  checkMessages(value);
  return true;
}

function invalid({ name, number }: Place, what: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `${name}:${number} ${what.replace(/\.$/, '')}.`);
}
