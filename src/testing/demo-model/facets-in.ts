import { expressionIn } from './expression-in.ts';
import { zoneOf } from './zone-of.ts';

/** What a question names: the values that a tool's parameters can take. */
export interface Facets {
  readonly expression?: string;
  /** A city, a country, a region. */
  readonly place?: string;
  readonly path?: string;
  /** What is searched for. */
  readonly pattern?: string;
  /** What stands in quotation marks. */
  readonly quoted?: string;
  /** Which of the things found before is meant, from 0; -1 is the last. */
  readonly reference?: number;
  readonly amount?: number;
  readonly from?: string;
  readonly to?: string;
  /** A number or code of something, such as `A-17`. */
  readonly identifier?: string;
  readonly url?: string;
  readonly email?: string;
  readonly date?: string;
  readonly numbers: readonly number[];
}

const capitalised = String.raw`\p{Lu}[\p{L}'’.-]*(?:\s+(?:(?:de|da|do|del|la|of|the)\s+)?\p{Lu}[\p{L}'’-]*)*`;
const places = new RegExp(
  `\\b(?:in|for|at|of)\\s+(${capitalised}(?:(?:\\s*,\\s*(?:and\\s+)?|\\s+and\\s+)(?:in\\s+)?${capitalised})*)`,
  'u',
);
const lowerPlace =
  /\b(?:in|for|at)\s+([\p{L}][\p{L} '’-]*?)(?=\s+(?:right now|now|today|tomorrow|at the moment|please|and)\b|\s*[?!.,;]|$)/iu;

const currencies: Readonly<Record<string, string>> = {
  dollar: 'USD',
  buck: 'USD',
  euro: 'EUR',
  pound: 'GBP',
  yen: 'JPY',
  franc: 'CHF',
  yuan: 'CNY',
  rupee: 'INR',
};

/** The places of a question: `Tokyo, Paris and Rome` are three, `Paris, France` is one. */
export function placesIn(question: string): readonly string[] {
  const list = places.exec(question)?.[1]?.replace(/[.'’-]+$/, '');
  if (list !== undefined) {
    return /\band\b/.test(list) ? list.split(/\s*,\s*(?:and\s+)?(?:in\s+)?|\s+and\s+(?:in\s+)?/) : [list];
  }
  const lower = lowerPlace.exec(question)?.[1];
  return lower !== undefined && zoneOf(lower) !== undefined ? [lower] : [];
}

/** Everything that a question names. */
export function facetsIn(question: string): Facets {
  const url = /https?:\/\/[^\s"'<>)]+/.exec(question)?.[0];
  const email = /[\w.+-]+@[\w-]+\.[\w.]+\w/.exec(question)?.[0];
  const text = [url, email].reduce<string>(
    (rest, part) => (part === undefined ? rest : rest.replace(part, ' ')),
    question,
  );
  const conversion = conversionIn(text);
  return present({
    expression: expressionIn(text),
    place: placesIn(text)[0],
    path: pathIn(text),
    pattern: patternIn(text),
    quoted: quotedIn(text),
    reference: referenceIn(text),
    ...conversion,
    identifier: /\b[A-Z]{1,6}-\d+\b|(?<=#)\d+\b|\b\d{4,}\b/.exec(text)?.[0],
    url,
    email,
    date: /\b\d{4}-\d{2}-\d{2}\b|\b(?:today|tomorrow|yesterday)\b/i.exec(text)?.[0]?.toLowerCase(),
    numbers: (text.match(/(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\w)/g) ?? []).map(Number),
  });
}

/** Without the members that are not there. */
function present<T extends object>(members: { [K in keyof T]: T[K] | undefined }): T;
function present(members: Record<string, unknown>): object {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

function quotedIn(text: string): string | undefined {
  const match = /["“]([^"”]+)["”]|`([^`]+)`|(?<!\p{L})'([^']+)'(?!\p{L})/u.exec(text);
  return match?.[1] ?? match?.[2] ?? match?.[3];
}

const bareFiles = /^(?:README|LICENSE|LICENCE|CHANGELOG|CONTRIBUTING|Makefile|Dockerfile)$/;

/** What looks like a path, in its order. */
export function pathsIn(text: string): readonly string[] {
  return text
    .split(/[\s,;"“”'`()]+/)
    .map((token) => token.replace(/[?!.:]+$/, ''))
    .filter(isPath);
}

/** A file or a folder: what looks like a path, or what is called one. */
function pathIn(text: string): string | undefined {
  const [path] = pathsIn(text);
  if (path !== undefined) return path;
  const folder =
    /\b(?:folder|directory)\s+([\w.-]+)|\b(?:in|of|under|inside)\s+(?:the\s+)?([\w.-]+)\s+(?:folder|directory)/i;
  const match = folder.exec(text);
  const name = match?.[1] ?? match?.[2];
  return name === undefined || /^(?:this|current|root|project|working)$/i.test(name) ? undefined : name;
}

function isPath(token: string): boolean {
  if (/^[a-z]+:\/\//i.test(token) || token === 'and/or' || token.includes('*')) return false;
  if (/^\.{0,2}\/?[\w@.-]+(?:\/[\w@.-]+)*\/?$/.test(token) && token.includes('/')) return /[a-z]/i.test(token);
  return (
    bareFiles.test(token) || /^\.?[\w-]+(?:\.[\w-]+)*\.[a-z][a-z0-9]{0,7}$/i.test(token.replace(/^(?:e\.g|i\.e)$/, ''))
  );
}

const searchVerb =
  /\b(?:search(?:ing)?(?: for)?|grep(?: for)?|look(?:ing)? for|mention(?:s|ed|ing)?|contain(?:s|ing)?|refer(?:s|ring)? to|references?|occurrences? of|import(?:s|ing)?|uses?|using|calls?|defines?|match(?:es|ing)?|find|where is|where are|with the word)\b/gi;

/** What stands after the verb of a search: what is quoted, the one word that looks like code, or all of it. */
function patternIn(text: string): string | undefined {
  const quoted = quotedIn(text);
  const starred = text.split(/\s+/).find((token) => /\*/.test(token) && /[a-z]/i.test(token));
  if (quoted !== undefined || starred !== undefined) return quoted ?? starred?.replace(/[?!.,]+$/, '');
  const verbs = [...text.matchAll(searchVerb)];
  const verb = verbs.findLast(({ 0: word, index }) => text.slice(index + word.length).trim().length > 1);
  if (verb === undefined) return undefined;
  const object = text
    .slice(verb.index + verb[0].length)
    .replace(/[?!.]+\s*$/, '')
    .replace(/\b(?:in|under|inside|within|across)\s+(?:the\s+|this\s+|my\s+|all\s+)?[\w./@ -]+$/i, '')
    .replace(/\s+(?:is|are)?\s*(?:defined|used|declared|mentioned|called)\s*$/i, '')
    .replace(
      /^\s*(?:for|all|any|every|the|a|an|to|of|files?|that|which|about|word|text|string|name|definition|uses?|usages?|occurrences?|\s)+\s+/i,
      '',
    )
    .trim();
  const code = object.split(/\s+/).find((word) => /[a-z\d][A-Z]|_|^[A-Z]{2,}$|\(\)|\w\.\w/.test(word));
  return (code ?? object) || undefined;
}

const ordinals: Readonly<Record<string, number>> = { first: 0, second: 1, third: 2, last: -1 };

function referenceIn(text: string): number | undefined {
  const ordinal = /\bthe (first|second|third|last)\b/i.exec(text)?.[1]?.toLowerCase();
  if (ordinal !== undefined) return ordinals[ordinal];
  return /\b(?:it|them|that file|this file|that one)\b/i.test(text) ? 0 : undefined;
}

function conversionIn(text: string): { amount?: number; from?: string; to?: string } {
  const match = /(\d+(?:\.\d+)?)\s*([\p{L}°$€£]+)\s+(?:to|in|into|as)\s+([\p{L}°]+)/iu.exec(text);
  const target = /\b(?:to|into|in)\s+(\p{Lu}\p{L}+)/u.exec(text)?.[1];
  if (match === null) return target === undefined ? {} : { to: target };
  const [, amount = '', from = '', to = ''] = match;
  return { amount: Number(amount), from: unitOf(from), to: unitOf(to) };
}

function unitOf(word: string): string {
  return currencies[word.toLowerCase().replace(/s$/, '')] ?? word;
}
