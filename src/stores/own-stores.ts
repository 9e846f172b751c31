import * as lmdb from './lmdb/index.ts';
import * as postgres from './postgres/index.ts';
import * as redis from './redis/index.ts';

/**
 * The stores that are separate entries of the package. `scripts/build.mjs` replaces this file: importing the package then loads none of them, and the
 * first created store loads its entry, synchronously.
 */
export const ownStores = { lmdb: () => lmdb, postgres: () => postgres, redis: () => redis };
