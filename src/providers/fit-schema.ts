import { isObject, type JSONSchema } from '../core/contracts/index.ts';
import type { SchemaRules } from './schemas/schema-dialects.ts';
import {
  heldBy,
  jsonText,
  mapOf,
  pointer,
  shortened,
  stringsOf,
  target,
  withHeld,
  without,
} from './schemas/schema-node.ts';
import { below, type Effect, type Place, placeText, repairs } from './schemas/schema-repairs.ts';

export { type SchemaDialect, type SchemaRules, schemaDialects } from './schemas/schema-dialects.ts';

/** A schema as a vendor accepts it. */
export interface FittedSchema {
  /** The given object itself if nothing had to change. */
  readonly schema: JSONSchema;
  /** What was changed, in short phrases. */
  readonly changes: readonly string[];
  /** Whether it accepts what the given schema refuses: the arguments are checked against the given one. */
  readonly loose: boolean;
}

/** A schema of an answer as a vendor accepts it. */
export interface FittedOutput {
  readonly schema: JSONSchema;
  /** Whether it keeps the meaning under the rules of the dialect. If not, it is fitted to the rules of `relaxed`, and is sent as not strict. */
  readonly strict: boolean;
  readonly changes: readonly string[];
}

/**
 * The schema of a tool's parameters as a vendor accepts it: pure, for any JSON value. The result has no flaw under the rules. A
 * schema that cannot be fitted becomes an object with any properties, the given schema in its description. Remembered per schema object.
 */
export function fitToolSchema(schema: JSONSchema, rules: SchemaRules): FittedSchema {
  const { schema: fitted, changes, effect } = remembered(schema, rules);
  return { schema: fitted, changes, loose: effect !== 'same' };
}

/**
 * The schema of an answer in the vendor's strict subset, where that keeps the meaning: objects closed, optional properties required and
 * nullable, constraints that the vendor does not know in the description. Otherwise `strict` is false: records, open objects, any values.
 */
export function fitOutputSchema(schema: JSONSchema, rules: SchemaRules): FittedOutput {
  const { schema: fitted, changes, effect } = remembered(schema, rules);
  if (!rules.closed || effect !== 'narrow') return { schema: fitted, strict: true, changes };
  const loose = remembered(schema, rules.relaxed ?? { ...rules, closed: false, allRequired: false });
  return { schema: loose.schema, strict: false, changes: [...loose.changes, 'it is not strict'] };
}

/** The description of a tool as long as a vendor accepts it, cut after a word. */
export function fitToolDescription(description: string, { maxToolDescription }: SchemaRules): string {
  return maxToolDescription === undefined ? description : shortened(description, maxToolDescription);
}

/** What a vendor would refuse in a schema, each with its place. The first 20. */
export function schemaFlaws(schema: JSONSchema, rules: SchemaRules): readonly string[] {
  if (!isObject(schema)) return ['the schema is not an object'];
  const flaws: string[] = [];
  const open: (readonly [JSONSchema, Place])[] = [[schema, rootPlace(schema, rules)]];
  let properties = 0;
  for (let seen = 0; open.length > 0 && flaws.length < maxFlaws; seen++) {
    if (seen > maxNodes) return [...flaws, `it has more than ${maxNodes} schemas`];
    const [node, place] = open.pop() ?? [schema, rootPlace(schema, rules)];
    properties += Object.keys(mapOf(node['properties'])).length;
    const found = repairs.map(({ flaw }) => flaw(node, place)).find((each) => each !== undefined);
    if (found !== undefined) flaws.push(`${placeText(place)}: ${found}`);
    // What nests deeper than the bound of the depth is a flaw itself, and is not walked.
    if (place.path.length > maxPath) continue;
    for (const { keyword, key, value } of heldBy(node))
      if (isObject(value)) open.push([value, below(place, keyword, key)]);
  }
  const most = rules.maxProperties ?? Number.POSITIVE_INFINITY;
  return properties > most ? [...flaws, `it has more than ${most} properties`] : flaws;
}

