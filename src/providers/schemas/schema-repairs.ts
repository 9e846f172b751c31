import { isObject, type JSONSchema } from '../../core/contracts/index.ts';
import type { SchemaRules } from './schema-dialects.ts';
import { joined, merged, nullable } from './schema-joins.ts';
import {
  annotations,
  described,
  heldBy,
  jsonText,
  listOf,
  mapOf,
  stringsOf,
  switches,
  target,
  typesOf,
  withHeld,
  without,
} from './schema-node.ts';

/** Where a schema stands. */
export interface Place {
  readonly rules: SchemaRules;
  /** Where references lead. */
  readonly document: JSONSchema;
  /** The keywords and names from the root. */
  readonly path: readonly string[];
  /** How many objects and arrays are around it. */
  readonly depth: number;
  /** The references that were replaced by their targets around it. */
  readonly through: readonly string[];
  /** References that lead back to themselves. */
  readonly recursive: ReadonlySet<string>;
}

/** What a repair does to the meaning: nothing, it accepts more, or it no longer accepts all. */
export type Effect = 'same' | 'loose' | 'narrow';

interface Repaired {
  readonly node: JSONSchema;
  readonly effect: Effect;
  /** What was done, for an event. */
  readonly change: string;
  /** The reference that was replaced by its target. */
  readonly through?: string;
}

interface Repair {
  /** What a vendor refuses in a schema; `undefined` if nothing. */
  readonly flaw: (node: JSONSchema, place: Place) => string | undefined;
  readonly mend: (node: JSONSchema, place: Place) => Repaired;
}

const isRoot = ({ path }: Place): boolean => path.length === 0;
const isText = (value: unknown): boolean => typeof value === 'string';
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0;
const isSwitch = (value: unknown): boolean => typeof value === 'boolean';
const isFilledList = (value: unknown): boolean => Array.isArray(value) && value.length > 0;
const isSchema = (value: unknown): boolean => isObject(value) || typeof value === 'boolean';
const types: readonly unknown[] = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'];
const isNames = (value: unknown): boolean =>
  Array.isArray(value) && value.every(isText) && new Set(value).size === value.length;

function isType(value: unknown): boolean {
  if (!Array.isArray(value)) return types.includes(value);
  return value.length > 0 && new Set(value).size === value.length && value.every((each) => types.includes(each));
}

function isPattern(value: unknown): boolean {
  if (typeof value !== 'string') return false;
  for (const flags of ['u', '']) {
    try {
      new RegExp(value, flags);
      return true;
    } catch {}
  }
  return false;
}

const shapeOf = (keywords: readonly string[], fits: (value: unknown) => boolean) =>
  keywords.map((keyword) => [keyword, fits] as const);

/** What each keyword of JSON Schema may have as its value. No vendor takes another. */
const shapes: ReadonlyMap<string, (value: unknown) => boolean> = new Map([
  ...shapeOf(['title', 'description', 'format', '$schema', '$id', '$comment', '$anchor', '$ref'], isText),
  ...shapeOf(['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'], isCount),
  ...shapeOf(['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'], Number.isFinite),
  ...shapeOf(['uniqueItems', 'readOnly', 'writeOnly', 'deprecated', 'nullable'], isSwitch),
  ...shapeOf(
    ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependentRequired'],
    isObject,
  ),
  ...shapeOf(['anyOf', 'oneOf', 'allOf', 'prefixItems', 'enum'], isFilledList),
  ...shapeOf(['additionalProperties', 'unevaluatedProperties', 'unevaluatedItems', 'additionalItems'], isSchema),
  ...shapeOf(['items', 'not', 'if', 'then', 'else', 'contains', 'propertyNames', 'contentSchema'], isSchema),
  ...shapeOf(['required'], isNames),
  ...shapeOf(['type'], isType),
  ...shapeOf(['pattern'], isPattern),
  ...shapeOf(['multipleOf'], (value) => typeof value === 'number' && Number.isFinite(value) && value > 0),
  ...shapeOf(['examples'], Array.isArray),
]);

