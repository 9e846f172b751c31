import type { MaybePromise } from '../../core/contracts/index.ts';

export interface CacheSetOptions {
  /** How long the value may be given, in milliseconds from now, more than 0. Absent: until the store needs the room. */
  readonly ttlMs?: number | undefined;
}

/**
 * Values of JSON under keys, that may be lost at any time: what is not there is worked out again.
 *
 * Keys are texts of 1 to 512 characters. A value is given back equal in JSON terms, never the same object: who changes what
 * `get` gave changes nothing in the store. Two `set` of one key: the later one counts, with its own time to live. A method that can
 * answer at once may return the value instead of a promise; it then throws instead of rejecting. Errors: `INVALID_INPUT` for a key, a
 * value or a time that no store can hold; `UNAVAILABLE` where the store cannot be reached.
 */
export interface CacheStore {
  /** The value, or undefined where there is none or its time is over. */
  get(key: string): MaybePromise<unknown>;
  set(key: string, value: unknown, options?: CacheSetOptions): MaybePromise<void>;
  /** Does nothing where there is none. */
  delete(key: string): MaybePromise<void>;
}
