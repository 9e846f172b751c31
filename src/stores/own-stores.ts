import * as lmdb from './lmdb/index.ts';
import * as postgres from './postgres/index.ts';
import * as redis from './redis/index.ts';

/**
 * The stores of their own entries. The build has scripts/own-stores.mjs in place of this file: what imports the package loads none of
 * them then, and the first store that is made loads its entry, synchronously.
 */
export const ownStores = { lmdb: () => lmdb, postgres: () => postgres, redis: () => redis };
