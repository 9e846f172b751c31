import type { TaskStateStore } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { PostgresStateStore } from 'millrace/postgres';
import { RedisStateStore } from 'millrace/redis';

export interface OpenedStore {
  readonly store: TaskStateStore;
  close(): Promise<void>;
}

/** The store at a folder or a URL. */
export function openedStore(kind: string, place: string): OpenedStore {
  const store = storeAt(kind, place);
  return { store, close: async () => store.close() };
}

function storeAt(kind: string, place: string) {
  if (kind === 'redis') return new RedisStateStore({ redis: place });
  if (kind === 'postgres') return new PostgresStateStore({ postgres: place, migrate: true });
  return new LmdbStateStore({ path: place });
}
