import { isObject, type JSONSchema, parsedJson, stableJson } from '../../core/contracts/index.ts';

/** What models put around their thinking. A server may leave out the opening tag, which is in the prompt then. */
const thinkTag = /<(\/?)(?:think|thinking|thought|reasoning)>/gi;

/**
 * The JSON values in an answer: the whole of it, else each object or array in it, without what stands in `<think>` tags. Fences,
 * sentences and a byte order mark around them are passed over. Nothing is repaired, and no part of something that is almost JSON is
 * a value. Equal values count once. Takes time linear in the text.
 */
export function jsonValues(answer: string): readonly unknown[] {
  const text = answer.replace(/^\uFEFF/, '').trim();
  const whole = parsed(text) ?? parsed(withoutThinking(text).trim());
  if (whole) return [whole.value];
  const values = valuesIn(withoutThinking(text));
  return [...new Map(values.map((value) => [stableJson(value), value])).values()];
}

function withoutThinking(text: string): string {
  let kept = '';
  let depth = 0;
  let from = 0;
  for (const match of text.matchAll(thinkTag)) {
    const isEnd = match[1] === '/';
    if (depth === 0 && !isEnd) kept += text.slice(from, match.index);
    if (depth === 0 && isEnd) kept = '';
    depth = Math.max(0, depth + (isEnd ? -1 : 1));
    from = match.index + match[0].length;
  }
  return depth > 0 ? kept : kept + text.slice(from);
}

/** What follows an opening bracket of JSON. */
const looksLikeJson = /\{\s*["}]|\[\s*(?:["{[\]\d-]|true\b|false\b|null\b)/y;

/** How often more than its length the input is read, whatever brackets it has. */
const maxReadings = 20;

function valuesIn(text: string): readonly unknown[] {
  const values: unknown[] = [];
  let left = text.length * maxReadings;
  for (let from = 0; from < text.length && left > 0; from++) {
    if (text[from] !== '{' && text[from] !== '[') continue;
    looksLikeJson.lastIndex = from;
    const isLikely = looksLikeJson.test(text);
    const to = closingBracket(text, from);
    left -= (to ?? text.length) - from;
    // What is cut off has no values of its own: they are members of what is cut off.
    if (to === undefined && isLikely) break;
    if (to === undefined) continue;
    const found = parsed(text.slice(from, to));
    if (found) values.push(found.value);
    from = to - 1;
  }
  return values;
}

/** The index after the bracket that closes the one at `from`, brackets in strings not counted. */
function closingBracket(text: string, from: number): number | undefined {
  let depth = 0;
  let inString = false;
  for (let index = from; index < text.length; index++) {
    const character = text[index];
    if (inString) {
      if (character === '\\') index++;
      else if (character === '"') inString = false;
    } else if (character === '"') inString = true;
    else if (character === '{' || character === '[') depth++;
    else if ((character === '}' || character === ']') && --depth === 0) return index + 1;
  }
  return undefined;
}

function parsed(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: parsedJson(text) };
  } catch {
    return undefined;
  }
}

/**
 * A value without each member that is null, that its schema has as optional, and that it does not allow to be null: strict modes
 * require every member, and models write null for one that is absent. The same object if there is none.
 */
export function withoutAbsent(value: unknown, schema: JSONSchema): unknown {
  return cleaned(value, [schema], schema);
}

/** Schemas of one value: those of a union and of references too. */
const maxSchemas = 200;

function cleaned(value: unknown, schemas: readonly unknown[], root: JSONSchema): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const all = alternatives(schemas, root);
  if (Array.isArray(value)) {
    const next = value.map((item: unknown, index) =>
      cleaned(
        item,
        all.flatMap((each) => itemsOf(each, index)),
        root,
      ),
    );
    return next.every((item, index) => item === value[index]) ? value : next;
  }
  const before = Object.entries(value);
  const kept = before.filter(([name, member]) => member !== null || !isAbsent(name, all, root));
  const next = kept.map(([name, member]) => [name, cleaned(member, membersOf(all, name), root)] as const);
  const isSame = kept.length === before.length && next.every(([, member], index) => member === kept[index]?.[1]);
  return isSame ? value : Object.fromEntries(next);
}