/** What is left of a malformed value. */
const rests: Readonly<Record<string, (value: unknown) => unknown>> = {
  required: (value) => (Array.isArray(value) ? [...new Set(stringsOf(value))] : undefined),
  type: (value) => {
    const known = [...new Set(listOf(value))].filter((each) => types.includes(each));
    return known.length > 0 ? known : undefined;
  },
};

const malformed: Repair = {
  flaw: (node) => {
    const keyword = Object.keys(node).find((each) => shapes.get(each)?.(node[each]) === false);
    return keyword && `"${keyword}" is malformed`;
  },
  mend: (node) => {
    const wrong = Object.keys(node).filter((each) => shapes.get(each)?.(node[each]) === false);
    const kept = wrong.map((keyword) => [keyword, rests[keyword]?.(node[keyword])] as const);
    return {
      node: { ...without(node, ...wrong), ...Object.fromEntries(kept.filter(([, rest]) => rest !== undefined)) },
      effect: 'loose',
      change: `malformed ${wrong.join(', ')} left out`,
    };
  },
};

const booleans: Repair = {
  flaw: (node) => {
    const found = heldBy(node).find(({ keyword, value }) => !isObject(value) && !isKept(keyword, value));
    return found && `"${found.keyword}" has something else than an object as a schema`;
  },
  mend: (node) => ({
    node: withHeld(node, ({ keyword, value }) => {
      if (isObject(value) || isKept(keyword, value)) return value;
      return value === false ? undefined : {};
    }),
    effect: 'loose',
    change: 'boolean schemas were written as objects or left out',
  }),
};

function isKept(keyword: string, value: unknown): boolean {
  return switches.has(keyword) && typeof value === 'boolean';
}

const tuple: Repair = {
  flaw: (node, { rules }) => {
    if (Array.isArray(node['items'])) return '"items" is an array';
    return 'prefixItems' in node && !allows(rules, 'prefixItems') ? '"prefixItems" is refused' : undefined;
  },
  mend: (node, { rules }) => {
    const { items, prefixItems, additionalItems, ...rest } = node;
    const first = Array.isArray(items) ? items : listOf(prefixItems);
    const others = Array.isArray(items) ? additionalItems : items;
    const change = 'items by position';
    if (first.length === 0) return { node: { ...rest, items: {} }, effect: 'loose', change: `no ${change} left out` };
    if (allows(rules, 'prefixItems')) {
      const kept = others === undefined ? {} : { items: others };
      return { node: { ...rest, prefixItems: first, ...kept }, effect: 'same', change: `${change} in prefixItems` };
    }
    const all = isObject(others) ? [...first, others] : first;
    const one = all.every((each) => jsonText(each) === jsonText(all[0]));
    const next = { ...rest, items: one ? all[0] : { anyOf: all } };
    return {
      node: one ? next : described(next, `The items in this order: ${jsonText(first)}`),
      effect: 'loose',
      change: `${change} joined to items of any position`,
    };
  },
};

/** https://json-schema.org: what a recursive reference is cut to. */
const cut = (found: JSONSchema): JSONSchema => (typeof found['type'] === 'string' ? { type: found['type'] } : {});

const references: Repair = {
  flaw: (node, place) => {
    const { $ref } = node;
    if (typeof $ref !== 'string') return undefined;
    if (target(place.document, $ref) === undefined) return `the reference ${$ref} leads nowhere`;
    if (isRoot(place) && place.rules.rootRefuses?.includes('$ref')) return '"$ref" at the root is refused';
    if (isRoot(place) && place.rules.rootKeywords?.includes('$ref') === false) return '"$ref" at the root is refused';
    return isRefused($ref, place) ? `the reference ${$ref} is refused` : undefined;
  },
  mend: (node, { document, through }) => {
    const { $ref, ...beside } = node;
    const reference = String($ref);
    const found = target(document, reference);
    if (found === undefined)
      return {
        node: described(beside, `See ${reference}`),
        effect: 'loose',
        change: 'a reference to nothing left out',
      };
    if (through.includes(reference)) {
      const open = described({ ...cut(found), ...beside }, `As ${reference.split('/').at(-1)} around it`);
      return { node: open, effect: 'loose', change: 'a recursive reference was cut' };
    }
    const inner = Object.keys(beside).length === 0 ? { node: found, effect: 'same' as const } : merged(found, beside);
    return { ...inner, change: 'a reference was replaced by its schema', through: reference };
  },
};

