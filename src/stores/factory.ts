import { AgentLoopError } from '../core/errors.ts';
import type { TaskStateStore } from './interfaces.ts';
import { LmdbStateStore, type LmdbStateStoreOptions } from './lmdb/lmdb-state-store.ts';
import { InMemoryStateStore, type InMemoryStateStoreOptions } from './memory/in-memory-state-store.ts';

/** `type` says which store; the rest are the options of that store. */
export type StateStoreOptions =
  | ({ readonly type: 'memory' } & InMemoryStateStoreOptions)
  | ({ readonly type: 'lmdb' } & LmdbStateStoreOptions);

const stateStoreTypes: readonly StateStoreOptions['type'][] = ['memory', 'lmdb'];

/** Makes stores from plain configuration. */
export const StoreFactory = {
  /** Makes a `TaskStateStore`, synchronously. Errors: `INVALID_CONFIG` for a type that is not known; those of the store's constructor. */
  createStateStore(options: StateStoreOptions): TaskStateStore {
    const { type }: { readonly type: string } = options;
    switch (options.type) {
      case 'memory':
        return new InMemoryStateStore(options);
      case 'lmdb':
        return new LmdbStateStore(options);
      default:
        throw unknownType(type);
    }
  },
};

function unknownType(type: string): AgentLoopError {
  return new AgentLoopError(
    'INVALID_CONFIG',
    `The store type "${type}" is not known; known types: ${stateStoreTypes.join(', ')}.`,
  );
}
