/** A value, or a promise of it. */
export type MaybePromise<T> = T | Promise<T>;

/** Whether a value is a promise or another thenable. */
export function isPromiseLike<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
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

/** Whether an acyclic value nests deeper than that. Iterates level by level, so that no depth overflows the stack. */
export function nestsTooDeep(value: unknown): boolean {
  let level = [value].filter(isNested);
  for (let depth = 0; level.length > 0; depth++) {
    if (depth === maxJsonDepth) return true;
    level = level.flatMap((one) => Object.values(one).filter(isNested));
  }
  return false;
}

/** The maximum number of values in a client's JSON: members and items at all levels. Each is parsed, checked, copied and written about ten times. */
export const maxJsonValues = 20_000;

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

/** Parses JSON text. Throws as `JSON.parse`, and a `RangeError` if the value nests too deep or contains a number beyond 1.8e308. */
export function parsedJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (text.length > 2 * maxJsonDepth && nestsTooDeep(value))
    throw new RangeError(`it nests deeper than ${maxJsonDepth} levels`);
  if (largeNumber.test(text) && hasInfiniteNumber(value)) throw new RangeError('it has a number beyond 1.8e308');
  return value;
}

function isNested(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** Names the first member that JSON would lose or change; `undefined` members count as absent. `at` names the value itself. */
export function jsonFlaw(value: unknown, at: string): string | undefined {
  const flaw = flawOrDepth(value);
  return flaw && `${at}${flaw.path} ${flaw.problem}`;
}

interface Flaw {
  /** Its path in the value: written while unwinding, since most values have no flaw. */
  readonly path: string;
  readonly problem: string;
}

function flawOrDepth(value: unknown): Flaw | undefined {
  try {
    return flawOf(value, []);
  } catch (error) {
    if (error instanceof RangeError) return here('nests too deep');
    throw error;
  }
}

/** `within`: the ancestors of the value. */
function flawOf(value: unknown, within: object[]): Flaw | undefined {
  if (value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value)) return;
  if (typeof value !== 'object') return here(`is ${typeof value === 'bigint' ? 'a bigint' : shownValue(value)}`);
  if (within.includes(value)) return here('contains itself');
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

/** A map that keeps the `most` entries that were set last. */
export class RecentMap<K, V> {
  readonly #most: number;
  /** In the order of the last `set`. */
  readonly #entries = new Map<K, V>();

  constructor(most: number) {
    this.#most = most;
  }

  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    for (const [oldest] of this.#entries) {
      if (this.#entries.size <= this.#most) break;
      this.#entries.delete(oldest);
    }
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }
}
