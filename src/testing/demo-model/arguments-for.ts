import { isObject } from '../model-server/chat-request.ts';
import type { Facets } from './facets-in.ts';
import type { Question } from './questions-of.ts';
import { sameStems, stemOf, stemsOf, wordsOf } from './words.ts';
import { zoneOf } from './zone-of.ts';

export type Arguments = Readonly<Record<string, unknown>>;
type Schema = Readonly<Record<string, unknown>>;

export interface Filled {
  readonly arguments: Arguments;
  /** Required parameters for which the question has no value. */
  readonly missing: readonly string[];
}

/** What a parameter's name says about the value that it takes. The first that fits counts. */
const roles: readonly (readonly [string, ReadonlySet<string>, (question: Question) => unknown])[] = [
  ['expression', sameStems('expression expr formula equation calculation math'), ({ facets }) => facets.expression],
  ['zone', sameStems('zone timezone tz'), ({ facets }) => zoneFor(facets)],
  ['email', sameStems('email mail recipient'), ({ facets }) => facets.email],
  ['url', sameStems('url uri link href website'), ({ facets }) => facets.url],
  ['from', sameStems('from source base'), ({ facets }) => facets.from],
  ['to', sameStems('to target into language'), ({ facets }) => facets.email ?? facets.to],
  ['place', sameStems('city place location town country region where'), ({ facets }) => facets.place],
  ['path', sameStems('path file filename filepath dir directory folder root'), pathFor],
  ['pattern', sameStems('pattern query q search term keyword needle regex symbol glob'), patternFor],
  ['date', sameStems('date day when'), ({ facets }) => facets.date],
  ['id', sameStems('id identifier number ref key code'), ({ facets }) => facets.identifier],
  ['currency', sameStems('currency unit'), ({ facets }) => facets.from],
  [
    'message',
    sameStems('message body text content question prompt input instruction task subject title description note value'),
    ({ facets, text, kind }) => (kind === 'calculate' ? facets.expression : (facets.quoted ?? text)),
  ],
];

/** Values for a tool's parameters out of a question; of the optional ones only those that the question speaks of. */
export function argumentsFor(question: Question, schema: Schema): Filled {
  const required = new Set(Array.isArray(schema['required']) ? schema['required'] : []);
  const numbers = [...question.facets.numbers];
  const filled: Record<string, unknown> = {};
  const missing: string[] = [];
  for (const [name, property] of Object.entries(isObject(schema['properties']) ? schema['properties'] : {})) {
    const given: Parameter = {
      name,
      schema: isObject(property) ? property : {},
      isRequired: required.has(name),
      numbers,
    };
    const value = valueFor(question, given);
    if (value !== undefined) filled[name] = value;
    else if (given.isRequired) missing.push(name);
  }
  return { arguments: filled, missing };
}

interface Parameter {
  readonly name: string;
  readonly schema: Schema;
  readonly isRequired: boolean;
  /** The numbers of the question that no parameter has taken yet. */
  readonly numbers: number[];
}

function valueFor(question: Question, parameter: Parameter): unknown {
  const { schema, isRequired } = parameter;
  if (schema['const'] !== undefined) return schema['const'];
  if (Array.isArray(schema['enum'])) return choiceFor(question, schema['enum'], parameter);
  const type = Array.isArray(schema['type']) ? schema['type'][0] : schema['type'];
  if (type === 'number' || type === 'integer') return numberFor(question, parameter);
  if (type === 'boolean') return booleanFor(question, parameter);
  if (type === 'array') {
    const items = isObject(schema['items']) ? schema['items'] : {};
    const item = valueFor(question, { ...parameter, schema: items });
    return item === undefined ? undefined : [item];
  }
  if (type === 'object') {
    if (!isRequired) return undefined;
    const inner = argumentsFor(question, schema);
    return inner.missing.length === 0 ? inner.arguments : undefined;
  }
  return textFor(question, parameter) ?? (isRequired ? schema['default'] : undefined);
}

function choiceFor({ text }: Question, choices: readonly unknown[], { schema, isRequired }: Parameter): unknown {
  const spoken = stemsOf(text);
  const named = choices.find((choice) => wordsOf(String(choice)).every((word) => spoken.has(stemOf(word))));
  return named ?? (isRequired ? (schema['default'] ?? choices[0]) : undefined);
}

function numberFor(question: Question, { name, schema, isRequired, numbers }: Parameter): unknown {
  const words = wordsOf(name).map(stemOf);
  const counted = words.map((word) => new RegExp(`(\\d+)\\s+${word}`, 'i').exec(question.text)?.[1]).find(Boolean);
  if (counted !== undefined) return Number(counted);
  if (!isRequired) return undefined;
  const { amount } = question.facets;
  if (amount !== undefined && words.some((word) => amountWords.has(word))) return amount;
  return numbers.shift() ?? schema['default'];
}

const amountWords = sameStems('amount value quantity number sum');

function booleanFor({ stems }: Question, { name, schema, isRequired }: Parameter): unknown {
  if (wordsOf(name).some((word) => stems.has(stemOf(word)))) return true;
  return isRequired ? (schema['default'] ?? false) : undefined;
}

function textFor(question: Question, { name, isRequired }: Parameter): unknown {
  const words = wordsOf(name).map(stemOf);
  const role = roles.find(([, stems]) => words.some((word) => stems.has(word)));
  if (role === undefined) return isRequired ? (question.facets.quoted ?? question.facets.identifier) : undefined;
  const [kind, , takenFrom] = role;
  if (!isRequired && (kind === 'message' || kind === 'pattern') && question.kind !== 'search') return undefined;
  return takenFrom(question) ?? (isRequired ? fallbackFor(kind, question) : undefined);
}

function zoneFor({ place }: Facets): string | undefined {
  return place === undefined ? undefined : (zoneOf(place) ?? place);
}

function pathFor({ facets }: Question): string | undefined {
  return facets.path;
}

function patternFor({ facets, kind, text }: Question): string | undefined {
  if (kind === 'calculate') return facets.expression;
  if (kind === 'time') return facets.place;
  return kind === 'search' ? facets.pattern : (facets.quoted ?? text);
}

function fallbackFor(role: string, { kind, facets }: Question): unknown {
  if (role === 'zone') return 'UTC';
  if (role === 'path' && (kind === 'list' || kind === 'search')) return '.';
  return role === 'id' ? facets.numbers[0]?.toString() : undefined;
}
