export { RedisArtifactStore, type RedisArtifactStoreOptions } from './redis-artifact-store.ts';
export { RedisCacheStore, type RedisCacheStoreOptions } from './redis-cache-store.ts';
export type { RedisTarget } from './redis-connection.ts';
export { RedisMessageStore, type RedisMessageStoreOptions } from './redis-message-store.ts';
export { RedisPushStore, type RedisPushStoreOptions } from './redis-push-store.ts';
export { RedisStateStore, type RedisStateStoreOptions } from './redis-state-store.ts';
