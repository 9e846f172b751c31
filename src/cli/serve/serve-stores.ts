import type { MessageStore } from '../../core/contracts/index.ts';
import type { PushStore } from '../../stores/push/push-store.ts';
import { type OpenStore, openStore } from '../open-store.ts';
import type { StoreSettings } from '../store-settings.ts';

/** What a server keeps, all in one place. */
export interface ServeStores {
  readonly journals: OpenStore;
  readonly messages: MessageStore;
  readonly push: PushStore;
  close(): Promise<void>;
}

/** Opens the stores; loads their package. Errors as `openStore`. */
export async function openServeStores(settings: StoreSettings): Promise<ServeStores> {
  const journals = await openStore(settings);
  const { messages, push, close } = await besides(settings);
  return { journals, messages, push, close: async () => void (await Promise.all([journals.close(), close()])) };
}

async function besides(settings: StoreSettings): Promise<Omit<ServeStores, 'journals'>> {
  switch (settings.kind) {
    case 'memory': {
      const { InMemoryMessageStore } = await import('../../stores/messages/in-memory-message-store.ts');
      const { InMemoryPushStore } = await import('../../stores/push/in-memory-push-store.ts');
      return { messages: new InMemoryMessageStore(), push: new InMemoryPushStore(), close: async () => {} };
    }
    case 'lmdb': {
      const { LmdbMessageStore, LmdbPushStore } = await import('../../stores/lmdb/index.ts');
      return closing(new LmdbMessageStore({ path: settings.path }), new LmdbPushStore({ path: settings.path }));
    }
    case 'postgres': {
      const { PostgresMessageStore, PostgresPushStore } = await import('../../stores/postgres/index.ts');
      const postgres = settings.url;
      return closing(new PostgresMessageStore({ postgres }), new PostgresPushStore({ postgres }));
    }
    case 'redis': {
      const { RedisMessageStore, RedisPushStore } = await import('../../stores/redis/index.ts');
      return closing(new RedisMessageStore({ redis: settings.url }), new RedisPushStore({ redis: settings.url }));
    }
  }
}

interface Closable {
  close(): Promise<void>;
}

function closing(messages: MessageStore & Closable, push: PushStore & Closable): Omit<ServeStores, 'journals'> {
  return { messages, push, close: async () => void (await Promise.all([messages.close(), push.close()])) };
}
