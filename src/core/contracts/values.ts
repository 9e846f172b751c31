/** A value, or a promise of it. */
export type MaybePromise<T> = T | Promise<T>;

/** Whether a value is a promise or another thenable. */
export function isPromiseLike<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

/** The next value, at once if the given one is known. */
export function andThen<A, B>(given: MaybePromise<A>, next: (value: A) => MaybePromise<B>): MaybePromise<B> {
  return given instanceof Promise ? given.then(next) : next(given);
}

/** All members are optional or `undefined`. */
export type Optional<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/** All members are present and not `undefined`: options with their defaults. `Required` keeps an explicit `undefined`. */
export type Defined<T> = { readonly [Name in keyof T]-?: Exclude<T[Name], undefined> };

/** The part of a `T` that is available while it is still being generated. */
export type Partially<T> = T extends readonly (infer Item)[]
  ? readonly Partially<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]?: Partially<T[Key]> }
    : T;

/** True for an object that is neither `null` nor an array. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The first characters of a string, at most `most` UTF-16 units, without half a surrogate pair at the cut. */
export function headOf(text: string, most: number): string {
  return text.slice(0, splitsPair(text, most) ? most - 1 : most);
}

/** The last characters of a string, at most `most` UTF-16 units, without half a surrogate pair at the cut. */
export function tailOf(text: string, most: number): string {
  const start = Math.max(0, text.length - most);
  return text.slice(splitsPair(text, start) ? start + 1 : start);
}

/** Whether a cut at this index splits a surrogate pair. */
export function splitsPair(text: string, at: number): boolean {
  return (text.charCodeAt(at - 1) & 0xfc00) === 0xd800 && (text.charCodeAt(at) & 0xfc00) === 0xdc00;
}

/** A wrong value for an error message: strings quoted and truncated, objects not spelled out. */
export function shownValue(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 40));
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

/** The maximum nesting of foreign JSON. Parsing has no limit, but writing, comparing and checking recurse, and fail at some thousand levels. */
export const maxJsonDepth = 500;

/** The maximum nesting of a whole message of a peer whose values have that limit: its envelope adds levels. */
export const maxMessageDepth = maxJsonDepth + 100;

/** The maximum nesting of a JSON Schema: each level of it takes many frames of the stack to compile. */
export const maxSchemaDepth = 250;

/** Whether a value nests deeper than `levels`, as one that contains itself does. */
export function nestsTooDeep(value: unknown, levels = maxJsonDepth): boolean {
  return isNested(value) && (levels === 0 || Object.values(value).some((member) => nestsTooDeep(member, levels - 1)));
}

/** Whether the JSON in a string nests deeper than `levels`. Reads the structure only, without parsing; a string that is not JSON may nest, too. */
export function textNestsTooDeep(text: string, levels = maxJsonDepth): boolean {
  if (text.length <= levels) return false;
  const counter = new JsonCounter(levels, Number.POSITIVE_INFINITY);
  return counter.add(new TextEncoder().encode(text)) === 'depth';
}

/** Whether an acyclic value contains more values than that. */
export function hasTooManyValues(value: unknown): boolean {
  let level: readonly unknown[] = [value];
  let count = 0;
  while (level.length > 0) {
    count += level.length;
    if (count > maxJsonValues) return true;
    level = level.filter(isNested).flatMap((one) => Object.values(one));
  }
  return false;
}

/**
 * Whether an acyclic value contains a number that is not finite. `JSON.parse` returns one for `1e999`, and JSON writes it as `null`: the displayed
 * and stored value would differ from the one in use.
 */
export function hasInfiniteNumber(value: unknown): boolean {
  let level: readonly unknown[] = [value];
  while (level.length > 0) {
    if (level.some((one) => typeof one === 'number' && !Number.isFinite(one))) return true;
    level = level.filter(isNested).flatMap((one) => Object.values(one));
  }
  return false;
}

/** Matches in the text of every number beyond 1.8e308. */
const largeNumber = /\d{300}|[eE]\+?\d{2}/;

/** Parses JSON text. Throws as `JSON.parse`, and a `RangeError` if the value nests deeper than `levels` or contains a number beyond 1.8e308. */
export function parsedJson(text: string, levels = maxJsonDepth): unknown {
  const value: unknown = JSON.parse(text);
  if (text.length > levels && nestsTooDeep(value, levels)) throw tooDeep(levels);
  if (largeNumber.test(text) && hasInfiniteNumber(value)) throw new RangeError('it has a number beyond 1.8e308');
  return value;
}

/**
 * Writes a value as JSON text; `undefined` if it has no JSON form. Throws as `JSON.stringify`, and a `RangeError` if the value nests deeper than
 * `levels`, or than JSON can be written.
 */
export function jsonText(
  value: unknown,
  { replacer, levels = maxJsonDepth }: { readonly replacer?: Replacer; readonly levels?: number } = {},
): string | undefined {
  let text: string | undefined;
  try {
    text = JSON.stringify(value, replacer);
  } catch (error) {
    // Only the stack limits what JSON.stringify writes.
    throw error instanceof RangeError ? tooDeep(maxJsonDepth) : error;
  }
  if (text !== undefined && text.length > levels && textNestsTooDeep(text, levels)) throw tooDeep(levels);
  return text;
}

type Replacer = (this: unknown, key: string, member: unknown) => unknown;

function tooDeep(levels: number): RangeError {
  return new RangeError(`it nests deeper than ${levels} levels`);
}

