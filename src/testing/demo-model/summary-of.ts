import { isObject } from '../model-server/chat-request.ts';
import { note, shortened, unwrapped } from './outcome-of.ts';
import { counted, listed } from './words.ts';

/** What a file says, in a few sentences made of its own words. */
export function summaryOf(path: string, content: unknown): string {
  const inner = unwrapped(content);
  const text = withoutNotes(typeof inner === 'string' ? inner : JSON.stringify(inner, null, 2));
  if (text.trim() === '') return `${path} is empty.`;
  const json = objectIn(inner, text);
  if (json !== undefined) return summaryOfJson(path, json);
  if (/\.(?:md|markdown|txt|rst)$/i.test(path) || /^#\s/m.test(text) || !/[.]\w+$/.test(path))
    return summaryOfProse(path, text);
  return summaryOfCode(path, text);
}

function objectIn(value: unknown, text: string): Readonly<Record<string, unknown>> | undefined {
  if (isObject(value)) return value;
  if (!text.trimStart().startsWith('{')) return undefined;
  try {
    const parsed: unknown = JSON.parse(text);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** Without line numbers before the lines, and without what a tool says about its answer. */
function withoutNotes(text: string): string {
  const lines = text.split('\n').filter((line) => !note.test(line));
  const numbered = /^\s*\d+(?::|\t|\s*\|)\s?/;
  return lines.every((line) => line === '' || numbered.test(line))
    ? lines.map((line) => line.replace(numbered, '')).join('\n')
    : lines.join('\n');
}

function linesIn(text: string): string {
  return counted(text.replace(/\n$/, '').split('\n').length, 'line');
}

function summaryOfJson(path: string, json: Readonly<Record<string, unknown>>): string {
  const { name, version, description } = json;
  const keys = Object.keys(json);
  const title =
    typeof name === 'string' ? `It describes “${name}”${typeof version === 'string' ? ` ${version}` : ''}. ` : '';
  const words = typeof description === 'string' ? `It says: “${shortened(description, 240)}”. ` : '';
  return `${path} is JSON with ${counted(keys.length, 'key')}: ${listed(keys, 8)}. ${title}${words}`.trim();
}

function summaryOfProse(path: string, text: string): string {
  const prose = text.replace(/^---\n[\s\S]*?\n---\n/, '').replace(/```[\s\S]*?```/g, '');
  const headings = [...prose.matchAll(/^#{1,6}\s+(.+)$/gm)].map((match) => (match[1] ?? '').trim());
  const paragraph = prose
    .split(/\n\s*\n/)
    .find((block) => /^[\p{L}\d*_“"[(`]/u.test(block.trim()) && /\p{L}{3}/u.test(block));
  const [title, ...sections] = headings;
  const called = title === undefined ? `has ${linesIn(text)}` : `has ${linesIn(text)} and is titled “${title}”`;
  const says = paragraph === undefined ? '' : ` It begins: ${quoteOf(plainText(paragraph))}`;
  const goesOn = sections.length === 0 ? '' : ` Its sections are ${listed(sections.map(plainText), 6)}.`;
  return `${path} ${called}.${says}${goesOn}`;
}

const declaration =
  /^export\s+(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?:function\*?|class|const|let|interface|type|enum)\s+([\w$]+)|^(?:def|class|func|fn|pub fn)\s+(\w+)/gm;

function summaryOfCode(path: string, text: string): string {
  const names = [...new Set([...text.matchAll(declaration)].map((match) => match[1] ?? match[2] ?? ''))];
  const offers = names.length === 0 ? '' : ` and ${/^export/m.test(text) ? 'exports' : 'defines'} ${listed(names, 5)}`;
  const documented = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*^export/m.exec(text);
  const comment = documented ?? /\/\*\*?([\s\S]*?)\*\/|^((?:\s*(?:\/\/|#(?!!)).*\n)+)|"""([\s\S]*?)"""/m.exec(text);
  const words = plainText((comment?.slice(1).find(Boolean) ?? '').replace(/^\s*(?:\*|\/\/|#)\s?/gm, ''));
  const says = words === '' ? '' : ` Its first comment says: ${quoteOf(words)}`;
  return `${path} has ${linesIn(text)}${offers}.${says}`;
}

function plainText(text: string): string {
  return text
    .replace(/\{@link\s+([^}|\s]+)[^}]*\}/g, '$1')
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/[*`]{1,3}(?=\S)|(?<=\S)[*`]{1,3}/g, '')
    .replace(/\s+/g, ' ')
    .trim();
}

/** The first two sentences of a string, in quotation marks. */
function quoteOf(text: string): string {
  const sentences = text
    .split(/(?<=[.!?])\s+(?=[\p{Lu}“"])/u)
    .slice(0, 2)
    .join(' ');
  const quote = sentences.length <= 320 ? sentences : shortened(sentences, 320);
  return `“${quote}”${/[.!?…]$/.test(quote) ? '' : '.'}`;
}
