import { AgentLoopError, invalidConfig, shownValue } from '../core/contracts/index.ts';
import { type FolderArtifactStoreOptions, folderArtifactStore } from './artifacts/folder-artifact-store.ts';
import { InMemoryArtifactStore, type InMemoryArtifactStoreOptions } from './artifacts/in-memory-artifact-store.ts';
import { InMemoryCacheStore, type InMemoryCacheStoreOptions } from './cache/cache-store.ts';
import type { LmdbCacheStoreOptions, LmdbMessageStoreOptions } from './lmdb/lmdb-side-stores.ts';
import type { LmdbStateStoreOptions } from './lmdb/lmdb-state-store.ts';
import { InMemoryStateStore, type InMemoryStateStoreOptions } from './memory/in-memory-state-store.ts';
import { InMemoryMessageStore, type InMemoryMessageStoreOptions } from './messages/table-message-store.ts';
import { ownStores } from './own-stores.ts';
import type { PostgresCacheStoreOptions, PostgresMessageStoreOptions } from './postgres/postgres-side-stores.ts';
import type { PostgresStateStoreOptions } from './postgres/postgres-state-store.ts';
import type { RedisArtifactStoreOptions } from './redis/redis-artifact-store.ts';
import type { RedisMessageStoreOptions } from './redis/redis-message-store.ts';
import type { RedisCacheStoreOptions } from './redis/redis-side-stores.ts';
import type { RedisStateStoreOptions } from './redis/redis-state-store.ts';

/** `type` selects the store; the rest are its options. */
export type StateStoreOptions =
  | ({ readonly type: 'memory' } & InMemoryStateStoreOptions)
  | ({ readonly type: 'lmdb' } & LmdbStateStoreOptions)
  | ({ readonly type: 'postgres' } & PostgresStateStoreOptions)
  | ({ readonly type: 'redis' } & RedisStateStoreOptions);

/** `type` selects the store; the rest are its options. */
export type MessageStoreOptions =
  | ({ readonly type: 'memory' } & InMemoryMessageStoreOptions)
  | ({ readonly type: 'lmdb' } & LmdbMessageStoreOptions)
  | ({ readonly type: 'postgres' } & PostgresMessageStoreOptions)
  | ({ readonly type: 'redis' } & RedisMessageStoreOptions);

/** `type` selects the store; the rest are its options. */
export type ArtifactStoreOptions =
  | ({ readonly type: 'memory' } & InMemoryArtifactStoreOptions)
  /** `path`: the folder. */
  | ({ readonly type: 'folder'; readonly path: string } & FolderArtifactStoreOptions)
  | ({ readonly type: 'redis' } & RedisArtifactStoreOptions);

/** `type` selects the store; the rest are its options. */
export type CacheStoreOptions =
  | ({ readonly type: 'memory' } & InMemoryCacheStoreOptions)
  | ({ readonly type: 'lmdb' } & LmdbCacheStoreOptions)
  | ({ readonly type: 'postgres' } & PostgresCacheStoreOptions)
  | ({ readonly type: 'redis' } & RedisCacheStoreOptions);

interface Typed {
  readonly type: string;
}

/** Makes the store of each type. The compiler names a type that it lacks. */
type Makers<Options extends Typed> = {
  readonly [Type in Options['type']]: (options: Extract<Options, { readonly type: Type }>) => object;
};

/**
 * Creates stores from plain configuration, synchronously. If the type is known at compile time, so is the class of the store, with its
 * `close`. The first store of `lmdb`, `postgres` or `redis` loads that entry of this package. Errors: `INVALID_CONFIG` for an unknown type or
 * option; those of the store's constructor.
 */
export const StoreFactory = { createStateStore, createMessageStore, createArtifactStore, createCacheStore };

const stateStores = {
  memory: (options) => new InMemoryStateStore(withoutType(options)),
  lmdb: (options) => new (ownStores.lmdb().LmdbStateStore)(withoutType(options)),
  postgres: (options) => new (ownStores.postgres().PostgresStateStore)(withoutType(options)),
  redis: (options) => new (ownStores.redis().RedisStateStore)(withoutType(options)),
} satisfies Makers<StateStoreOptions>;

const messageStores = {
  memory: (options) => new InMemoryMessageStore(withoutType(options)),
  lmdb: (options) => new (ownStores.lmdb().LmdbMessageStore)(withoutType(options)),
  postgres: (options) => new (ownStores.postgres().PostgresMessageStore)(withoutType(options)),
  redis: (options) => new (ownStores.redis().RedisMessageStore)(withoutType(options)),
} satisfies Makers<MessageStoreOptions>;

const artifactStores = {
  memory: (options) => new InMemoryArtifactStore(withoutType(options)),
  folder: ({ type: _, path, ...options }) => folderArtifactStore(path, options),
  redis: (options) => new (ownStores.redis().RedisArtifactStore)(withoutType(options)),
} satisfies Makers<ArtifactStoreOptions>;

const cacheStores = {
  memory: (options) => new InMemoryCacheStore(withoutType(options)),
  lmdb: (options) => new (ownStores.lmdb().LmdbCacheStore)(withoutType(options)),
  postgres: (options) => new (ownStores.postgres().PostgresCacheStore)(withoutType(options)),
  redis: (options) => new (ownStores.redis().RedisCacheStore)(withoutType(options)),
} satisfies Makers<CacheStoreOptions>;

function createStateStore<Type extends StateStoreOptions['type']>(
  options: StateStoreOptions & { readonly type: Type },
): ReturnType<(typeof stateStores)[Type]>;
function createStateStore(options: StateStoreOptions): object {
  return made<StateStoreOptions>('createStateStore', stateStores, options);
}

function createMessageStore<Type extends MessageStoreOptions['type']>(
  options: MessageStoreOptions & { readonly type: Type },
): ReturnType<(typeof messageStores)[Type]>;
function createMessageStore(options: MessageStoreOptions): object {
  return made<MessageStoreOptions>('createMessageStore', messageStores, options);
}

function createArtifactStore<Type extends ArtifactStoreOptions['type']>(
  options: ArtifactStoreOptions & { readonly type: Type },
): ReturnType<(typeof artifactStores)[Type]>;
function createArtifactStore(options: ArtifactStoreOptions): object {
  return made<ArtifactStoreOptions>('createArtifactStore', artifactStores, options);
}

function createCacheStore<Type extends CacheStoreOptions['type']>(
  options: CacheStoreOptions & { readonly type: Type },
): ReturnType<(typeof cacheStores)[Type]>;
function createCacheStore(options: CacheStoreOptions): object {
  return made<CacheStoreOptions>('createCacheStore', cacheStores, options);
}

/** Errors: `INVALID_CONFIG` for a type that is not known, and where a program without types gives no options. */
function made<Options extends Typed, Type extends Options['type'] = Options['type']>(
  method: string,
  makers: Makers<Options>,
  given: Extract<Options, { readonly type: Type }>,
): object {
  if (typeof given !== 'object' || given === null) {
    const example = `StoreFactory.${method}({ type: 'memory' })`;
    throw invalidConfig(`${method} needs options, not ${shownValue(given)}`, `write ${example}`);
  }
  const type: Type = given.type;
  if (!Object.hasOwn(makers, type)) {
    const known = Object.keys(makers).join(', ');
    throw new AgentLoopError('INVALID_CONFIG', `The store type "${type}" is not known; known types: ${known}.`);
  }
  return makers[type](given);
}

/** What the store itself takes; it refuses options that it does not know. */
function withoutType<O extends Typed>({ type: _, ...options }: O): Omit<O, 'type'> {
  return options;
}
