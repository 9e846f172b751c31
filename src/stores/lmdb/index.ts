export {
  LmdbCacheStore,
  type LmdbCacheStoreOptions,
  LmdbMessageStore,
  type LmdbMessageStoreOptions,
  LmdbPushStore,
  type LmdbPushStoreOptions,
} from './lmdb-side-stores.ts';
export { LmdbStateStore, type LmdbStateStoreOptions } from './lmdb-state-store.ts';