function isAbsent(name: string, schemas: readonly JSONSchema[], root: JSONSchema): boolean {
  const own = schemas.flatMap(({ properties }) =>
    isObject(properties) && Object.hasOwn(properties, name) ? [properties[name]] : [],
  );
  if (own.length === 0 || own.some((each) => allowsNull(each, root))) return false;
  return schemas.some(
    ({ properties, required }) => isObject(properties) && !(Array.isArray(required) && required.includes(name)),
  );
}

function membersOf(schemas: readonly JSONSchema[], name: string): readonly unknown[] {
  return schemas.flatMap(({ properties, additionalProperties }) =>
    isObject(properties) && Object.hasOwn(properties, name) ? [properties[name]] : [additionalProperties],
  );
}

function itemsOf({ items, prefixItems }: JSONSchema, index: number): readonly unknown[] {
  const first = Array.isArray(prefixItems) ? prefixItems : Array.isArray(items) ? items : [];
  return [index < first.length ? first[index] : items];
}

/** The schemas, those that they refer to, and those of their unions. */
function alternatives(schemas: readonly unknown[], root: JSONSchema): readonly JSONSchema[] {
  const found = new Set<JSONSchema>();
  const open = [...schemas];
  for (let next = open.pop(); open.length > 0 || next !== undefined; next = open.pop()) {
    if (!isObject(next) || found.has(next)) continue;
    if (found.size >= maxSchemas) break;
    found.add(next);
    for (const keyword of ['anyOf', 'oneOf', 'allOf']) if (Array.isArray(next[keyword])) open.push(...next[keyword]);
    if (typeof next['$ref'] === 'string') open.push(referred(next['$ref'], root));
  }
  return [...found];
}

function referred(reference: string, root: JSONSchema): unknown {
  if (!reference.startsWith('#')) return undefined;
  const steps = reference.split('/').slice(1);
  return steps.reduce<unknown>((found, step) => {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~');
    return typeof found === 'object' && found !== null && Object.hasOwn(found, key)
      ? Reflect.get(found, key)
      : undefined;
  }, root);
}

function allowsNull(schema: unknown, root: JSONSchema): boolean {
  return alternatives([schema], root).some((each) => {
    const { type, enum: values } = each;
    if ('const' in each) return each['const'] === null;
    if (Array.isArray(values)) return values.includes(null);
    if (type !== undefined) return [type].flat().includes('null');
    return !['anyOf', 'oneOf', 'allOf', '$ref', 'properties', 'items'].some((keyword) => keyword in each);
  });
}

/** What may become a tag of thinking or the start of an object with more of the text. */
const openEnd = /(?:<[^<>]{0,10}|\{\s*)$/;

/** Finds where the JSON object of a streamed answer begins: after words, fences and thinking. Linear in the text. */
export class ObjectStart {
  #waiting = '';
  #depth = 0;
  #found = false;

  /** The next characters of the object, of a fragment cut anywhere. */
  push(fragment: string): string {
    if (this.#found) return fragment;
    this.#waiting += fragment;
    let from = 0;
    for (const match of this.#waiting.matchAll(tagOrObject)) {
      from = match.index + match[0].length;
      if (!match[0].startsWith('{')) this.#depth = Math.max(0, this.#depth + (match[1] === '/' ? -1 : 1));
      else if (this.#depth === 0) {
        this.#found = true;
        return this.#waiting.slice(match.index);
      }
    }
    const rest = this.#waiting.slice(from);
    this.#waiting = rest.slice(openEnd.exec(rest)?.index ?? rest.length);
    return '';
  }
}

const tagOrObject = /<(\/?)(?:think|thinking|thought|reasoning)>|\{\s*["}]/gi;
