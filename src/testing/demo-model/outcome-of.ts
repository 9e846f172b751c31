import { isObject } from '../model-server/chat-request.ts';
import { listed, wordsOf } from './words.ts';

/** What a tool answered. */
export interface Outcome {
  readonly text: string;
  /** The parsed JSON where the text is JSON, else the text. */
  readonly value: unknown;
  /** What went wrong, in the tool's words, without the name of the error; undefined where nothing did. */
  readonly error: string | undefined;
}

/** A place that a search found. */
export interface Hit {
  readonly path: string;
  readonly line?: number;
  /** What stands there. */
  readonly text?: string;
}

/** Reads the content of a tool message. */
export function outcomeOf(content: string): Outcome {
  const text = content.trim();
  const value = parsedOr(text);
  return { text, value, error: errorIn(text, value) };
}

function parsedOr(text: string): unknown {
  if (!/^[[{"\d-]|^(?:true|false|null)$/.test(text)) return text;
  try {
    const value: unknown = JSON.parse(text);
    return value;
  } catch {
    return text;
  }
}

function errorIn(text: string, value: unknown): string | undefined {
  if (isObject(value)) {
    const { error, message } = value;
    if (isObject(error) && typeof error['message'] === 'string') return error['message'];
    if (typeof error === 'string' && error !== '') return error;
    const failed = value['success'] === false || value['ok'] === false || value['isError'] === true;
    return failed ? (typeof message === 'string' ? message : text) : undefined;
  }
  const match = /^(?:(?:tool )?error\b[:\s-]*|(?=\w*Error: )|(?=skipped: )|(?=E[A-Z]{3,}: ))([\s\S]*)/i.exec(text);
  return match?.[1]?.replace(/^[A-Z]\w*Error: /, '');
}

/** A line that is about the answer, not of it: `[12 more are left out]`. */
export const note = /^\[[^\]]* [^\]]*\]$/;

const wrappers = ['result', 'value', 'answer', 'output', 'text', 'content', 'message', 'data'];
const lists = ['matches', 'hits', 'results', 'files', 'entries', 'items', 'paths', 'data'];

/** What an object holds where it is no more than a wrapper: `{ result: 84 }` is 84. */
export function unwrapped(value: unknown): unknown {
  if (!isObject(value)) return value;
  const key = wrappers.find((name) => value[name] !== undefined && !Array.isArray(value[name]));
  return key === undefined ? value : unwrapped(value[key]);
}

/** A value as part of a sentence: at most one line. */
export function spoken(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'nothing' : listed(value.map(spoken), 8);
  if (isObject(value)) {
    const [only, ...others] = Object.entries(value);
    if (only !== undefined && others.length === 0 && wrappers.includes(only[0])) return spoken(only[1]);
    return listed(Object.entries(value).map(([key, member]) => `${wordsOf(key).join(' ')} ${spoken(member)}`));
  }
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return shortened(String(value ?? 'nothing'), 300);
}

/** On one line, at most `most` characters, without the full stop at its end. */
export function shortened(text: string, most: number): string {
  const line = text.replace(/\s+/g, ' ').trim().replace(/\.$/, '');
  return line.length <= most ? line : `${line.slice(0, most).replace(/\s+\S*$/, '')} …`;
}

/** What an answer lists: the members of its list, or its lines. */
export function entriesIn({ value, text }: Outcome): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (isObject(value)) {
    const key = lists.find((name) => Array.isArray(value[name]));
    const inner = key === undefined ? unwrapped(value) : value[key];
    if (Array.isArray(inner)) return inner;
    return typeof inner === 'string' ? linesOf(inner) : [];
  }
  return linesOf(typeof value === 'string' ? value : text);
}

function linesOf(text: string): readonly string[] {
  return text
    .split('\n')
    .map((line) => line.replace(/^\s*(?:[-*•]|[├└│─\s]+)\s+/, '').trim())
    .filter((line) => line !== '' && !note.test(line));
}

/** Whether a tool says that it gave only a part. */
export function isCut({ text }: Outcome): boolean {
  return text.split('\n').some((line) => note.test(line.trim()));
}

/** The name of an entry: of a file, a folder, a thing. */
export function nameOfEntry(entry: unknown): string {
  if (!isObject(entry)) return String(entry).replace(/^\[(?:DIR|FILE)\]\s*/i, '');
  const name = entry['path'] ?? entry['file'] ?? entry['filename'] ?? entry['name'] ?? entry['title'];
  return typeof name === 'string' ? name : spoken(entry);
}

/** A path at the start of a line, with the line number and the text that a search puts after it. */
const place = /^([\w@./ -]*[\w-]\.[A-Za-z]\w{0,7}|[\w@.-]+(?:\/[\w@.-]+)+)(?::(\d+))?(?=[:\s(,]|$):?(.*)/;

/** The places in files that an answer names, in its order. */
export function hitsIn(outcome: Outcome): readonly Hit[] {
  return entriesIn(outcome).flatMap((entry) => {
    const [, path, number, rest] = place.exec(nameOfEntry(entry)) ?? [];
    if (path === undefined) return [];
    const line = isObject(entry) ? (entry['line'] ?? entry['lineNumber']) : number;
    const text = isObject(entry) ? (entry['text'] ?? entry['match'] ?? entry['content']) : rest;
    return [{ path, ...(line !== undefined && { line: Number(line) }), ...(typeof text === 'string' && { text }) }];
  });
}

/** The files among them, each once. */
export function filesIn(outcome: Outcome): readonly string[] {
  return [...new Set(hitsIn(outcome).map(({ path }) => path))];
}
