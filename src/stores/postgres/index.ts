export { PostgresCacheStore, type PostgresCacheStoreOptions } from './postgres-cache-store.ts';
export { PostgresMessageStore, type PostgresMessageStoreOptions } from './postgres-message-store.ts';
export { PostgresPushStore, type PostgresPushStoreOptions } from './postgres-push-store.ts';
export { PostgresStateStore, type PostgresStateStoreOptions } from './postgres-state-store.ts';
export type { PostgresConnectionOptions, PostgresTarget } from './postgres-target.ts';
