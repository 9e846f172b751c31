export { RedisArtifactStore, type RedisArtifactStoreOptions } from './redis-artifact-store.ts';
export type { RedisClient, RedisTarget } from './redis-connection.ts';
export { RedisMessageStore, type RedisMessageStoreOptions } from './redis-message-store.ts';
export {
  RedisCacheStore,
  type RedisCacheStoreOptions,
  RedisPushStore,
  type RedisPushStoreOptions,
} from './redis-side-stores.ts';
export { RedisStateStore, type RedisStateStoreOptions } from './redis-state-store.ts';