const maxFlaws = 20;
const maxNodes = 4_000;
/** Past the bound of the depth. */
const maxPath = 250;
/** How often all repairs are tried on one schema: one may need another. */
const maxRounds = 6;

interface Fitted {
  readonly schema: JSONSchema;
  readonly changes: readonly string[];
  readonly effect: Effect;
}

const cache = new WeakMap<SchemaRules, WeakMap<JSONSchema, Fitted>>();

function remembered(schema: JSONSchema, rules: SchemaRules): Fitted {
  if (!isObject(schema)) return fitted(schema, rules);
  const ofRules = cache.get(rules) ?? new WeakMap<JSONSchema, Fitted>();
  cache.set(rules, ofRules);
  const known = ofRules.get(schema) ?? fitted(schema, rules);
  ofRules.set(schema, known);
  return known;
}

function fitted(schema: JSONSchema, rules: SchemaRules): Fitted {
  if (schemaFlaws(schema, rules).length === 0) return { schema, changes: [], effect: 'same' };
  if (!isObject(schema)) return open(schema, rules);
  const document = rules.references === 'any' ? schema : withDefinitions(schema);
  const walk: Walk = { left: maxNodes, changes: new Set(), effects: new Set() };
  if (document !== schema) walk.changes.add('what is referred to went to $defs');
  const next = withoutUnused(fittedNode(document, rootPlace(document, rules), walk), rules);
  if (walk.left <= 0 || schemaFlaws(next, rules).length > 0) return open(schema, rules);
  const effect = (['narrow', 'loose'] as const).find((each) => walk.effects.has(each)) ?? 'same';
  return { schema: next, changes: [...walk.changes], effect };
}

interface Walk {
  left: number;
  readonly changes: Set<string>;
  readonly effects: Set<Effect>;
}

function fittedNode(node: JSONSchema, at: Place, walk: Walk): JSONSchema {
  let place = at;
  let next = node;
  if (walk.left-- <= 0) return {};
  for (let round = 0; round < maxRounds; round++) {
    const before = next;
    for (const { flaw, mend } of repairs) {
      if (flaw(next, place) === undefined) continue;
      const { node: mended, effect, change, through } = mend(next, place);
      next = mended;
      if (through !== undefined) place = { ...place, through: [...place.through, through] };
      walk.effects.add(effect);
      if (change !== '') walk.changes.add(place.path.length === 0 ? `${change} at the root` : change);
    }
    if (next === before) break;
  }
  return withHeld(next, ({ keyword, key, value }) =>
    isObject(value) ? fittedNode(value, below(place, keyword, key), walk) : value,
  );
}

/** What is sent for a schema that cannot be fitted. */
function open(schema: unknown, rules: SchemaRules): Fitted {
  const members = {
    type: 'object',
    description: shortened(`Arguments of this JSON Schema: ${jsonText(schema)}`, 1_000),
    properties: {},
    ...(rules.allRequired && { required: [] }),
    additionalProperties: rules.closed !== true,
  };
  const isTaken = ([keyword]: readonly [string, unknown]) =>
    (rules.keywords?.includes(keyword) ?? true) &&
    (rules.rootKeywords?.includes(keyword) ?? true) &&
    !(keyword === 'properties' && rules.properties === 'filled');
  return {
    schema: Object.fromEntries(Object.entries(members).filter(isTaken)),
    changes: ['the schema cannot be fitted: any arguments are accepted'],
    effect: 'narrow',
  };
}

function rootPlace(document: JSONSchema, rules: SchemaRules): Place {
  const recursive = rules.references === 'acyclic' ? recursiveReferences(document) : new Set<string>();
  return { rules, document, path: [], depth: 0, through: [], recursive };
}

