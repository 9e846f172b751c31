import {
  AgentLoopError,
  type ArtifactStore,
  invalidConfig,
  type MessageStore,
  shownValue,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import { type FolderArtifactStoreOptions, folderArtifactStore } from './artifacts/folder-artifact-store.ts';
import { InMemoryArtifactStore, type InMemoryArtifactStoreOptions } from './artifacts/in-memory-artifact-store.ts';
import { type CacheStore, InMemoryCacheStore, type InMemoryCacheStoreOptions } from './cache/cache-store.ts';
import type {
  LmdbCacheStore,
  LmdbCacheStoreOptions,
  LmdbMessageStore,
  LmdbMessageStoreOptions,
} from './lmdb/lmdb-side-stores.ts';
import type { LmdbStateStore, LmdbStateStoreOptions } from './lmdb/lmdb-state-store.ts';
import { InMemoryStateStore, type InMemoryStateStoreOptions } from './memory/in-memory-state-store.ts';
import { InMemoryMessageStore, type InMemoryMessageStoreOptions } from './messages/table-message-store.ts';
import { ownStores } from './own-stores.ts';
import type {
  PostgresCacheStore,
  PostgresCacheStoreOptions,
  PostgresMessageStore,
  PostgresMessageStoreOptions,
} from './postgres/postgres-side-stores.ts';
import type { PostgresStateStore, PostgresStateStoreOptions } from './postgres/postgres-state-store.ts';
import type { RedisArtifactStore, RedisArtifactStoreOptions } from './redis/redis-artifact-store.ts';
import type { RedisMessageStore, RedisMessageStoreOptions } from './redis/redis-message-store.ts';
import type { RedisCacheStore, RedisCacheStoreOptions } from './redis/redis-side-stores.ts';
import type { RedisStateStore, RedisStateStoreOptions } from './redis/redis-state-store.ts';

/** `type` says which store; the rest are the options of that store. */
export type StateStoreOptions =
  | ({ readonly type: 'memory' } & InMemoryStateStoreOptions)
  | ({ readonly type: 'lmdb' } & LmdbStateStoreOptions)
  | ({ readonly type: 'postgres' } & PostgresStateStoreOptions)
  | ({ readonly type: 'redis' } & RedisStateStoreOptions);

/** `type` says which store; the rest are the options of that store. */
export type MessageStoreOptions =
  | ({ readonly type: 'memory' } & InMemoryMessageStoreOptions)
  | ({ readonly type: 'lmdb' } & LmdbMessageStoreOptions)
  | ({ readonly type: 'postgres' } & PostgresMessageStoreOptions)
  | ({ readonly type: 'redis' } & RedisMessageStoreOptions);

/** `type` says which store; the rest are the options of that store. */
export type ArtifactStoreOptions =
  | ({ readonly type: 'memory' } & InMemoryArtifactStoreOptions)
  /** `path`: the folder. */
  | ({ readonly type: 'folder'; readonly path: string } & FolderArtifactStoreOptions)
  | ({ readonly type: 'redis' } & RedisArtifactStoreOptions);

/** `type` says which store; the rest are the options of that store. */
export type CacheStoreOptions =
  | ({ readonly type: 'memory' } & InMemoryCacheStoreOptions)
  | ({ readonly type: 'lmdb' } & LmdbCacheStoreOptions)
  | ({ readonly type: 'postgres' } & PostgresCacheStoreOptions)
  | ({ readonly type: 'redis' } & RedisCacheStoreOptions);

/**
 * Makes stores from plain configuration, synchronously. Where the type is known when the program is compiled, so is the class of the store, and its
 * `close`. The first store of `lmdb`, `postgres` or `redis` loads that entry of this package. Errors: `INVALID_CONFIG` for a type or an option that is not
 * known; those of the store's constructor.
 */
export const StoreFactory = { createStateStore, createMessageStore, createArtifactStore, createCacheStore };

function createStateStore(options: Extract<StateStoreOptions, { readonly type: 'memory' }>): InMemoryStateStore;
function createStateStore(options: Extract<StateStoreOptions, { readonly type: 'lmdb' }>): LmdbStateStore;
function createStateStore(options: Extract<StateStoreOptions, { readonly type: 'postgres' }>): PostgresStateStore;
function createStateStore(options: Extract<StateStoreOptions, { readonly type: 'redis' }>): RedisStateStore;
function createStateStore(
  options: StateStoreOptions,
): InMemoryStateStore | LmdbStateStore | PostgresStateStore | RedisStateStore;
function createStateStore(options: StateStoreOptions): TaskStateStore {
  const type = typeOf('createStateStore', options);
  switch (options.type) {
    case 'memory':
      return new InMemoryStateStore(withoutType(options));
    case 'lmdb':
      return new (ownStores.lmdb().LmdbStateStore)(withoutType(options));
    case 'postgres':
      return new (ownStores.postgres().PostgresStateStore)(withoutType(options));
    case 'redis':
      return new (ownStores.redis().RedisStateStore)(withoutType(options));
    default:
      throw unknownType(type, options, ['memory', 'lmdb', 'postgres', 'redis']);
  }
}

function createMessageStore(options: Extract<MessageStoreOptions, { readonly type: 'memory' }>): InMemoryMessageStore;
function createMessageStore(options: Extract<MessageStoreOptions, { readonly type: 'lmdb' }>): LmdbMessageStore;
function createMessageStore(options: Extract<MessageStoreOptions, { readonly type: 'postgres' }>): PostgresMessageStore;
function createMessageStore(options: Extract<MessageStoreOptions, { readonly type: 'redis' }>): RedisMessageStore;
function createMessageStore(
  options: MessageStoreOptions,
): InMemoryMessageStore | LmdbMessageStore | PostgresMessageStore | RedisMessageStore;
function createMessageStore(options: MessageStoreOptions): MessageStore {
  const type = typeOf('createMessageStore', options);
  switch (options.type) {
    case 'memory':
      return new InMemoryMessageStore(withoutType(options));
    case 'lmdb':
      return new (ownStores.lmdb().LmdbMessageStore)(withoutType(options));
    case 'postgres':
      return new (ownStores.postgres().PostgresMessageStore)(withoutType(options));
    case 'redis':
      return new (ownStores.redis().RedisMessageStore)(withoutType(options));
    default:
      throw unknownType(type, options, ['memory', 'lmdb', 'postgres', 'redis']);
  }
}

function createArtifactStore(
  options: Extract<ArtifactStoreOptions, { readonly type: 'memory' }>,
): InMemoryArtifactStore;
function createArtifactStore(options: Extract<ArtifactStoreOptions, { readonly type: 'folder' }>): ArtifactStore;
function createArtifactStore(options: Extract<ArtifactStoreOptions, { readonly type: 'redis' }>): RedisArtifactStore;
function createArtifactStore(options: ArtifactStoreOptions): InMemoryArtifactStore | ArtifactStore | RedisArtifactStore;
function createArtifactStore(options: ArtifactStoreOptions): ArtifactStore {
  const type = typeOf('createArtifactStore', options);
  switch (options.type) {
    case 'memory':
      return new InMemoryArtifactStore(withoutType(options));
    case 'folder': {
      const { path, ...rest } = withoutType(options);
      return folderArtifactStore(path, rest);
    }
    case 'redis':
      return new (ownStores.redis().RedisArtifactStore)(withoutType(options));
    default:
      throw unknownType(type, options, ['memory', 'folder', 'redis']);
  }
}

function createCacheStore(options: Extract<CacheStoreOptions, { readonly type: 'memory' }>): InMemoryCacheStore;
function createCacheStore(options: Extract<CacheStoreOptions, { readonly type: 'lmdb' }>): LmdbCacheStore;
function createCacheStore(options: Extract<CacheStoreOptions, { readonly type: 'postgres' }>): PostgresCacheStore;
function createCacheStore(options: Extract<CacheStoreOptions, { readonly type: 'redis' }>): RedisCacheStore;
function createCacheStore(
  options: CacheStoreOptions,
): InMemoryCacheStore | LmdbCacheStore | PostgresCacheStore | RedisCacheStore;
function createCacheStore(options: CacheStoreOptions): CacheStore {
  const type = typeOf('createCacheStore', options);
  switch (options.type) {
    case 'memory':
      return new InMemoryCacheStore(withoutType(options));
    case 'lmdb':
      return new (ownStores.lmdb().LmdbCacheStore)(withoutType(options));
    case 'postgres':
      return new (ownStores.postgres().PostgresCacheStore)(withoutType(options));
    case 'redis':
      return new (ownStores.redis().RedisCacheStore)(withoutType(options));
    default:
      throw unknownType(type, options, ['memory', 'lmdb', 'postgres', 'redis']);
  }
}

/** Errors: `INVALID_CONFIG` where a program without types gives no options. */
function typeOf(method: string, options: { readonly type: string } | undefined): string {
  if (typeof options === 'object' && options !== null) return options.type;
  const example = `StoreFactory.${method}({ type: 'memory' })`;
  throw invalidConfig(`${method} needs options, not ${shownValue(options)}`, `write ${example}`);
}

/** What the store itself takes; it refuses options that it does not know. */
function withoutType<O extends { readonly type: string }>({ type: _, ...options }: O): Omit<O, 'type'> {
  return options;
}

/** `_options`: none are left, so the compiler names a store that the factory does not make. */
function unknownType(type: string, _options: never, known: readonly string[]): AgentLoopError {
  return new AgentLoopError(
    'INVALID_CONFIG',
    `The store type "${type}" is not known; known types: ${known.join(', ')}.`,
  );
}
