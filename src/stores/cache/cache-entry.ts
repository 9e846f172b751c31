import { createHash } from 'node:crypto';
import { AgentLoopError, jsonFlaw, shownValue } from '../../core/contracts/index.ts';
import type { CacheSetOptions } from './cache-store.ts';

const longestKey = 512;

/** Errors with `INVALID_INPUT` for what is no key of a cache. */
export function assertCacheKey(key: string): void {
  if (typeof key === 'string' && key !== '' && key.length <= longestKey) return;
  const given = typeof key === 'string' && key !== '' ? `one of ${key.length} characters` : shownValue(key);
  throw invalid(`A cache key must be a string of 1 to ${longestKey} characters, not ${given}.`);
}

/** The value as the JSON text that a store keeps. Errors with `INVALID_INPUT` for what JSON would lose or change, and for a wrong time. */
export function cacheEntryText(value: unknown, { ttlMs }: CacheSetOptions): string {
  if (ttlMs !== undefined && !(ttlMs > 0 && Number.isFinite(ttlMs))) {
    throw invalid(`ttlMs is ${shownValue(ttlMs)}; give milliseconds above 0, or leave it out.`);
  }
  const flaw = jsonFlaw(value, 'the value');
  if (flaw !== undefined) throw invalid(`A cache keeps values of JSON, but ${flaw}.`);
  return JSON.stringify(value);
}

/** The value of such a string; `undefined` for an unreadable one, which counts as a miss. */
export function cacheEntryValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A key of any length and with any characters, in a form that is good for a part of a key of any store. */
export function cacheKeyHash(key: string): string {
  return createHash('sha256').update(key).digest('base64url');
}

/** A limit of a store. Errors: `INVALID_CONFIG`, naming the store and the option. */
export function atLeastOne(store: string, option: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 1) return value;
  const message = `${store}: ${option} is ${shownValue(value)}; give a whole number from 1, or leave it out.`;
  throw new AgentLoopError('INVALID_CONFIG', message);
}

function invalid(message: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', message);
}
