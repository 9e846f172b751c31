import { argumentPath } from './json-schema-engine.ts';
import { plainTest } from './plain-schema.ts';

type Schema = Readonly<Record<string, unknown>>;
type Keys = readonly string[];

/**
 * What is wrong with a value, by a schema that `plainTest` has a test for: the sentences that the checks by ajv give, in the order of ajv. Empty for a
 * value that the schema allows.
 */
export function plainProblems(schema: unknown, value: unknown, keys: Keys = []): readonly string[] {
  if (schema === false) return [`${argumentPath(keys)} is not allowed`];
  if (!isObject(schema)) return [];
  const types = schema['type'] === undefined ? [] : [schema['type']].flat();
  const isOfType = types.length === 0 || plainTest({ type: types })?.(value);
  const wrongType = isOfType ? [] : [`${argumentPath(keys)} must be ${types.join(' or ')}`];
  // Where a keyword is about the only type, the problem of the type comes in the place of that keyword.
  const [only] = types.length === 1 ? types : [];
  const late = Object.entries(groups).find(
    ([type, { names }]) => type === only && names.some((name) => name in schema),
  );
  const found = [...(late ? [] : wrongType), ...ofAnyType(schema, value, keys)];
  for (const [type, { problems }] of Object.entries(groups)) {
    if (plainTest({ type })?.(value)) found.push(...problems(schema, value, keys));
    else if (late?.[0] === type) found.push(...wrongType);
  }
  return found;
}

interface Group {
  readonly names: readonly string[];
  readonly problems: (schema: Schema, value: unknown, keys: Keys) => readonly string[];
}

/** The limits of a type in the order of their checks, with the sentence for each. */
const numbers = { maximum: '<=', minimum: '>=', exclusiveMaximum: '<', exclusiveMinimum: '>' };
const texts = { maxLength: 'more than # characters', minLength: 'fewer than # characters' };
const lengths = { maxItems: 'more than # items', minItems: 'fewer than # items' };

/** By type: the keywords that are about it. */
const groups: Readonly<Record<string, Group>> = {
  number: {
    names: [...Object.keys(numbers), 'format'],
    problems: (schema, value, keys) =>
      ofLimits(schema, { value, keys }, numbers, (operator, limit) => `must be ${operator} ${limit}`),
  },
  string: {
    names: [...Object.keys(texts), 'format'],
    problems: (schema, value, keys) => ofLimits(schema, { value, keys }, texts, notHave),
  },
  array: {
    names: [...Object.keys(lengths), 'items'],
    problems: (schema, value, keys) => [
      ...ofLimits(schema, { value, keys }, lengths, notHave),
      ...[value].flat().flatMap((item, index) => plainProblems(schema['items'], item, [...keys, String(index)])),
    ],
  },
  object: { names: ['required', 'additionalProperties', 'properties'], problems: ofObject },
};

function notHave(what: string, limit: unknown): string {
  return `must NOT have ${what.replace('#', String(limit))}`;
}

function ofLimits(
  schema: Schema,
  { value, keys }: { readonly value: unknown; readonly keys: Keys },
  limits: Readonly<Record<string, string>>,
  sentence: (words: string, limit: unknown) => string,
): readonly string[] {
  return Object.entries(limits).flatMap(([name, words]) =>
    schema[name] === undefined || plainTest({ [name]: schema[name] })?.(value)
      ? []
      : [`${argumentPath(keys)} ${sentence(words, schema[name])}`],
  );
}

function ofAnyType(schema: Schema, value: unknown, keys: Keys): readonly string[] {
  const { const: only, enum: allowed, anyOf, allOf } = schema;
  const found: string[] = [];
  if (only !== undefined && value !== only) found.push(`${argumentPath(keys)} must be ${JSON.stringify(only)}`);
  if (Array.isArray(allowed) && !allowed.includes(value))
    found.push(`${argumentPath(keys)} must be one of ${JSON.stringify(allowed)}`);
  // Each branch once: to test the value by a schema before it is asked for its problems would take twice the time at each level.
  const branches = Array.isArray(anyOf) ? anyOf.map((each) => plainProblems(each, value, keys)) : [];
  if (branches.length > 0 && branches.every((problems) => problems.length > 0))
    found.push(...branches.flat(), `${argumentPath(keys)} must match a schema in anyOf`);
  if (Array.isArray(allOf)) found.push(...allOf.flatMap((each) => plainProblems(each, value, keys)));
  return found;
}

function ofObject({ required, additionalProperties: others, properties }: Schema, value: unknown, keys: Keys) {
  if (!isObject(value)) return [];
  const known = isObject(properties) ? properties : {};
  const names = Array.isArray(required) ? required.map(String) : [];
  const missing = names.filter((name) => !has(value, name));
  const unknown = others === undefined ? [] : Object.keys(value).filter((name) => !Object.hasOwn(known, name));
  return [
    ...missing.map((name) => `${argumentPath([...keys, name])} is required`),
    ...unknown.flatMap((name) =>
      others === false
        ? [`${argumentPath([...keys, name])} is not a known argument`]
        : plainProblems(others, value[name], [...keys, name]),
    ),
    ...Object.entries(known).flatMap(([name, schema]) =>
      has(value, name) ? plainProblems(schema, value[name], [...keys, name]) : [],
    ),
  ];
}

function has(value: Schema, name: string): boolean {
  return Object.hasOwn(value, name) && value[name] !== undefined;
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
