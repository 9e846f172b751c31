import { isObject } from '../../core/contracts/index.ts';

/** What a question is about. `other` leaves it to the words that the question shares with a tool. */
type Topic = 'calculate' | 'time' | 'search' | 'list' | 'read' | 'other';

/** One question of a prompt. */
export interface Question {
  readonly text: string;
  readonly topic: Topic;
  /** What it names, by kind. */
  readonly values: Readonly<Record<ValueKind, string | undefined>>;
  readonly numbers: readonly number[];
}

export type ValueKind = 'expression' | 'place' | 'path' | 'pattern' | 'quoted' | 'email' | 'code';

const verb =
  '(?:what|which|who|when|where|how|is|are|does|can|tell|list|read|show|find|search|calculate|convert|summari[sz]e|send|get|roll|book|order|call)';

const clauseBreak = new RegExp(`\\s*[,;]\\s*(?=(?:(?:and|then) )?${verb}\\b)|\\s(?:and|then)\\s(?=${verb}\\b)`, 'i');

const sentenceBreak = /(?<=[?!])\s|(?<=\.)\s(?=[\p{Lu}"])|\n/u;

const preamble = /^(?:[-*]\s|\d+[.)]\s|(?:and|then|also|please|so)\b[\s,:]*)+/i;

/** Splits a prompt into its questions, in order. Reads its first 4,000 characters, and 500 of each question. */
export function questionsOf(prompt: string): readonly Question[] {
  return prompt
    .slice(0, 4_000)
    .replace(/[^\S\n]+/g, ' ')
    .split(sentenceBreak)
    .flatMap((sentence) => sentence.split(clauseBreak))
    .map((clause) => clause.slice(0, 500).replace(preamble, '').trim())
    .filter((clause) => /[\p{L}\d]/u.test(clause))
    .flatMap(onePlaceEach)
    .map(questionOf);
}

const name = String.raw`\p{Lu}[\p{L}'-]*(?: \p{Lu}[\p{L}'-]*)*`;

const places = new RegExp(`\\b(?:in|for|at) (${name}(?:(?:, | and |, and )${name})*)`, 'u');

/** `the time in Tokyo and Paris` asks twice; `Paris, France` is one place. */
function onePlaceEach(clause: string): readonly string[] {
  const found = places.exec(clause)?.[1];
  if (found === undefined || !found.includes(' and ')) return [clause];
  return found.split(/, and |, | and /).map((place) => clause.replace(found, place));
}

function questionOf(text: string): Question {
  const quoted = /["“]([^"”]+)["”]|`([^`]+)`/.exec(text)?.slice(1).find(Boolean);
  const values = {
    expression: expressionIn(text),
    place: places.exec(text)?.[1],
    path: pathIn(text),
    pattern: patternIn(text, quoted),
    quoted,
    email: /[\w.+-]{1,64}@[\w-]+\.[\w.]*\w/.exec(text)?.[0],
    code: /\b[A-Z]{1,6}-\d+\b/.exec(text)?.[0],
  };
  const numbers = text.match(/(?<![\w.])-?\d+(?:\.\d+)?\b/g) ?? [];
  return { text, topic: topicOf(text, values), values, numbers: numbers.map(Number) };
}

function topicOf(text: string, { expression, pattern, path }: Question['values']): Topic {
  if (/\btime is it\b|\bwhat(?: is the)? (?:time|date|day)\b/i.test(text)) return 'time';
  if (expression !== undefined) return 'calculate';
  if (pattern !== undefined) return 'search';
  if (/^list\b|\b(?:which|what|how many|show)\b.*\b(?:files?|folders?)\b/i.test(text)) return 'list';
  return path !== undefined && /\b(?:read|open|show|summari[sz]e|what|about)\b/i.test(text) ? 'read' : 'other';
}

/** An arithmetic expression: numbers, brackets and at least one operator between them. */
function expressionIn(text: string): string | undefined {
  const found = /(?<![\w.:/-])[(-]*\d[\d\s.+\-*/^%()]*[\d)]/.exec(text)?.[0];
  return found !== undefined && /[\d)] ?[-+*/^%] ?[(\d-]/.test(found) && !/\d{4}-\d\d/.test(found) ? found : undefined;
}

function pathIn(text: string): string | undefined {
  const words = text.split(/[\s,;"“”`()]+/).map((word) => word.replace(/[?!.:]+$/, ''));
  const path = words.find((word) => /^[\w.-]*[\w-]\.[a-z]\w{0,6}$|^[\w.-]*[a-z][\w.-]*\/[\w./-]*$/i.test(word));
  return path ?? /^list\b.*\bin (\w+)[?.]*$/i.exec(text)?.[1];
}

const searches = /\b(?:search|find|mention|contain|import)s?\b(?: (?:for|all|any|the|files?))*/i;

function patternIn(text: string, quoted: string | undefined): string | undefined {
  const match = searches.exec(text);
  if (match === null) return undefined;
  const rest = text.slice(match.index + match[0].length).replace(/(?: in [\w./-]+)?[?!.]*$/i, '');
  return quoted ?? (rest.trim() || undefined);
}

/** A tool call. */
export interface Call {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** A tool call with its result, which is parsed where it is a JSON object or array. */
export interface Finding extends Call {
  readonly result: unknown;
  /** What went wrong, in the tool's words. */
  readonly error: string | undefined;
}

interface Wording {
  /** The tools for this, by name. */
  readonly tools: RegExp;
  readonly intention: (subject: string) => string;
  readonly answer: (subject: string, result: unknown) => string;
}

const wordings: Readonly<Record<Exclude<Topic, 'other'>, Wording>> = {
  calculate: {
    tools: /calc|math/i,
    intention: (subject) => `work out ${subject}`,
    answer: (subject, result) => `${subject} is ${spoken(result)}.`,
  },
  time: {
    tools: /time|clock/i,
    intention: (zone) => `look up the time in ${cityOf(zone)}`,
    answer: (zone, result) => `In ${cityOf(zone)} it is ${momentIn(spoken(result))}.`,
  },
  search: {
    tools: /search|grep|find/i,
    intention: (subject) => `search for ${subject}`,
    answer: (subject, result) => `${subject} is in ${counted(filesIn(result))}.`,
  },
  list: {
    tools: /list/i,
    intention: (folder) => `list ${folder === '' ? 'the files' : folder}`,
    answer: (folder, result) => `${folder === '' ? 'The folder' : folder} has ${counted(linesIn(result))}.`,
  },
  read: {
    tools: /read|open/i,
    intention: (path) => `read ${path}`,
    answer: (path, result) => summaryOf(path, spoken(result)),
  },
};

/** What a tool is for, by its name. */
export function topicOfTool(name: string): Topic {
  return topics.find((topic) => wordings[topic].tools.test(name)) ?? 'other';
}

const topics = ['calculate', 'time', 'search', 'list', 'read'] as const;

/** A call in words: `work out 12 * 7`. */
export function intentionOf({ name, arguments: given }: Call): string {
  const topic = topicOfTool(name);
  const subject = subjectOf(given);
  if (topic !== 'other') return wordings[topic].intention(subject);
  return `ask ${name}${subject === '' ? '' : ' about '}${subject}`;
}

/** The result of a call in whole sentences. `asked` is the question that it answers. */
export function sentencesFor(finding: Finding, asked: string | undefined): string {
  const { name, result, error } = finding;
  const topic = topicOfTool(name);
  if (error !== undefined) return `I could not ${intentionOf(finding)}: ${name} answered “${shortened(error, 300)}”.`;
  if (topic !== 'other') return wordings[topic].answer(subjectOf(finding.arguments), result);
  return `${asked === undefined ? '' : `For “${asked}”, `}${name} says: ${shortened(spoken(result), 600)}.`;
}

function subjectOf(given: Call['arguments']): string {
  const values = Object.values(given).map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
  return shortened(values.join(', '), 80);
}

function cityOf(zone: string): string {
  return (zone || 'UTC').split('/').at(-1)?.replaceAll('_', ' ') ?? zone;
}

/** The length of a file, and its first documentation of a function or class, or else its first words. */
function summaryOf(path: string, text: string): string {
  const documented = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*export (?:function|class)/.exec(text.slice(0, 20_000));
  const begin = documented?.[1]?.replace(/^\s*\*/gm, '') ?? text;
  return `${path} has ${text.split('\n').length} lines. It begins: “${shortened(begin, 200)}”.`;
}

/** A timestamp as people say it, in its own offset; any other text as it is. */
function momentIn(text: string): string {
  const [, date, time] = /(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})/.exec(text) ?? [];
  if (date === undefined) return text;
  const on = new Date(`${date}T00:00:00Z`).toLocaleDateString('en-GB', { timeZone: 'UTC', dateStyle: 'full' });
  return `${time} on ${on}`;
}

/** Reads the content of a tool message. */
export function findingOf(call: Call, content: string): Finding {
  const text = content.trim();
  const result = /^[[{]/.test(text) ? (parsed(text) ?? text) : text;
  const error = isObject(result) ? result['error'] : /^(?:tool )?error\b[: -]*([\s\S]*)/i.exec(text)?.[1];
  return { ...call, result, error: typeof error === 'string' ? error : undefined };
}

/** Undefined where the text is not JSON. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function spoken(value: unknown): string {
  if (Array.isArray(value)) return listed(value.map(spoken));
  if (!isObject(value)) return String(value).replace(/\.$/, '');
  return listed(Object.entries(value).map(([key, member]) => `${key} ${spoken(member)}`));
}

/** Without what a tool says about its own answer: `[12 more are left out]`. */
function linesIn(result: unknown): readonly string[] {
  const lines = Array.isArray(result) ? result.map(spoken) : spoken(result).split('\n');
  return lines.filter((line) => line !== '' && !line.startsWith('['));
}

/** The files that the lines of a result begin with, each once. */
export function filesIn(result: unknown): readonly string[] {
  const paths = linesIn(result).map((line) => /^[\w./-]*[\w-]\.[a-z]\w{0,6}(?=:|$)/i.exec(line)?.[0] ?? '');
  return [...new Set(paths)].filter((path) => path !== '');
}

function counted(items: readonly string[]): string {
  const shown = items.length > 6 ? [...items.slice(0, 6), `${items.length - 6} more`] : items;
  if (items.length === 0) return 'no file';
  return `${items.length} ${items.length === 1 ? 'file' : 'files'}: ${listed(shown)}`;
}

/** `a`, `a and b`, `a, b and c`. */
export function listed(items: readonly string[]): string {
  return items.length < 2 ? items.join('') : `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`;
}

function shortened(text: string, most: number): string {
  const line = text.replace(/\s+/g, ' ').trim().replace(/\.$/, '');
  return line.length <= most ? line : `${line.slice(0, most).replace(/\s+\S*$/, '')} …`;
}
