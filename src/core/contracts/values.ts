/** A value, or a promise of it. */
export type MaybePromise<T> = T | Promise<T>;

/** Whether something has to be waited for. */
export function isPromiseLike<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

/** Every member may be left out, or be `undefined`. */
export type Optional<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/** Every member is there, and none is `undefined`: options with their defaults. `Required` leaves an explicit `undefined` in. */
export type Defined<T> = { readonly [Name in keyof T]-?: Exclude<T[Name], undefined> };

/** What is there of a `T` while it is still being written. */
export type Partially<T> = T extends readonly (infer Item)[]
  ? readonly Partially<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]?: Partially<T[Key]> }
    : T;

/** Neither `null` nor an array. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A wrong value as an error message names it: texts quoted and cut, objects not spelled out. */
export function shownValue(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 40));
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

/** How deep JSON of others may nest. It is read at any depth, but written, compared and checked by recursion, which ends at some thousand levels. */
export const maxJsonDepth = 500;

/** Whether a value without circles nests deeper than that. A level at a time, so that no depth ends it. */
export function nestsTooDeep(value: unknown): boolean {
  let level = [value].filter(isNested);
  for (let depth = 0; level.length > 0; depth++) {
    if (depth === maxJsonDepth) return true;
    level = level.flatMap((one) => Object.values(one).filter(isNested));
  }
  return false;
}

/** How many values JSON of a client may have: members and items at all levels. Each is read, checked, copied and written some ten times. */
export const maxJsonValues = 20_000;

/** Whether a value without circles has more values in it than that. */
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
 * Whether a value without circles has a number that is not finite. `JSON.parse` makes one of `1e999`, and JSON writes it as `null`: what is shown
 * and stored would be another value than the one that is used.
 */
export function hasInfiniteNumber(value: unknown): boolean {
  let level: readonly unknown[] = [value];
  while (level.length > 0) {
    if (level.some((one) => typeof one === 'number' && !Number.isFinite(one))) return true;
    level = level.filter(isNested).flatMap((one) => Object.values(one));
  }
  return false;
}

/** In the text of every number beyond 1.8e308. */
const largeNumber = /\d{300}|[eE]\+?\d{2}/;

/** The value of a JSON text. Throws as `JSON.parse`, and a `RangeError` where the value nests too deep or has a number beyond 1.8e308. */
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

/** Names the first member that JSON would lose or change; members that are `undefined` count as left out. `at` names the value itself. */
export function jsonFlaw(value: unknown, at: string): string | undefined {
  const flaw = flawOf(value, []);
  return flaw && `${at}${flaw.path} ${flaw.problem}`;
}

interface Flaw {
  /** Where it is in the value: written on the way back, for most values have no flaw. */
  readonly path: string;
  readonly problem: string;
}

/** `within`: the objects that the value is in. */
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

/** A value as it comes back from JSON; `undefined` where it has no JSON form. */
export function asJson(value: unknown): unknown {
  try {
    const text = JSON.stringify(value);
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The JSON of a value, the same whatever the order of its members. */
export function stableJson(value: unknown): string {
  const sorted = (_: string, member: unknown) =>
    isPlainObject(member) ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1))) : member;
  return JSON.stringify(asJson(value), sorted) ?? '';
}

/** An object of JSON's form: no array, and nothing else to iterate. */
export function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype || !(Symbol.iterator in value);
}

/** A map of at most `most` entries: those that were set last. */
export class RecentMap<K, V> {
  readonly #most: number;
  /** What was set last stands last. */
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
