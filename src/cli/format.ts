import { headOf, parsedJson } from '../core/contracts/index.ts';

/** More of a value than any terminal line shows. */
const readLimit = 2000;

/** C0 and C1 without line feed and tab, line and paragraph separators, and what changes the direction of text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: naming them is the purpose.
const steering = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
const colorOrSteering = new RegExp(`(\\u001b\\[(?:[012]|22|3[1-7]|39|9[0-7])m)|${steering.source}`, 'g');

/**
 * The text without what steers a terminal: escape sequences lose their escape, carriage returns and other control
 * characters go; line feeds and tabs stay. What a model or a tool says must not move the cursor.
 */
export function withoutControls(text: string): string {
  return text.replace(new RegExp(steering, 'g'), '');
}

/** The same, with the colours that paints of this package set and reset. */
export function withoutSteering(text: string): string {
  return text.replace(colorOrSteering, (_, color: string | undefined) => color ?? '');
}

/** A value in one line for a person: of an object the only member's value, or each as `name: value`. */
export function oneLine(value: unknown): string {
  if (typeof value === 'string') return collapse(value);
  if (value === undefined) return '';
  if (Array.isArray(value)) return collapse(value.map(inner).join(', '));
  if (typeof value === 'object' && value !== null) return lineOfObject(value);
  return collapse(String(value));
}

/**
 * What a tool answered, in one line for a person: of a JSON text the values, without those that were `given`; of several
 * lines how many there are and the first one.
 */
export function resultLine(text: string, given = ''): string {
  const parsed = text.length <= readLimit ? jsonObject(text) : undefined;
  if (parsed !== undefined) return valuesOf(parsed, given);
  const lines = text.trim().split('\n');
  const first = collapse(lines[0] ?? '');
  return lines.length > 1 ? `${lines.length} lines: ${first}` : first;
}

function valuesOf(value: object, given: string): string {
  const values = Object.values(value).map(inner);
  return collapse((values.length > 1 ? values.filter((text) => text !== given) : values).join(', '));
}

function lineOfObject(value: object): string {
  const entries = Object.entries(value);
  const only = entries.length === 1 ? entries[0] : undefined;
  if (only !== undefined) return inner(only[1]);
  return collapse(entries.map(([key, member]) => `${key}: ${inner(member)}`).join(', '));
}

function inner(value: unknown): string {
  if (typeof value === 'string') return collapse(value);
  try {
    return collapse(JSON.stringify(value) ?? String(value));
  } catch {
    return collapse(String(value));
  }
}

function jsonObject(text: string): object | undefined {
  if (!/^\s*[{[]/.test(text)) return undefined;
  try {
    const value: unknown = parsedJson(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function collapse(text: string): string {
  return withoutControls(headOf(text, readLimit).replace(/\s+/g, ' ')).trim();
}

/** Milliseconds for a person: `3 ms`, `1.2 s`, `2 min 05 s`. */
export function duration(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, '0')} s`;
}

/** A running duration in milliseconds, in tenths of a second so that the number changes slowly: `0.4 s`. */
export function elapsed(ms: number): string {
  return ms < 999.5 ? `${(Math.max(0, ms) / 1000).toFixed(1)} s` : duration(ms);
}

/** A moment in ISO 8601 as this machine's clock shows it: `2026-11-22 09:03:07`. */
export function localTime(timestamp: string): string {
  const date = new Date(timestamp);
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** `1 token`, `2 tokens`. */
export function count(number: number, noun: string): string {
  return `${number.toLocaleString('en-US')} ${noun}${number === 1 ? '' : 's'}`;
}

/** JSON with the characters escaped that steer a terminal; it is read as the same value. */
export function terminalJson(json: string): string {
  return json.replace(
    /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
