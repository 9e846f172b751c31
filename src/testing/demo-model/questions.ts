/** What a question is about. `other` leaves it to the words that the question shares with a tool. */
export type Topic = 'calculate' | 'time' | 'search' | 'list' | 'read' | 'other';

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