/** The references of a schema and of all in it. */
function referencesIn(schema: JSONSchema): ReadonlySet<string> {
  const found = new Set<string>();
  const open: JSONSchema[] = [schema];
  for (let seen = 0; open.length > 0 && seen < maxNodes; seen++) {
    const node = open.pop() ?? {};
    if (typeof node['$ref'] === 'string') found.add(node['$ref']);
    for (const { value } of heldBy(node)) if (isObject(value)) open.push(value);
  }
  return found;
}

/** The references that lead to themselves, or to one that does: what is left without those that lead to none of the others. */
function recursiveReferences(document: JSONSchema): ReadonlySet<string> {
  const left = new Map([...referencesIn(document)].map((each) => [each, 0]));
  const leadingTo = new Map<string, string[]>();
  for (const from of left.keys()) {
    for (const to of referencesIn(target(document, from) ?? {})) {
      if (!left.has(to)) continue;
      left.set(from, (left.get(from) ?? 0) + 1);
      const known = leadingTo.get(to);
      if (known === undefined) leadingTo.set(to, [from]);
      else known.push(from);
    }
  }
  const ends = [...left].filter(([, count]) => count === 0).map(([each]) => each);
  for (let end = ends.pop(); end !== undefined; end = ends.pop()) {
    left.delete(end);
    for (const from of leadingTo.get(end) ?? []) {
      const count = (left.get(from) ?? 0) - 1;
      left.set(from, count);
      if (count === 0) ends.push(from);
    }
  }
  return new Set(left.keys());
}

/** The schema with each target of a reference in `$defs`. */
function withDefinitions(schema: JSONSchema): JSONSchema {
  const elsewhere = [...referencesIn(schema)].filter(
    (each) => !/^#\/\$defs\/[^/]+$/.test(each) && target(schema, each) !== undefined,
  );
  if (elsewhere.length === 0) return schema;
  const names = new Set(Object.keys(mapOf(schema['$defs'])));
  const moved = new Map<string, string>();
  for (const reference of elsewhere) {
    const wanted =
      reference
        .split('/')
        .at(-1)
        ?.replaceAll(/[^a-zA-Z0-9_-]/g, '_') || 'root';
    let name = wanted === '_' ? 'root' : wanted;
    for (let n = 2; names.has(name); n++) name = `${wanted}_${n}`;
    names.add(name);
    moved.set(reference, name);
  }
  const rewritten = (node: JSONSchema, steps: number): JSONSchema => {
    const name = moved.get(String(node['$ref']));
    const own = name === undefined ? node : { ...node, $ref: pointer('$defs', name) };
    if (steps > maxPath) return own;
    return withHeld(own, ({ value }) => (isObject(value) ? rewritten(value, steps + 1) : value));
  };
  const added = [...moved].map(([reference, name]) => {
    const found = target(schema, reference) ?? {};
    return [name, rewritten(without(found, '$defs', ...(reference === '#' ? ['definitions'] : [])), 0)] as const;
  });
  const { definitions, ...body } = rewritten(schema, 0);
  const isUsed = [...referencesIn(body)].some((each) => each.startsWith('#/definitions/'));
  return {
    ...body,
    ...(isUsed && { definitions }),
    $defs: { ...mapOf(body['$defs']), ...Object.fromEntries(added) },
  };
}

/** Without definitions that nothing refers to. */
function withoutUnused(schema: JSONSchema, { references }: SchemaRules): JSONSchema {
  const all = mapOf(schema['$defs']);
  if (references === 'any' || !('$defs' in schema)) return schema;
  const names = new Map(Object.keys(all).map((each) => [pointer('$defs', each), each]));
  const used = new Set<string>();
  const open = [without(schema, '$defs')];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    for (const reference of stringsOf([...referencesIn(node)])) {
      const name = names.get(reference);
      if (name === undefined || used.has(name)) continue;
      used.add(name);
      const inner = all[name];
      if (isObject(inner)) open.push(inner);
    }
  }
  const kept = Object.entries(all).filter(([name]) => used.has(name));
  return kept.length === 0 ? without(schema, '$defs') : { ...schema, $defs: Object.fromEntries(kept) };
}
