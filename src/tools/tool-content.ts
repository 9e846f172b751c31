import {
  AgentLoopError,
  type Content,
  type ContentPart,
  type JsonContent,
  jsonText,
  messageOf,
} from '../core/contracts/index.ts';

const marker = Symbol.for('millrace.ContentParts');

/** A result of a tool that is more than text. Made by {@link contentParts}. */
export interface ContentParts {
  readonly [marker]: readonly ContentPart[];
}

/**
 * Marks a list of parts (text, images, files) as what the model is to read. Without the mark an array that a tool
 * returns is data and becomes JSON text. Throws `INVALID_INPUT` where there is no part.
 */
export function contentParts(parts: readonly ContentPart[]): ContentParts {
  if (parts.length === 0) {
    throw new AgentLoopError('INVALID_INPUT', 'contentParts() got no part; pass at least one, or return a string.');
  }
  return { [marker]: [...parts] };
}

/**
 * What the model reads of a value that the tool `name` returned.
 *
 * A string stands as it is, `undefined` is the empty text, {@link contentParts} stay parts. All else becomes JSON text,
 * with a `Map` of string keys as an object, other maps and sets as arrays, a bigint as digits, an `Error` inside data as
 * its name and message, and a value whose JSON is a string (a `Date`) as that string.
 *
 * An `Error` that is returned is thrown. `TOOL_FAILED` for what has no JSON form: binary data, a stream, an Observable,
 * a function, an object that holds itself, or an instance (such as a `Response`) that shows none of its data.
 */
export function toContent(value: unknown, name: string): Content {
  if (typeof value === 'string') return value;
  if (value === undefined) return '';
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  if (value instanceof Error) throw value;
  if (isContentParts(value)) return value[marker];
  if (isStream(value)) throw noContent(name, `a ${kindOf(value)}; read it to its end and return what it gave`);
  const text = jsonOf(value, name);
  if (text === undefined) throw noContent(name, `a ${typeof value}; return data or a string`);
  if (text === '{}' && isInstance(value)) {
    throw noContent(name, `a ${kindOf(value)} that shows no data as JSON; return the data it stands for`);
  }
  return unquoted(value, text);
}

function isContentParts(value: unknown): value is ContentParts {
  return typeof value === 'object' && value !== null && marker in value;
}

function isStream(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  return Symbol.asyncIterator in value || ('subscribe' in value && typeof value.subscribe === 'function');
}

function jsonOf(value: unknown, name: string): string | undefined {
  try {
    return jsonText(value, { replacer: asData });
  } catch (thrown) {
    throw noContent(
      name,
      `a value that has no JSON form (${firstLineOf(messageOf(thrown))}); return plain data`,
      thrown,
    );
  }
}

/** `this` is the holder: a `Buffer` has turned itself into numbers before `value` is handed over. */
function asData(this: unknown, key: string, value: unknown): unknown {
  const original = typeof this === 'object' && this !== null ? Reflect.get(this, key) : value;
  if (ArrayBuffer.isView(original) || original instanceof ArrayBuffer) {
    throw new TypeError('it holds binary data, which contentParts() can hand over as an image or a file');
  }
  if (typeof value === 'bigint') return value.toString();
  if (value instanceof Set) return [...value];
  if (value instanceof Map) return mapAsData(value);
  if (value instanceof Error) return { name: value.name, message: value.message };
  return value;
}

function mapAsData(map: ReadonlyMap<unknown, unknown>): unknown {
  const entries = [...map];
  const named = entries.filter((entry): entry is [string, unknown] => typeof entry[0] === 'string');
  return named.length === entries.length ? Object.fromEntries(named) : entries;
}

/** Whether a value has a class of its own; told by the chain of prototypes, which also holds for objects of other realms. */
function isInstance(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || value instanceof Map) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype !== null && Object.getPrototypeOf(prototype) !== null;
}

/** A `Date` or `URL` is its text, without the quotes that JSON gives a string. */
function unquoted(value: unknown, text: string): string {
  if (typeof value !== 'object' || !text.startsWith('"')) return text;
  const parsed: unknown = JSON.parse(text);
  return String(parsed);
}

function kindOf(value: unknown): string {
  const tag = Object.prototype.toString.call(value).slice(8, -1);
  return tag === 'Object' ? (className(value) ?? 'stream') : tag;
}

function className(value: unknown): string | undefined {
  return typeof value === 'object' && value !== null && typeof value.constructor === 'function'
    ? value.constructor.name
    : undefined;
}

function firstLineOf(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}

function noContent(name: string, what: string, cause?: unknown): AgentLoopError {
  return new AgentLoopError('TOOL_FAILED', `Tool "${name}" returned ${what}.`, { cause });
}

/**
 * The value that a tool returned, of the content of its `internal:tool-complete` event: what its JSON says, with the type that `tool` has read of
 * `execute`. It is not checked again. Errors: `INVALID_INPUT` where the content is not JSON, because an extension has replaced it.
 */
export function parseContent<T>(content: JsonContent<T>): T;
export function parseContent(content: string): unknown {
  try {
    return JSON.parse(content);
  } catch (cause) {
    const message = `The content of a tool result is not JSON (${messageOf(cause)}); an extension may have replaced it.`;
    throw new AgentLoopError('INVALID_INPUT', message, { cause });
  }
}
