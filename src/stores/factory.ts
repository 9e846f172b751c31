import { AgentLoopError } from '../core/errors.ts';
import type { TaskStateStore } from './interfaces.ts';
import { LmdbStateStore, type LmdbStateStoreOptions } from './lmdb/lmdb-state-store.ts';
import { InMemoryStateStore, type InMemoryStateStoreOptions } from './memory/in-memory-state-store.ts';
import { RedisStateStore, type RedisStateStoreOptions } from './redis/redis-state-store.ts';

/** `type` says which store; the rest are the options of that store. */
export type StateStoreOptions =
  | ({ readonly type: 'memory' } & InMemoryStateStoreOptions)
  | ({ readonly type: 'lmdb' } & LmdbStateStoreOptions)
  | ({ readonly type: 'redis' } & RedisStateStoreOptions);

const stateStoreTypes: readonly StateStoreOptions['type'][] = ['memory', 'lmdb', 'redis'];

/** Makes stores from plain configuration. */
export const StoreFactory = {
  /**
   * Makes a `TaskStateStore`, synchronously. Errors: `INVALID_CONFIG` for a type or an option that is not known; those of the store's
   * constructor.
   */
  createStateStore(options: StateStoreOptions): TaskStateStore {
    const { type }: { readonly type: string } = options;
    switch (options.type) {
      case 'memory':
        return new InMemoryStateStore(withoutType(options));
      case 'lmdb':
        return new LmdbStateStore(withoutType(options));
      case 'redis':
        return new RedisStateStore(withoutType(options));
      default:
        throw unknownType(type);
    }
  },
};

/** What the store itself takes; it refuses options that it does not know. */
function withoutType<O extends StateStoreOptions>({ type: _, ...options }: O): Omit<O, 'type'> {
  return options;
}

function unknownType(type: string): AgentLoopError {
  return new AgentLoopError(
    'INVALID_CONFIG',
    `The store type "${type}" is not known; known types: ${stateStoreTypes.join(', ')}.`,
  );
}