function isNested(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !ArrayBuffer.isView(value);
}

/** Names the first member that JSON would lose or change, or that nests too deep; `undefined` members count as absent. `at` names the value itself. */
export function jsonFlaw(value: unknown, at: string): string | undefined {
  const flaw = flawOf(value, []);
  if (!flaw) return undefined;
  return flaw.problem === nests ? `${at} ${nests}` : `${at}${flaw.path} ${flaw.problem}`;
}

const nests = `nests deeper than ${maxJsonDepth} levels`;

interface Flaw {
  /** Its path in the value: written while unwinding, since most values have no flaw. */
  readonly path: string;
  readonly problem: string;
}

/** `within`: the ancestors of the value. */
function flawOf(value: unknown, within: object[]): Flaw | undefined {
  if (value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value)) return;
  if (typeof value !== 'object') return here(`is ${typeof value === 'bigint' ? 'a bigint' : shownValue(value)}`);
  if (within.includes(value)) return here('contains itself');
  if (within.length === maxJsonDepth) return here(nests);
  within.push(value);
  const flaw = Array.isArray(value) ? flawOfItems(value, within) : flawOfMembers(value, within);
  within.pop();
  return flaw;
}

function flawOfItems(items: readonly unknown[], within: object[]): Flaw | undefined {
  for (let index = 0; index < items.length; index++) {
    const flaw = flawOf(items[index], within);
    if (flaw) return { ...flaw, path: `[${index}]${flaw.path}` };
  }
  return;
}

function flawOfMembers(value: object, within: object[]): Flaw | undefined {
  if (!isPlain(value)) return here(`is a ${value.constructor?.name ?? 'class instance'}`);
  for (const [name, member] of Object.entries(value)) {
    const flaw = member === undefined ? undefined : flawOf(member, within);
    if (flaw) return { ...flaw, path: `.${name}${flaw.path}` };
  }
  return;
}

function here(problem: string): Flaw {
  return { path: '', problem };
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Converts a value to JSON and back; `undefined` if it has no JSON form. */
export function asJson(value: unknown): unknown {
  try {
    const text = JSON.stringify(value);
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Converts a value that user code or a peer gave to JSON and back; `undefined` if it has no JSON form, or nests deeper than `levels`. */
export function givenJson(value: unknown, levels = maxJsonDepth): unknown {
  try {
    const text = jsonText(value, { levels });
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The JSON of a value, independent of the order of members. */
export function stableJson(value: unknown): string {
  const sorted = (_: string, member: unknown) =>
    isPlainObject(member) ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1))) : member;
  return JSON.stringify(asJson(value), sorted) ?? '';
}

/** Whether the value is an object as JSON has it: not an array or another iterable. */
export function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype || !(Symbol.iterator in value);
}

/** The maximum number of values in a client's JSON: members and items at all levels. Each is parsed, checked, copied and written about ten times. */
export const maxJsonValues = 20_000;

const quote = 0x22;
const comma = 0x2c;
const backslash = 0x5c;

/**
 * Counts the levels and the values of JSON from its bytes in UTF-8, as they arrive, without parsing: what is beyond `maxDepth` or
 * `maxValues` costs only the bytes up to there. Names that come twice count twice. Keeps no bytes.
 */
export class JsonCounter {
  readonly #maxDepth: number;
  readonly #maxValues: number;
  #values = 1;
  #depth = 0;
  #isInString = false;
  /** Whether the next byte of the string is escaped. */
  #isEscaped = false;
  /** Whether an array or an object has begun whose first value has not. */
  #isOpened = false;

  constructor(maxDepth = maxJsonDepth, maxValues = maxJsonValues) {
    this.#maxDepth = maxDepth;
    this.#maxValues = maxValues;
  }

  /** Returns the limit that the bytes so far exceed. */
  add(bytes: Uint8Array): 'depth' | 'values' | undefined {
    for (let at = 0; at < bytes.length; at++) {
      if (this.#isInString) {
        at = this.#endOfString(bytes, at);
        continue;
      }
      const byte = bytes[at] ?? 0;
      if (byte <= 0x20) continue;
      const closes = byte === 0x5d || byte === 0x7d;
      if (this.#isOpened && !closes) this.#values++;
      this.#isOpened = byte === 0x5b || byte === 0x7b;
      if (closes) this.#depth--;
      else if (byte === quote) this.#isInString = true;
      else if (byte === comma) this.#values++;
      else if (this.#isOpened && ++this.#depth > this.#maxDepth) return 'depth';
      if (this.#values > this.#maxValues) return 'values';
    }
    return undefined;
  }

  /** The end of the string that continues at `from`; the length of the bytes if it does not end in them. */
  #endOfString(bytes: Uint8Array, from: number): number {
    for (let begin = from; begin < bytes.length; ) {
      const found = bytes.indexOf(quote, begin);
      const end = found < 0 ? bytes.length : found;
      let first = end;
      while (first > begin && bytes[first - 1] === backslash) first--;
      const isOdd = (end - first) % 2 === 1;
      // A byte that an earlier backslash escapes is not one that escapes.
      const isEscaped = first === begin && this.#isEscaped ? !isOdd : isOdd;
      this.#isEscaped = found < 0 && isEscaped;
      if (found < 0) return end;
      if (!isEscaped) {
        this.#isInString = false;
        return end;
      }
      begin = end + 1;
    }
    return bytes.length;
  }
}
