import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type MessageStore, StoreFactory } from 'millrace';
import { LmdbMessageStore } from 'millrace/lmdb';
import { RedisMessageStore } from 'millrace/redis';
import { type RedisProcess, startRedis } from '../redis/redis-process.ts';

export const storeTypes = ['memory', 'lmdb', 'redis'] as const;

/** Runs an action on two stores over the same data, as two processes have them; in memory both are the same. */
export async function withStores(
  type: (typeof storeTypes)[number],
  run: (writer: MessageStore, reader: MessageStore) => Promise<void>,
): Promise<void> {
  if (type === 'memory') {
    const store = StoreFactory.createMessageStore({ type });
    return run(store, store);
  }
  const path = mkdtempSync(join(tmpdir(), 'millrace-messages-'));
  const server: RedisProcess | undefined = type === 'redis' ? await startRedis() : undefined;
  const make = () =>
    StoreFactory.createMessageStore(type === 'lmdb' ? { type, path } : { type, redis: server?.url ?? '' });
  const stores = [make(), make()] as const;
  try {
    await run(...stores);
  } finally {
    for (const store of stores) {
      if (store instanceof LmdbMessageStore || store instanceof RedisMessageStore) await store.close();
    }
    await server?.remove();
    rmSync(path, { recursive: true });
  }
}