function isRefused(reference: string, { rules, recursive }: Place): boolean {
  if (rules.references === 'any') return false;
  if (rules.references === 'none' || !/^#\/\$defs\/[^/]+$/.test(reference)) return true;
  return rules.references === 'acyclic' && recursive.has(reference);
}

const siblings: Repair = {
  flaw: (node, { rules }) => {
    if (typeof node['$ref'] !== 'string' || rules.besideReference === undefined) return undefined;
    const other = strayBeside(node, rules.besideReference)[0];
    return other && `"${other}" stands beside "$ref"`;
  },
  mend: (node, { rules }) => {
    const stray = strayBeside(node, rules.besideReference ?? []);
    return {
      node: without(node, ...stray),
      effect: stray.every((each) => annotations.has(each) || each === 'default') ? 'same' : 'loose',
      change: `${stray.join(', ')} beside a reference left out`,
    };
  },
};

function strayBeside(node: JSONSchema, allowed: readonly string[]): readonly string[] {
  return Object.keys(node).filter((each) => !['$ref', '$defs', 'definitions', ...allowed].includes(each));
}

/** A bound for our own recursion, wherever a vendor has none. */
const maxSteps = 200;
const maxDepth = 64;

const depth: Repair = {
  flaw: (node, { rules, depth: levels, path }) => {
    if (levels <= (rules.maxDepth ?? maxDepth) && path.length <= maxSteps) return undefined;
    const isLeaf = heldBy(node).length === 0;
    return isLeaf && path.length <= maxSteps + 4 && levels <= (rules.maxDepth ?? maxDepth) + 1
      ? undefined
      : 'it nests too deep';
  },
  mend: (node) => ({
    node: described({}, jsonText(node)),
    effect: 'loose',
    change: 'what nests too deep was left out',
  }),
};

const rootType: Repair = {
  flaw: ({ type }, place) => (isRoot(place) && type !== 'object' ? 'the root has not the type "object"' : undefined),
  mend: (node) => ({
    node: { ...node, type: 'object' },
    effect: node['type'] === undefined || typesOf(node).includes('object') ? 'same' : 'loose',
    change: 'the type of the root is object',
  }),
};

/** Combinations of schemas that a vendor refuses, at the root or anywhere, become one schema. */
const combinations: Repair = {
  flaw: (node, place) => {
    const refused = refusedHere(node, place).find((keyword) => combined.includes(keyword));
    return refused && `"${refused}" is refused${isRoot(place) ? ' at the root' : ''}`;
  },
  mend: (node, place) => {
    const keyword = refusedHere(node, place).find((each) => combined.includes(each)) ?? '';
    const rest = without(node, keyword);
    const branches = listOf(node[keyword])
      .filter(isObject)
      .map((branch) => resolved(branch, place.document));
    if (keyword === 'allOf') {
      const all = branches.reduce<{ node: JSONSchema; effect: Effect }>(
        (before, branch) => {
          const next = merged(before.node, branch);
          return { node: next.node, effect: before.effect === 'same' ? next.effect : before.effect };
        },
        { node: rest, effect: 'same' },
      );
      return { ...all, change: 'allOf was merged' };
    }
    if (!isRoot(place) && !('anyOf' in rest) && allows(place.rules, 'anyOf'))
      return { node: { ...rest, anyOf: node[keyword] }, effect: 'loose', change: 'oneOf was written as anyOf' };
    if (!isRoot(place)) {
      const note = `${keyword}: ${jsonText(node[keyword])}`;
      return { node: described(rest, note), effect: 'loose', change: `${keyword} went to the description` };
    }
    return { node: joined(rest, branches, keyword), effect: 'loose', change: `${keyword} was joined to one object` };
  },
};

const combined: readonly string[] = ['allOf', 'anyOf', 'oneOf'];

/** A branch that is a reference only, as its target. */
function resolved(branch: JSONSchema, document: JSONSchema): JSONSchema {
  const seen = new Set<unknown>();
  let found = branch;
  while (typeof found['$ref'] === 'string' && !seen.has(found)) {
    seen.add(found);
    const { $ref, ...beside } = found;
    found = { ...target(document, String($ref)), ...beside };
    if (seen.size > maxSteps) return without(found, '$ref');
  }
  return found;
}

function allows({ keywords }: SchemaRules, keyword: string): boolean {
  return keywords?.includes(keyword) ?? true;
}

function refusedHere(node: JSONSchema, place: Place): readonly string[] {
  const { keywords, rootKeywords, rootRefuses } = place.rules;
  return Object.keys(node).filter((keyword) => {
    if (keywords?.includes(keyword) === false) return true;
    if (isRoot(place)) return rootKeywords?.includes(keyword) === false || rootRefuses?.includes(keyword) === true;
    return (keyword === '$defs' || keyword === 'definitions') && place.rules.references !== 'any';
  });
}

const constant: Repair = {
  flaw: (node, place) =>
    refusedHere(node, place).includes('const') && !isRoot(place) ? '"const" is refused' : undefined,
  mend: ({ const: only, ...rest }) => ({
    node: { ...rest, enum: [only] },
    effect: 'enum' in rest ? 'loose' : 'same',
    change: 'const was written as enum',
  }),
};

const members: Repair = {
  flaw: (node, { rules }) => {
    if (!Array.isArray(node['enum'])) return undefined;
    if (node['enum'].length > (rules.maxEnum ?? Number.POSITIVE_INFINITY)) return '"enum" has too many members';
    return node['enum'].every((each) => isMember(each, node, rules))
      ? undefined
      : '"enum" has a member that is refused';
  },
  mend: (node, { rules }) => {
    const all = listOf(node['enum']);
    const kept = all.filter((each) => isMember(each, node, rules));
    const note = `One of: ${all.map(jsonText).join(', ')}`;
    if (kept.length === 0 || kept.length > (rules.maxEnum ?? Number.POSITIVE_INFINITY)) {
      const type = node['type'] === undefined ? inferred(node) : {};
      return {
        node: described({ ...without(node, 'enum'), ...type }, note),
        effect: 'loose',
        change: 'enum went to the description',
      };
    }
    const isNullable = all.includes(null) && rules.enums === 'strings' ? { nullable: true } : {};
    const next = { ...node, enum: kept, ...isNullable };
    return {
      node: all.every((each) => each === '' || each === null || kept.includes(each)) ? next : described(next, note),
      effect: 'narrow',
      change: 'members of enum left out',
    };
  },
};

function isMember(value: unknown, node: JSONSchema, { enums }: SchemaRules): boolean {
  if (enums === undefined) return true;
  if (value === '') return false;
  return (
    enums === 'filled' ||
    (typeof value === 'string' && (node['type'] === undefined || typesOf(node).includes('string')))
  );
}

const typeLists: Repair = {
  flaw: ({ type }, { rules }) =>
    Array.isArray(type) && (rules.typeLists ?? 'any') !== 'any' ? 'several types are refused' : undefined,
  mend: (node, { rules }) => {
    const all = typesOf(node);
    const some = all.filter((each) => each !== 'null' || rules.typeLists === 'anyOf');
    const isNullable = some.length < all.length ? { nullable: true } : {};
    const change = 'several types were written apart';
    if (some.length === 0) return { node: { ...node, type: 'null' }, effect: 'same', change };
    if (some.length === 1) return { node: { ...node, type: some[0], ...isNullable }, effect: 'same', change };
    const { description, title, anyOf, ...rest } = node;
    const words = { ...(title !== undefined && { title }), ...(description !== undefined && { description }) };
    const branches = some.map((type) => ({ ...ofType(rest, type), type, ...isNullable }));
    return { node: { ...words, anyOf: branches }, effect: anyOf === undefined ? 'same' : 'loose', change };
  },
};

/** Keywords that say something about one type only. */
const ofTypes: Readonly<Record<string, readonly string[]>> = {
  object: [
    'properties',
    'required',
    'additionalProperties',
    'patternProperties',
    'minProperties',
    'maxProperties',
    'propertyNames',
  ],
  array: ['items', 'prefixItems', 'minItems', 'maxItems', 'uniqueItems', 'contains'],
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
};

function ofType(node: JSONSchema, type: string): JSONSchema {
  const own = type === 'integer' ? 'number' : type;
  return without(node, ...Object.entries(ofTypes).flatMap(([other, keywords]) => (other === own ? [] : keywords)));
}

const keywords: Repair = {
  flaw: (node, place) => {
    const refused = refusedHere(node, place)[0];
    return refused && `"${refused}" is refused${isRoot(place) ? ' at the root' : ''}`;
  },
  mend: (node, place) => {
    const refused = refusedHere(node, place);
    const restricting = refused.filter((each) => !annotations.has(each));
    const kept = without(node, ...refused);
    const said = restricting.filter((each) => !switches.has(each) || isObject(node[each]));
    const canSay = !(isRoot(place) && place.rules.rootKeywords?.includes('description') === false);
    const next = canSay
      ? said.reduce((before, each) => described(before, `${each}: ${jsonText(node[each])}`), kept)
      : kept;
    return {
      node: next,
      effect: restricting.every((each) => each === 'default') ? 'same' : 'loose',
      // Annotations, such as $schema, say nothing of the arguments.
      change:
        restricting.length === 0
          ? ''
          : `${restricting.join(', ')} ${said.length > 0 ? 'went to the description' : 'left out'}`,
    };
  },
};

const items: Repair = {
  flaw: (node, { rules }) =>
    rules.itemsGiven && typesOf(node).includes('array') && !('items' in node) ? 'an array has no "items"' : undefined,
  mend: (node) => ({ node: { ...node, items: {} }, effect: 'same', change: 'an array got items' }),
};

const requiredNames: Repair = {
  flaw: ({ required, properties }, { rules }) => {
    if (!rules.requiredExist) return undefined;
    const missing = stringsOf(required).find((name) => !Object.hasOwn(mapOf(properties), name));
    return missing === undefined ? undefined : `"required" names ${missing}, which is no property`;
  },
  mend: (node) => {
    const missing = stringsOf(node['required']).filter((name) => !Object.hasOwn(mapOf(node['properties']), name));
    const added = Object.fromEntries(missing.map((name) => [name, {}]));
    return {
      node: { ...node, properties: { ...mapOf(node['properties']), ...added } },
      effect: 'same',
      change: 'required properties were added',
    };
  },
};

const propertyNames: Repair = {
  flaw: ({ properties, required }, { rules: { propertyName } }) => {
    const names = [...Object.keys(mapOf(properties)), ...stringsOf(required)];
    const wrong = propertyName && names.find((name) => !propertyName.test(name));
    return wrong === undefined ? undefined : `the name ${jsonText(wrong)} of a property is refused`;
  },
  mend: (node, { rules: { propertyName = /^/ } }) => {
    const all = mapOf(node['properties']);
    const isFine = (name: string) => propertyName.test(name);
    const wrong = Object.entries(all).filter(([name]) => !isFine(name));
    const next: JSONSchema = {
      ...without(node, 'additionalProperties'),
      ...('properties' in node && {
        properties: Object.fromEntries(Object.entries(all).filter(([name]) => isFine(name))),
      }),
      ...('required' in node && { required: stringsOf(node['required']).filter(isFine) }),
    };
    const note = wrong.map(([name, schema]) => `${jsonText(name)}: ${jsonText(schema)}`).join(', ');
    return {
      node: wrong.length > 0 ? described(next, `Also takes ${note}`) : next,
      effect: 'narrow',
      change: 'properties whose names are refused went to the description',
    };
  },
};

const objects: Repair = {
  flaw: (node, { rules }) => {
    if (!typesOf(node).includes('object')) return undefined;
    if (rules.properties === 'given' && !('properties' in node)) return 'an object has no "properties"';
    const isEmpty = 'properties' in node && Object.keys(mapOf(node['properties'])).length === 0;
    return rules.properties === 'filled' && isEmpty ? '"properties" is empty' : undefined;
  },
  mend: (node, { rules }) =>
    rules.properties === 'given'
      ? { node: { ...node, properties: {} }, effect: 'same', change: 'an object got properties' }
      : { node: without(node, 'properties'), effect: 'same', change: 'empty properties left out' },
};

const typed: Repair = {
  flaw: (node, { rules }) =>
    rules.typed && !['type', '$ref', ...combined].some((keyword) => keyword in node)
      ? 'a schema has no "type"'
      : undefined,
  mend: (node) => {
    const found = inferred(node);
    return { node: { ...node, ...found }, effect: 'anyOf' in found ? 'narrow' : 'same', change: 'a schema got a type' };
  },
};

/** The type that the keywords of a schema say; where they say none, a union of simple values. */
function inferred(node: JSONSchema): JSONSchema {
  const values = [...listOf(node['enum']), ...('const' in node ? [node['const']] : [])];
  if (values.length > 0) {
    const all = [...new Set(values.map(typeOf))];
    return { type: all.length === 1 ? all[0] : all };
  }
  const type = Object.keys(ofTypes).find((each) => ofTypes[each]?.some((keyword) => keyword in node));
  return type === undefined ? { anyOf: ['string', 'number', 'boolean'].map((each) => ({ type: each })) } : { type };
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

const closed: Repair = {
  flaw: (node, { rules }) =>
    rules.closed && typesOf(node).includes('object') && node['additionalProperties'] !== false
      ? 'an object lacks "additionalProperties": false'
      : undefined,
  mend: (node) => {
    const isOpen = 'additionalProperties' in node || 'patternProperties' in node;
    const hasSome = Object.keys(mapOf(node['properties'])).length > 0;
    return {
      node: { ...node, ...(hasSome ? {} : { properties: {} }), additionalProperties: false },
      effect: isOpen || !hasSome ? 'narrow' : 'same',
      change: 'an object was closed',
    };
  },
};

const allRequired: Repair = {
  flaw: (node, { rules }) => {
    if (!rules.allRequired || !typesOf(node).includes('object')) return undefined;
    const optional = optionalOf(node)[0];
    if (optional !== undefined) return `the property ${optional} is not in "required"`;
    return Array.isArray(node['required']) ? undefined : 'an object has no "required"';
  },
  mend: (node) => {
    const optional = new Set(optionalOf(node));
    const all = Object.entries(mapOf(node['properties']));
    const next = all.map(([name, schema]) => [
      name,
      optional.has(name) && isObject(schema) ? nullable(schema) : schema,
    ]);
    return {
      node: { ...node, properties: Object.fromEntries(next), required: all.map(([name]) => name) },
      effect: optional.size > 0 ? 'loose' : 'same',
      change: 'optional properties may be null instead',
    };
  },
};

function optionalOf(node: JSONSchema): readonly string[] {
  const required = new Set(stringsOf(node['required']));
  return Object.keys(mapOf(node['properties'])).filter((name) => !required.has(name));
}

/** A keyword with a value that is refused goes to the description. */
function value(keyword: string, isFine: (value: unknown, rules: SchemaRules) => boolean): Repair {
  return {
    flaw: (node, { rules }) =>
      keyword in node && !isFine(node[keyword], rules) ? `the value of "${keyword}" is refused` : undefined,
    mend: (node) => ({
      node: described(without(node, keyword), `${keyword}: ${jsonText(node[keyword])}`),
      effect: keyword === 'format' ? 'same' : 'loose',
      change: `${keyword} went to the description`,
    }),
  };
}

/** Lookaround, back references, named groups, Unicode classes and what a regular expression of Python or Rust reads differently. */
const unportable = /\(\?(?!:)|\\[1-9]|\\[kpPcuxX]|\\[dDwWsSbB]?\/|[*+?}]\+/;

const formats = value('format', (format, { formats: known }) => known?.includes(String(format)) ?? true);
const patterns = value('pattern', (pattern, { patterns: taken }) => {
  if (taken === undefined) return true;
  return taken === 'portable' && !unportable.test(String(pattern));
});
const numbers = ['minItems', 'maxItems', 'minLength', 'maxLength'].map((keyword) =>
  value(keyword, (given, { largest }) => Number(given) <= (largest?.[keyword] ?? Number.POSITIVE_INFINITY)),
);

const besideUnion: Repair = {
  flaw: (node, { rules }) => {
    const stray = besideAnyOf(node, rules)[0];
    return stray && `"${stray}" stands beside "anyOf"`;
  },
  mend: (node, { rules }) => {
    const stray = besideAnyOf(node, rules);
    const moved = Object.fromEntries(stray.map((keyword) => [keyword, node[keyword]]));
    const branches = listOf(node['anyOf']).filter(isObject);
    const isNull = (branch: JSONSchema) => rules.besideUnion === 'all' && typesOf(branch).join() === 'null';
    const others = branches.filter((branch) => !isNull(branch));
    const isNullable = others.length < branches.length ? { nullable: true } : {};
    const next = (others.length > 0 ? others : branches).map((branch) => ({
      ...merged(branch, moved).node,
      ...isNullable,
    }));
    const rest = without(node, ...stray);
    return {
      node: next.length === 1 ? { ...without(rest, 'anyOf'), ...next[0] } : { ...rest, anyOf: next },
      effect: 'loose',
      change: `${stray.join(', ')} beside anyOf went into its branches`,
    };
  },
};

function besideAnyOf(node: JSONSchema, { besideUnion: refused }: SchemaRules): readonly string[] {
  if (!('anyOf' in node) || refused === undefined) return [];
  const others = Object.keys(node).filter((each) => each !== 'anyOf');
  if (refused === 'all') {
    const hasNull = listOf(node['anyOf']).some((each) => isObject(each) && typesOf(each).join() === 'null');
    return others.length === 0 && hasNull && listOf(node['anyOf']).length > 1 ? ['nullable'] : others;
  }
  return others.filter((each) => refused.includes(each));
}

/** What vendors refuse in one schema, and what is done about it, in this order. */
export const repairs: readonly Repair[] = [
  tuple,
  malformed,
  booleans,
  references,
  depth,
  rootType,
  combinations,
  constant,
  typeLists,
  members,
  siblings,
  besideUnion,
  keywords,
  requiredNames,
  propertyNames,
  typed,
  items,
  objects,
  closed,
  allRequired,
  formats,
  patterns,
  ...numbers,
];

/** The place of a schema in another one. */
export function below(place: Place, keyword: string, key: string | undefined): Place {
  const isLevel = ['properties', 'items', 'prefixItems', 'additionalProperties', 'patternProperties'].includes(keyword);
  const isDefinition = keyword === '$defs' || keyword === 'definitions';
  return {
    ...place,
    path: [...place.path, keyword, ...(key === undefined ? [] : [key])],
    depth: isDefinition ? 1 : place.depth + (isLevel ? 1 : 0),
  };
}

/** The place as words: `properties.days.items`. */
export function placeText({ path }: Place): string {
  return path.length === 0 ? 'the root' : path.join('.');
}
