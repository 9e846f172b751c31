export {
  PostgresCacheStore,
  type PostgresCacheStoreOptions,
  PostgresMessageStore,
  type PostgresMessageStoreOptions,
  PostgresPushStore,
  type PostgresPushStoreOptions,
} from './postgres-side-stores.ts';
export { PostgresStateStore, type PostgresStateStoreOptions } from './postgres-state-store.ts';
export type { PostgresConnectionOptions, PostgresTarget } from './postgres-target.ts';
