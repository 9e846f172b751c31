import { isObject } from '../model-server/chat-request.ts';
import { entriesIn, nameOfEntry, type Outcome } from './outcome-of.ts';

/** What a value can be made of. */
export interface Material {
  /** The answer in prose. */
  readonly text: string;
  readonly outcomes: readonly Outcome[];
}

type Schema = Readonly<Record<string, unknown>>;

/**
 * A value that a JSON Schema allows, made as well as can be of what is known: members that the results name by the same
 * key, numbers out of the results, and the answer where a string is expected.
 */
export function fillSchema(schema: Schema, material: Material): unknown {
  return valueFor('', schema, { ...material, root: schema, numbers: numbersIn(material.outcomes) });
}

interface Filling extends Material {
  readonly root: Schema;
  /** Numbers that no member has taken yet. */
  readonly numbers: number[];
}

function valueFor(key: string, given: Schema, filling: Filling): unknown {
  const schema = plainSchema(given, filling.root);
  const type = Array.isArray(schema['type']) ? schema['type'].find((name) => name !== 'null') : schema['type'];
  const known = knownValue(key, filling.outcomes);
  if (schema['const'] !== undefined) return schema['const'];
  if (Array.isArray(schema['enum'])) return choiceFrom(schema['enum'], known, filling);
  if (known !== undefined && hasType(known, type)) return known;
  if (type === 'object' || isObject(schema['properties'])) return objectFor(schema, filling);
  if (type === 'array') return listFor(key, schema, filling);
  if (type === 'number' || type === 'integer') return numberFor(schema, filling);
  if (type === 'boolean') return filling.outcomes.every(({ error }) => error === undefined);
  if (type === 'null') return null;
  return filling.text;
}

/** With a reference into the same document followed, and the first of several alternatives taken. */
function plainSchema(schema: Schema, root: Schema): Schema {
  const reference = schema['$ref'];
  if (typeof reference === 'string' && reference.startsWith('#/')) {
    const target = reference
      .slice(2)
      .split('/')
      .reduce<unknown>((value, key) => (isObject(value) ? value[key] : undefined), root);
    return isObject(target) ? target : {};
  }
  const alternatives = schema['anyOf'] ?? schema['oneOf'];
  if (!Array.isArray(alternatives)) return schema;
  const first = alternatives.find((option) => isObject(option) && option['type'] !== 'null');
  return isObject(first) ? plainSchema(first, root) : {};
}

function objectFor(schema: Schema, filling: Filling): object {
  const properties = isObject(schema['properties']) ? schema['properties'] : {};
  const members = Object.entries(properties).map(([name, property]) => [
    name,
    valueFor(name, isObject(property) ? property : {}, filling),
  ]);
  return Object.fromEntries(members);
}

function listFor(key: string, schema: Schema, filling: Filling): readonly unknown[] {
  const items = isObject(schema['items']) ? plainSchema(schema['items'], filling.root) : {};
  if (items['type'] === 'number' || items['type'] === 'integer') return filling.numbers.splice(0);
  if (items['type'] !== 'string' || Array.isArray(items['enum'])) return [valueFor(key, items, filling)];
  const entries = filling.outcomes.map(entriesIn).find((list) => list.length > 1);
  return entries?.map(nameOfEntry) ?? [filling.text];
}

function numberFor(schema: Schema, { numbers }: Filling): number {
  const least = typeof schema['minimum'] === 'number' ? schema['minimum'] : 0;
  const most = typeof schema['maximum'] === 'number' ? schema['maximum'] : Number.POSITIVE_INFINITY;
  const number = Math.min(most, Math.max(least, numbers.shift() ?? 0));
  return schema['type'] === 'integer' ? Math.round(number) : number;
}

function choiceFrom(choices: readonly unknown[], known: unknown, { text }: Filling): unknown {
  if (choices.includes(known)) return known;
  return choices.find((choice) => text.toLowerCase().includes(String(choice).toLowerCase())) ?? choices[0];
}

function knownValue(key: string, outcomes: readonly Outcome[]): unknown {
  for (const { value } of outcomes) if (isObject(value) && value[key] !== undefined) return value[key];
  return undefined;
}

function hasType(value: unknown, type: unknown): boolean {
  if (type === 'array') return Array.isArray(value);
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'object') return isObject(value);
  return typeof value === (type ?? 'string');
}

function numbersIn(outcomes: readonly Outcome[]): number[] {
  return outcomes.flatMap(({ text }) => (text.match(/-?\d+(?:\.\d+)?/g) ?? []).map(Number));
}
