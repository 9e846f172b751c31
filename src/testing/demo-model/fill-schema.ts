import { isObject } from '../model-server/chat-request.ts';
import type { Question, ValueKind } from './questions.ts';

export type Schema = Readonly<Record<string, unknown>>;

/** Where values come from. */
interface Source {
  /** What a string gets that nothing is named for. */
  readonly text: string;
  /** Numbers that no member has taken yet. */
  readonly numbers: number[];
  /** The value for a member of this name; null where it takes one that the source does not have. */
  named(name: string): unknown;
}

export interface Filled {
  readonly arguments: Readonly<Record<string, unknown>>;
  /** Required parameters for which there is no value. */
  readonly missing: readonly string[];
}

/** Which value of a question a parameter takes, by its name. The first that fits counts. */
const roles: readonly (readonly [RegExp, ValueKind])[] = [
  [/expr|formula/, 'expression'],
  [/city|place|location|country|zone/, 'place'],
  [/mail|recipient/, 'email'],
  [/path|file|folder/, 'path'],
  [/pattern|query|keyword/, 'pattern'],
  [/[^a-z]id$/, 'code'],
];

/** Arguments for a tool out of a question. An optional parameter gets a value only where the question names one. */
export function argumentsFor(question: Question, { properties, required }: Schema): Filled {
  const source: Source = {
    text: question.values.quoted ?? question.text,
    numbers: [...question.numbers],
    named(name) {
      const [, kind] = roles.find(([pattern]) => pattern.test(name.toLowerCase())) ?? [];
      if (kind === undefined) return undefined;
      const value = question.values[kind] ?? null;
      return value !== null && /zone/i.test(name) ? zoneOf(value) : value;
    },
  };
  const [filled, missing]: [Record<string, unknown>, string[]] = [{}, []];
  for (const [name, schema] of Object.entries(isObject(properties) ? properties : {})) {
    const isRequired = Array.isArray(required) && required.includes(name);
    const value = isRequired ? valueFor(name, schema, source) : source.named(name);
    if (value !== undefined && value !== null) filled[name] = value;
    else if (isRequired) missing.push(name);
  }
  return { arguments: filled, missing };
}

/** The IANA zone of a city; any other place is passed on as it is. */
function zoneOf(place: string): string {
  const city = `/${place.replaceAll(' ', '_')}`;
  return Intl.supportedValuesOf('timeZone').find((zone) => zone.endsWith(city)) ?? place;
}

/** A value that a JSON Schema allows: members that a result names by the same key, numbers of the results, else the answer. */
export function fillSchema(schema: Schema, text: string, results: readonly unknown[]): unknown {
  const numbers = results.flatMap((result) => (JSON.stringify(result).match(/-?\d+(?:\.\d+)?/g) ?? []).map(Number));
  const named = (name: string): unknown =>
    results.map((result) => (isObject(result) ? result[name] : undefined)).find((value) => value !== undefined);
  return valueFor('', schema, { text, numbers, named });
}

function valueFor(name: string, given: unknown, source: Source): unknown {
  const schema = isObject(given) ? given : {};
  const { const: constant, enum: choices, anyOf, properties } = schema;
  const type = [schema['type']].flat().find((each) => each !== 'null');
  if (Array.isArray(anyOf)) {
    const option = anyOf.find((each) => isObject(each) && each['type'] !== 'null');
    return valueFor(name, option, source);
  }
  if (constant !== undefined) return constant;
  if (Array.isArray(choices)) return choices.find((choice) => source.text.includes(String(choice))) ?? choices[0];
  const named = source.named(name);
  if (named !== undefined) return named;
  if (isObject(properties))
    return Object.fromEntries(Object.entries(properties).map(([key, value]) => [key, valueFor(key, value, source)]));
  if (type === 'object') return {};
  if (type === 'array') return [valueFor('', schema['items'], source)];
  if (type === 'boolean') return true;
  if (type !== 'number' && type !== 'integer') return source.text;
  const number = Math.max(Number(schema['minimum'] ?? -Infinity), source.numbers.shift() ?? 0);
  return Math.min(Number(schema['maximum'] ?? Infinity), type === 'integer' ? Math.round(number) : number);
}
