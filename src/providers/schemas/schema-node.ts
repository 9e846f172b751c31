import { isObject, type JSONSchema } from '../../core/contracts/index.ts';

/** How a keyword holds schemas: by name, as an array, or one. */
const holders: ReadonlyMap<string, 'map' | 'list' | 'one'> = new Map([
  ...(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'] as const).map(
    (keyword) => [keyword, 'map'] as const,
  ),
  ...(['anyOf', 'oneOf', 'allOf', 'prefixItems'] as const).map((keyword) => [keyword, 'list'] as const),
  ...['items', 'not', 'if', 'then', 'else', 'contains', 'propertyNames', 'contentSchema'].map(
    (keyword) => [keyword, 'one'] as const,
  ),
  ...['additionalProperties', 'unevaluatedProperties', 'unevaluatedItems', 'additionalItems'].map(
    (keyword) => [keyword, 'one'] as const,
  ),
]);

/** Keywords that may be a boolean at every vendor. */
export const switches: ReadonlySet<string> = new Set([
  'additionalProperties',
  'unevaluatedProperties',
  'unevaluatedItems',
  'additionalItems',
]);

/** Keywords that describe a value and restrict none. */
export const annotations: ReadonlySet<string> = new Set([
  ...['title', 'description', 'examples', 'example', 'deprecated', 'readOnly', 'writeOnly', 'propertyOrdering'],
  ...['$schema', '$id', 'id', '$comment', '$anchor', '$defs', 'definitions', '$vocabulary'],
]);

/** A schema held by another. */
interface Held {
  readonly keyword: string;
  /** The name or index; absent where the keyword holds one schema. */
  readonly key?: string;
  readonly value: unknown;
}

/** All that stands where a schema holds schemas, well-formed or not. */
export function heldBy(node: JSONSchema): readonly Held[] {
  return Object.entries(node).flatMap(([keyword, value]): readonly Held[] => {
    const holder = holders.get(keyword);
    if (holder === 'one') return [{ keyword, value }];
    if (holder === 'map' && isObject(value))
      return Object.entries(value).map(([key, inner]) => ({ keyword, key, value: inner }));
    if (holder === 'list' && Array.isArray(value))
      return value.map((inner: unknown, index) => ({ keyword, key: String(index), value: inner }));
    return [];
  });
}

/** The schema with other schemas in it; `undefined` leaves one out. The same object if nothing differs. */
export function withHeld(node: JSONSchema, next: (held: Held) => unknown): JSONSchema {
  let changed = false;
  const mapped = (held: Held): unknown => {
    const value = next(held);
    changed ||= value !== held.value;
    return value;
  };
  const entries = Object.entries(node).map(([keyword, value]): readonly [string, unknown] => {
    const holder = holders.get(keyword);
    if (holder === 'one') return [keyword, mapped({ keyword, value })];
    if (holder === 'map' && isObject(value)) {
      const inner = Object.entries(value).map(([key, each]) => [key, mapped({ keyword, key, value: each })] as const);
      return [keyword, Object.fromEntries(inner.filter(([, each]) => each !== undefined))];
    }
    if (holder === 'list' && Array.isArray(value)) {
      const inner = value.map((each: unknown, index) => mapped({ keyword, key: String(index), value: each }));
      return [keyword, inner.filter((each) => each !== undefined)];
    }
    return [keyword, value];
  });
  return changed ? Object.fromEntries(entries.filter(([, value]) => value !== undefined)) : node;
}

/** The schema without some keywords. */
export function without(node: JSONSchema, ...keywords: readonly string[]): JSONSchema {
  return Object.fromEntries(Object.entries(node).filter(([keyword]) => !keywords.includes(keyword)));
}

export function typesOf({ type }: JSONSchema): readonly string[] {
  return (Array.isArray(type) ? type : [type]).filter((each) => typeof each === 'string');
}

export function mapOf(value: unknown): JSONSchema {
  return isObject(value) ? value : {};
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function stringsOf(value: unknown): readonly string[] {
  return listOf(value).filter((each) => typeof each === 'string');
}

/** The most characters of one sentence about what a schema says. */
const longestNote = 400;

/** The schema with one more sentence in its description. */
export function described(node: JSONSchema, note: string): JSONSchema {
  const { description } = node;
  const before = typeof description === 'string' ? description : '';
  const short = shortened(note, longestNote);
  if (before.includes(short)) return node;
  return { ...node, description: before === '' ? short : `${before.trimEnd()} (${short})` };
}

/** A string of at most so many characters, truncated after a word. */
export function shortened(text: string, max: number): string {
  if (text.length <= max) return text;
  const cut = text.slice(0, Math.max(0, max - 1)).replace(/[\uD800-\uDBFF]$/, '');
  const space = cut.search(/\s\S*$/);
  return `${(space > max / 2 ? cut.slice(0, space) : cut).trimEnd()}…`;
}

/** JSON for a description; what nests too deep for JSON has none. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? '';
  } catch {
    return '…';
  }
}

/** What a JSON pointer in a fragment leads to, `#` being the whole document. */
export function target(document: JSONSchema, reference: string): JSONSchema | undefined {
  if (!/^#(\/|$)/.test(reference)) return undefined;
  let found: unknown = document;
  for (const step of reference.split('/').slice(1)) {
    const key = decoded(step).replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined;
    found = Reflect.get(found, key);
  }
  if (found === true) return {};
  return isObject(found) ? found : undefined;
}

function decoded(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

export function pointer(...keys: readonly string[]): string {
  return ['#', ...keys.map((key) => key.replaceAll('~', '~0').replaceAll('/', '~1'))].join('/');
}
