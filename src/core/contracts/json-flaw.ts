import { shownValue } from './shown-value.ts';

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
