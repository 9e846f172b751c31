export { LmdbCacheStore, type LmdbCacheStoreOptions } from './lmdb-cache-store.ts';
export { LmdbMessageStore, type LmdbMessageStoreOptions } from './lmdb-message-store.ts';
export { LmdbPushStore, type LmdbPushStoreOptions } from './lmdb-push-store.ts';
export { LmdbStateStore, type LmdbStateStoreOptions } from './lmdb-state-store.ts';
