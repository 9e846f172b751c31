import type { JSONSchema } from '../../../core/contracts/index.ts';

export type ScalarType = 'string' | 'number' | 'integer' | 'boolean' | 'null';

/** What a value can be by its schema: alternatives (`anyOf`, `oneOf`) and parts (`allOf`) are laid one over the other. */
export interface Shape {
  /** The schemas of the members by name; absent where the value cannot be an object. */
  readonly members?: ReadonlyMap<string, JSONSchema>;
  /** The names of the members by their form in lower case. */
  readonly names: ReadonlyMap<string, string>;
  /** The schema of members that are not named. */
  readonly otherMembers?: JSONSchema;
  /** The schema of the entries; absent where the value cannot be a list. */
  readonly entries?: JSONSchema;
  readonly scalars: ReadonlySet<ScalarType>;
  /** The only values there are (`enum`, `const`). */
  readonly values?: readonly unknown[];
  readonly description?: string;
}

const scalarTypes: readonly ScalarType[] = ['string', 'number', 'integer', 'boolean', 'null'];

/** The shape of a schema; `root` is the document in which its `$ref`s (`#/…`) are looked up. */
export function shapeOf(schema: JSONSchema, root: JSONSchema): Shape {
  const parts = partsOf(schema, root);
  const members = membersOf(parts);
  const otherMembers = anyOf(parts.map((part) => part['additionalProperties']).filter(isSchema));
  const entries = anyOf(parts.flatMap((part) => [part['items'], ...listIn(part['prefixItems'])]).filter(isSchema));
  const isObject = members.size > 0 || otherMembers !== undefined || parts.some((part) => allows(part, 'object'));
  const isList = entries !== undefined || parts.some((part) => allows(part, 'array'));
  const values = parts.flatMap((part) => ('const' in part ? [part['const']] : listIn(part['enum'])));
  const description = parts.map((part) => part['description']).find((text) => typeof text === 'string');
  return {
    ...(isObject ? { members } : {}),
    names: new Map([...members.keys()].map((name) => [name.toLowerCase(), name])),
    ...(otherMembers === undefined ? {} : { otherMembers }),
    ...(isList ? { entries: entries ?? {} } : {}),
    scalars: scalarsOf(parts, isObject || isList),
    ...(values.length === 0 ? {} : { values }),
    ...(description === undefined ? {} : { description }),
  };
}

/** The schema, what it refers to, and its alternatives and parts, all without end where they lead back. */
function partsOf(schema: JSONSchema, root: JSONSchema, seen: Set<JSONSchema> = new Set()): readonly JSONSchema[] {
  if (seen.has(schema)) return [];
  seen.add(schema);
  const next = [...listIn(schema['anyOf']), ...listIn(schema['oneOf']), ...listIn(schema['allOf'])];
  const target = typeof schema['$ref'] === 'string' ? resolve(schema['$ref'], root) : undefined;
  return [schema, ...[target, ...next].filter(isSchema).flatMap((each) => partsOf(each, root, seen))];
}

function resolve(reference: string, root: JSONSchema): unknown {
  if (!reference.startsWith('#')) return undefined;
  const keys = decodeURI(reference.slice(1)).split('/').slice(1);
  return keys.reduce<unknown>(
    (at, key) => (isSchema(at) ? at[key.replaceAll('~1', '/').replaceAll('~0', '~')] : undefined),
    root,
  );
}

function membersOf(parts: readonly JSONSchema[]): Map<string, JSONSchema> {
  const members = new Map<string, JSONSchema>();
  for (const part of parts) {
    for (const [name, schema] of Object.entries(isSchema(part['properties']) ? part['properties'] : {})) {
      const known = members.get(name);
      members.set(name, anyOf([...(known ? [known] : []), isSchema(schema) ? schema : {}]) ?? {});
    }
  }
  return members;
}

/** What is not said can be any scalar, unless the schema speaks of objects or lists. */
function scalarsOf(parts: readonly JSONSchema[], isContainer: boolean): ReadonlySet<ScalarType> {
  const named = scalarTypes.filter((type) => parts.some((part) => allows(part, type)));
  const any = named.length === 0 && !isContainer && !parts.some((part) => 'type' in part);
  return new Set(any ? scalarTypes : named);
}

function allows(schema: JSONSchema, type: string): boolean {
  return [schema['type']].flat().includes(type);
}

function anyOf(schemas: readonly JSONSchema[]): JSONSchema | undefined {
  return schemas.length > 1 ? { anyOf: schemas } : schemas[0];
}

function listIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isSchema(value: unknown): value is JSONSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
