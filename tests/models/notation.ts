import { contentParts } from 'millrace';
import { z } from 'zod';
import { isRecord } from './is-record.ts';

/** The addresses that `{server}` and `{server2}` stand for. */
export type Addresses = Readonly<Record<string, string>>;

/** A value of a case with its notation written out: `$repeat`, `$zod`, `$contentParts`, and the addresses of the servers. */
export function written<T>(value: T, addresses: Addresses = {}): T {
  return writtenValue(value, addresses) as T;
}

function writtenValue(value: unknown, addresses: Addresses): unknown {
  if (typeof value === 'string') return value.replace(/\{(server2?)\}/g, (mark, name) => addresses[name] ?? mark);
  if (Array.isArray(value)) return value.map((element) => writtenValue(element, addresses));
  if (!isRecord(value)) return value;
  if (Array.isArray(value['$repeat'])) {
    const [before, unit, times, after] = value['$repeat'];
    return before + unit.repeat(times) + after;
  }
  // The expression is part of this repository.
  if (typeof value['$zod'] === 'string') return new Function('z', `return ${value['$zod']}`)(z);
  if (Array.isArray(value['$contentParts'])) return contentParts(value['$contentParts']);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, writtenValue(member, addresses)]));
}
