export { PostgresStateStore, type PostgresStateStoreOptions } from './postgres-state-store.ts';
export type { PostgresConnectionOptions, PostgresTarget } from './postgres-target.ts';
