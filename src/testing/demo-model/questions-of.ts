import { type Facets, facetsIn, pathsIn, placesIn } from './facets-in.ts';
import { stemsOf } from './words.ts';

/** What a question is about, as far as the model can tell; `other` leaves it to the words that it shares with a tool. */
export type QuestionKind = 'calculate' | 'time' | 'convert' | 'search' | 'list' | 'read' | 'other';

export interface Question {
  readonly text: string;
  readonly kind: QuestionKind;
  readonly facets: Facets;
  /** The stems of its words, without those of its facets. */
  readonly stems: ReadonlySet<string>;
  /** It takes up the question before: `And in Paris?` */
  readonly goesOn: boolean;
}

const opener =
  '(?:what|which|who|when|where|why|how|is|are|do|does|did|can you|could you|tell|list|read|show|find|search|grep|look|' +
  'calculate|compute|evaluate|convert|summari[sz]e|give|open|explain|describe|translate|multiply|divide|add|subtract|get|' +
  'fetch|check|send|create|write|delete|remove|book|order|call|run)';
const filler = '(?:(?:then|also|please|finally|and)\\s+)*';
const operand = '(?:[\\d(]|pi\\b|sqrt\\()';
const arithmetic = `(?:[-\\d(][\\d\\s.()]*(?:[-+*/^×÷]\\s*${operand}|(?:%|percent) of\\b)|sqrt\\()`;
const clauseBreak = new RegExp(
  `\\s*[,;]\\s*(?=${filler}${opener}\\b)|\\s+(?:and|then)\\s+(?=${filler}${opener}\\b)|` +
    `(?:\\s*[,;]\\s+(?:and\\s+|then\\s+)*|\\s+(?:and|then)\\s+)(?=${arithmetic})`,
  'i',
);
const sentenceBreak = /(?<=[?!])\s+|(?<=\.)(?<!^\s*\d+\.)\s+(?=[\p{Lu}"“'`])|;\s+|\n+/mu;
const preamble =
  /^(?:[-*•]\s+|\d+[.)]\s+|(?:and|then|also|please|so|now|ok(?:ay)?|first|next|finally|hi|hello|hey)\b[\s,!.]+|(?:can|could|would|will) you\s+|i(?:'d| would) like (?:to know|you to)\s+|tell me\s+(?!about)|please\s+)+/i;

/** Characters that are read of a prompt, and of one question: the patterns here are not made for whole documents. */
const maxPrompt = 8_000;
const maxQuestion = 1_000;

/**
 * Takes a prompt apart into the questions that it asks, in their order; a question about several places or files is
 * several. Of a prompt it reads the first 8,000 characters.
 */
export function questionsOf(prompt: string): readonly Question[] {
  const quotes: string[] = [];
  const text = prompt.slice(0, maxPrompt).replace(/[^\S\n]+/g, ' ');
  const masked = text.replace(/"[^"]*"|“[^”]*”|`[^`]*`/g, (quote) => `⟦${quotes.push(quote) - 1}⟧`);
  return masked
    .split(sentenceBreak)
    .flatMap((sentence) => sentence.split(clauseBreak))
    .map((clause) => clause.replace(/⟦(\d+)⟧/g, (_, index) => quotes[Number(index)] ?? '').trim())
    .map((clause) => clause.slice(0, maxQuestion))
    .filter((clause) => /[\p{L}\d]/u.test(clause))
    .flatMap(perThing)
    .map((clause, index) => questionOf(clause, index === 0));
}

function questionOf(clause: string, isFirst: boolean): Question {
  const text = clause.replace(preamble, '').trim() || clause;
  const named = facetsIn(text);
  const kind = kindOf(text, named);
  const folder = named.path === undefined ? folderIn(text, kind) : undefined;
  const facets = folder === undefined ? named : { ...named, path: folder };
  return {
    text,
    kind,
    facets,
    stems: stemsOf(withoutFacets(text, facets)),
    goesOn: isFirst && /^(?:and|what about|how about|also)\b/i.test(clause),
  };
}

/** One clause for each of several places or paths: `the time in Tokyo and Paris`, `read a.ts and b.ts`. */
function perThing(clause: string): readonly string[] {
  for (const things of [placesIn(clause), pathsIn(clause)]) {
    const [first, last] = [things[0], things.at(-1)];
    if (first === undefined || last === undefined || things.length === 1) continue;
    const start = clause.indexOf(first);
    const end = clause.lastIndexOf(last) + last.length;
    const between = things.reduce((text, thing) => text.replace(thing, ''), clause.slice(start, end));
    if (/^(?:[\s,]|\band\b|\bin\b)*$/.test(between)) {
      return things.map((thing) => clause.slice(0, start) + thing + clause.slice(end));
    }
  }
  return [clause];
}

function withoutFacets(text: string, { path, pattern, quoted }: Facets): string {
  return [quoted, path, pattern].reduce<string>((rest, part) => (part ? rest.replace(part, ' ') : rest), text);
}

const aboutTime =
  /\btime is it\b|\bo'clock\b|\b(?:current|local) (?:date|time)\b|\bwhat(?:'s|s| is)? (?:the )?(?:time|date|day)\b|\btime (?:now )?in\b|\bdate in\b|\btoday's date\b|\bwhat day\b/i;
const aboutSearch =
  /\b(?:search|grep|look for|find|mention|contain|refer|reference|occurrence|import|use|using|define|match)\w*\b|\bwhere (?:is|are)\b/i;
const aboutList =
  /\b(?:list|show|what|which|how many|ls)\b.*\b(?:files?|folders?|director(?:y|ies)|entries)\b|^(?:list|ls)\b/i;
const aboutReading =
  /\b(?:read|open|show|print|cat|summari[sz]e|summary|explain|describe|about|say|says|hold|holds|contents?|what is in|what's in)\b/i;

/** A folder that does not look like a path: `in src`. */
function folderIn(text: string, kind: QuestionKind): string | undefined {
  const name = /(?:\b(?:in|of|under|inside)|^(?:list|ls))\s+(?:the\s+)?([\w.-]*\w)\s*[?!.]*$/i.exec(text)?.[1];
  if (
    name === undefined ||
    /^(?:this|here|project|repository|repo|it|there|them|everything|files?|folders?|code)$/i.test(name)
  )
    return undefined;
  if (kind === 'list') return name;
  return kind === 'search' && /^(?:src|lib|tests?|docs?|app|bin|examples|packages|scripts)$/.test(name)
    ? name
    : undefined;
}

const changesFiles = /\b(?:delete|remove|write|create|rename|move|edit|append|save|copy|change|replace|run)\b/i;

function isFile(path: string): boolean {
  return /[^/]\.\w+$|^[A-Z]+$/.test(path);
}

function kindOf(text: string, facets: Facets): QuestionKind {
  const { path, pattern, expression, from, reference } = facets;
  if (aboutTime.test(text)) return 'time';
  if (expression !== undefined) return 'calculate';
  if (from !== undefined && /\b(?:convert|how (?:much|many)|what|in)\b/i.test(text)) return 'convert';
  if (path !== undefined && /\b(?:read|open|summari[sz]e|summary|cat|print)\b/i.test(text)) return 'read';
  if (aboutSearch.test(text) && pattern !== undefined && pattern !== path) return 'search';
  if (aboutList.test(text)) return 'list';
  if (path !== undefined && !isFile(path) && (path.endsWith('/') || /\bwhat(?:'s|s| is) in\b/i.test(text)))
    return 'list';
  if (aboutReading.test(text) && (path !== undefined || reference !== undefined)) return 'read';
  return path !== undefined && isFile(path) && !changesFiles.test(text) ? 'read' : 'other';
}
