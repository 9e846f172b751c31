import { AgentLoopError, isObject, type JSONSchema, jsonFlaw } from '../../../core/contracts/index.ts';

/** The element of an array entry. */
export const itemName = 'item';

/** The element of a member whose name is not a valid XML name; its attribute `name` has it. */
export const entryName = 'entry';

/** The opening and closing tag of a member. `attributes`: escaped, with a leading space. */
function tagsAround(member: string, attributes = ''): { readonly open: string; readonly close: string } {
  if (isElementName(member)) return { open: `<${member}${attributes}>`, close: `</${member}>` };
  return { open: `<${entryName} name="${escapeAttribute(member)}"${attributes}>`, close: `</${entryName}>` };
}

function isElementName(member: string): boolean {
  return /^[\p{L}_][\p{L}\p{N}_.-]*$/u.test(member);
}

/**
 * Writes a JSON value as indented XML: a member is an element of its name, an array entry an `<item>`, `null` the text `null`; a name that is
 * not valid in XML becomes `<entry name="…">`. Omits members that are `undefined`. `parseXml` reads it back. Throws `INVALID_INPUT` if the
 * value is not JSON.
 */
export function toXml(value: unknown, rootName = 'input'): string {
  const flaw = jsonFlaw(value, rootName);
  if (flaw !== undefined) {
    throw new AgentLoopError('INVALID_INPUT', `${flaw}, which XML cannot hold; give plain JSON values.`);
  }
  return linesOf(rootName, value).join('\n');
}

function linesOf(name: string, value: unknown): readonly string[] {
  const { open, close } = tagsAround(name);
  if (typeof value !== 'object' || value === null) return [`${open}${escapeText(String(value))}${close}`];
  const inside = childrenOf(value).flatMap(([child, each]) => linesOf(child, each));
  return inside.length === 0 ? [`${open}${close}`] : [open, ...inside.map((line) => `  ${line}`), close];
}

function childrenOf(value: object): readonly (readonly [string, unknown])[] {
  if (Array.isArray(value)) return value.map((entry) => [itemName, entry]);
  return Object.entries(value).filter(([, member]) => member !== undefined);
}

/**
 * Escapes the text of an element. White space at its ends and control characters become character references, so that trimming does not
 * remove them.
 */
export function escapeText(text: string): string {
  const body = text.trim();
  const begin = text.length - text.trimStart().length;
  const blanks = (from: number, to?: number) => text.slice(from, to).replace(/[\s\S]/g, asReference);
  const written = body.replace(/[&<>]/g, (character) => entities[character] ?? character).replace(unsafe, asReference);
  return blanks(0, begin) + written + blanks(begin + body.length);
}

/** Escapes the value of an attribute in double quotes. */
function escapeAttribute(text: string): string {
  return text
    .replace(/[&<>"]/g, (character) => entities[character] ?? character)
    .replace(/\s|[^ -\uffff]/g, (unit) => (unit === ' ' ? unit : asReference(unit)));
}

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

/** All control characters except tab and line feed. */
const unsafe = /[^\t\n\u0020-\u007e\u00a0-\uffff]/g;

function asReference(character: string): string {
  return `&#${character.charCodeAt(0)};`;
}

/** The maximum depth of a template: a schema may be recursive. */
const maxDepth = 8;

/**
 * An XML template of a JSON Schema for a model to fill in: one element for each property, with its description, and its values unless any
 * string is allowed, as the attribute `description`. An array has one `<item>`, an object of additional properties one `<entry name="…">`. At most
 * 8 levels deep. `parseXml` reads the filled template.
 */
export function xmlTemplate(jsonSchema: JSONSchema, rootName = 'output'): string {
  return templateLines(rootName, jsonSchema, { root: jsonSchema, depth: 0 }).join('\n');
}

interface Place {
  readonly root: JSONSchema;
  readonly depth: number;
}

function templateLines(name: string, schema: JSONSchema, { root, depth }: Place): readonly string[] {
  const shape = shapeOf(schema, root);
  const description = descriptionOf(shape);
  const { open, close } = tagsAround(name, description && ` description="${escapeAttribute(description)}"`);
  const children = depth < maxDepth ? membersOfShape(shape) : [];
  const inside = children.flatMap(([child, each]) => templateLines(child, each, { root, depth: depth + 1 }));
  return inside.length === 0 ? [`${open}${close}`] : [open, ...inside.map((line) => `  ${line}`), close];
}

function membersOfShape({ members, otherMembers, entries }: Shape): readonly (readonly [string, JSONSchema])[] {
  if (members && members.size > 0) return [...members];
  if (otherMembers) return [['…', otherMembers]];
  return entries ? [[itemName, entries]] : [];
}

function descriptionOf(shape: Shape): string {
  const values = valuesOf(shape);
  if (shape.description === undefined) return values;
  return values === '' ? shape.description : `${shape.description} (${values})`;
}

function valuesOf({ values, members, otherMembers, entries, scalars }: Shape): string {
  if (values) return `one of: ${values.map(String).join(', ')}`;
  if (members) return otherMembers && members.size === 0 ? `one ${entryName} element for each name` : '';
  if (entries) return `a list: one ${itemName} element for each entry`;
  if (scalars.has('string')) return '';
  if (scalars.has('number')) return 'a number';
  if (scalars.has('integer')) return 'a whole number';
  return scalars.has('boolean') ? 'true or false' : '';
}

export type ScalarType = 'string' | 'number' | 'integer' | 'boolean' | 'null';

/** The values that a schema allows. Alternatives (`anyOf`, `oneOf`) and parts (`allOf`) are merged. */
export interface Shape {
  /** The schemas of the members by name; absent if the value cannot be an object. */
  readonly members?: ReadonlyMap<string, JSONSchema>;
  /** The names of the members by their lower-case form. */
  readonly names: ReadonlyMap<string, string>;
  /** The schema of additional properties. */
  readonly otherMembers?: JSONSchema;
  /** The schema of the entries; absent if the value cannot be an array. */
  readonly entries?: JSONSchema;
  readonly scalars: ReadonlySet<ScalarType>;
  /** The allowed values (`enum`, `const`). */
  readonly values?: readonly unknown[];
  readonly description?: string;
}

const scalarTypes: readonly ScalarType[] = ['string', 'number', 'integer', 'boolean', 'null'];

/** The shape of a schema. `root`: the document of its `$ref`s (`#/…`). */
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

/** The schema, its `$ref` target, its alternatives and parts, recursively, each once. */
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

/** The scalar types of a schema: all, if it has no `type` and describes neither an object nor an array. */
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
  return isObject(value);
}
