import { isObject, type JSONSchema } from '../../core/contracts/index.ts';
import { described, jsonText, listOf, mapOf, stringsOf, typesOf, without } from './schema-node.ts';

interface Merged {
  readonly node: JSONSchema;
  readonly effect: 'same' | 'loose';
}

/** How two values of one keyword become one where both schemas count. What has no rule and differs keeps the first. */
const together: Readonly<Record<string, (one: unknown, other: unknown) => unknown>> = {
  required: (one, other) => [...new Set([...stringsOf(one), ...stringsOf(other)])],
  properties: (one, other) => {
    const [all, more] = [mapOf(one), mapOf(other)];
    const added = Object.entries(more).map(([name, schema]) => [
      name,
      Object.hasOwn(all, name) && isObject(all[name]) && isObject(schema) ? merged(all[name], schema).node : schema,
    ]);
    return { ...all, ...Object.fromEntries(added) };
  },
  $defs: (one, other) => ({ ...mapOf(other), ...mapOf(one) }),
  definitions: (one, other) => ({ ...mapOf(other), ...mapOf(one) }),
  type: (one, other) => {
    const [all, more] = [typesOf({ type: one }), typesOf({ type: other })];
    const both = all.filter((each) => more.includes(each) || (each === 'integer' && more.includes('number')));
    if (both.length === 0 && all.includes('number') && more.includes('integer')) return 'integer';
    if (both.length === 0) return one;
    return both.length === 1 ? both[0] : both;
  },
  enum: (one, other) => {
    const more = new Set(listOf(other).map(jsonText));
    const both = listOf(one).filter((each) => more.has(jsonText(each)));
    return both.length > 0 ? both : one;
  },
  description: (one, other) => described({ description: one }, String(other))['description'],
  ...Object.fromEntries(
    ['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'].map((keyword) => [
      keyword,
      (one: unknown, other: unknown) => Math.max(Number(one), Number(other)),
    ]),
  ),
  ...Object.fromEntries(
    ['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'].map((keyword) => [
      keyword,
      (one: unknown, other: unknown) => Math.min(Number(one), Number(other)),
    ]),
  ),
};

/** One schema for what fits both. What cannot be said in one is left out, or said by the first alone. */
export function merged(one: JSONSchema, other: JSONSchema): Merged {
  let effect: Merged['effect'] = 'same';
  const next: Record<string, unknown> = { ...one };
  for (const [keyword, value] of Object.entries(other)) {
    const rule = together[keyword];
    if (!Object.hasOwn(one, keyword)) next[keyword] = value;
    else if (rule) next[keyword] = rule(one[keyword], value);
    else if (jsonText(one[keyword]) !== jsonText(value)) effect = 'loose';
  }
  const isClosed = (schema: JSONSchema) => schema['additionalProperties'] === false;
  // Closed, each of both would refuse the properties of the other.
  const hasBoth = 'properties' in one && 'properties' in other;
  if (hasBoth && isClosed(one) !== isClosed(other))
    return { node: without(next, 'additionalProperties'), effect: 'loose' };
  return { node: next, effect: hasBoth ? 'loose' : effect };
}

/** One object for an object with branches: the properties of all, required what each branch requires. */
export function joined(base: JSONSchema, branches: readonly JSONSchema[], keyword: string): JSONSchema {
  const objects = branches.filter((branch) => branch['type'] === undefined || typesOf(branch).includes('object'));
  const names = [...new Set(objects.flatMap((branch) => Object.keys(mapOf(branch['properties']))))];
  const ofBase = mapOf(base['properties']);
  const added = names
    .filter((name) => !Object.hasOwn(ofBase, name))
    .map(
      (name) => [name, either(objects.map((branch) => mapOf(branch['properties'])[name]).filter(isObject))] as const,
    );
  const requirements = objects.map((branch) => stringsOf(branch['required']));
  const shared = (requirements[0] ?? []).filter((name) => requirements.every((each) => each.includes(name)));
  const required = [...new Set([...stringsOf(base['required']), ...shared])];
  const { additionalProperties, ...rest } = base;
  const isClosed = additionalProperties === false || objects.some((each) => each['additionalProperties'] === false);
  const canClose = isClosed && objects.every((each) => each['additionalProperties'] === false);
  const next: JSONSchema = {
    ...rest,
    properties: { ...ofBase, ...Object.fromEntries(added) },
    ...(required.length > 0 && { required }),
    ...(canClose && { additionalProperties: false }),
    ...(!canClose && isObject(additionalProperties) && { additionalProperties }),
  };
  const note = choiceText(objects, keyword);
  return note === undefined ? next : described(next, note);
}

/** What the branches require, for the model. */
function choiceText(branches: readonly JSONSchema[], keyword: string): string | undefined {
  const sets = branches.map((branch) => {
    const { properties, required } = branch;
    const fixed = Object.entries(mapOf(properties)).flatMap(([name, schema]) =>
      isObject(schema) && 'const' in schema ? [`${name} ${jsonText(schema['const'])}`] : [],
    );
    const others = stringsOf(required).filter((name) => !fixed.some((each) => each.startsWith(`${name} `)));
    return [...fixed, ...others].join(' with ') || 'nothing else';
  });
  if (sets.length < 2 || new Set(sets).size < 2) return undefined;
  return `Give ${keyword === 'oneOf' ? 'exactly' : 'at least'} one of: ${sets.join('; ')}`;
}

function either(schemas: readonly JSONSchema[]): JSONSchema {
  const different = [...new Map(schemas.map((schema) => [jsonText(schema), schema])).values()];
  if (different.length <= 1) return different[0] ?? {};
  const values = different.map((schema) => ('const' in schema ? [schema['const']] : schema['enum']));
  if (values.every(Array.isArray) && different.every(isChoice)) {
    const all = [...new Map(values.flat().map((each) => [jsonText(each), each])).values()];
    const types = [...new Set(different.flatMap(typesOf))];
    return { ...(types.length === 1 && { type: types[0] }), enum: all };
  }
  return { anyOf: different };
}

/** Whether a schema is nothing but its values. */
function isChoice(schema: JSONSchema): boolean {
  return Object.keys(without(schema, 'const', 'enum', 'type', 'description', 'title', 'default')).length === 0;
}

const isNull = { type: 'null' };

/** The schema, or null. */
export function nullable(schema: JSONSchema): JSONSchema {
  if (acceptsNull(schema)) return schema;
  const { type, anyOf, oneOf, description } = schema;
  const isPlain = !('const' in schema || '$ref' in schema || 'allOf' in schema || 'not' in schema);
  if (isPlain && Array.isArray(anyOf) && !('enum' in schema) && type === undefined && oneOf === undefined)
    return { ...schema, anyOf: [...anyOf, isNull] };
  if (isPlain && type !== undefined && anyOf === undefined && oneOf === undefined) {
    const { enum: values } = schema;
    return { ...schema, type: [...typesOf(schema), 'null'], ...(Array.isArray(values) && { enum: [...values, null] }) };
  }
  if (Object.keys(without(schema, 'description', 'title', 'default')).length === 0) return schema;
  const words = description === undefined ? {} : { description };
  return { ...words, anyOf: [without(schema, 'description'), isNull] };
}

function acceptsNull(schema: JSONSchema): boolean {
  const { anyOf, enum: values } = schema;
  if (Array.isArray(values)) return values.includes(null) && (!('type' in schema) || typesOf(schema).includes('null'));
  if (typesOf(schema).includes('null')) return true;
  return !('type' in schema) && Array.isArray(anyOf) && anyOf.some((branch) => isObject(branch) && acceptsNull(branch));
}
