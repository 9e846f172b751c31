import { shownValue } from './shown-value.ts';

/** Names the first member that JSON would lose or change; members that are `undefined` count as left out. `at` names the value itself. */
export function jsonFlaw(value: unknown, at: string, within: readonly object[] = []): string | undefined {
  if (value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value)) return;
  if (typeof value !== 'object') return `${at} is ${typeof value === 'bigint' ? 'a bigint' : shownValue(value)}`;
  if (within.includes(value)) return `${at} contains itself`;
  const inside = [...within, value];
  if (Array.isArray(value)) return first(value.entries(), (index) => `${at}[${index}]`, inside);
  if (!isPlain(value)) return `${at} is a ${value.constructor?.name ?? 'class instance'}`;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return first(members, (name) => `${at}.${name}`, inside);
}

function first<Key>(
  members: Iterable<readonly [Key, unknown]>,
  nameOf: (key: Key) => string,
  within: readonly object[],
): string | undefined {
  for (const [key, member] of members) {
    const flaw = jsonFlaw(member, nameOf(key), within);
    if (flaw !== undefined) return flaw;
  }
  return undefined;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
