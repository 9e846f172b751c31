import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { AgentLoopError, messageOf, type TaskStateStore } from '../core/contracts/index.ts';
import { makeFolderSync, writePrivateSync } from '../files/private-files.ts';
import type { StoreSettings } from './store-settings.ts';

/** A store that is ready to be used. */
export interface OpenStore {
  readonly store: TaskStateStore;
  readonly settings: StoreSettings;
  /** Whether its tasks outlive this process. */
  readonly durable: boolean;
  close(): Promise<void>;
}

/**
 * Opens the store; loads its package. A new folder of journals tells git to leave it alone.
 * @throws AgentLoopError of the store; for a folder that cannot be used, one that names it and the ways out.
 */
export async function openStore(settings: StoreSettings): Promise<OpenStore> {
  const store = await madeStore(settings);
  return {
    store,
    settings,
    durable: settings.kind !== 'memory',
    close: async () => {
      if (isClosable(store)) await store.close();
    },
  };
}

/** Warnings about the configuration of the store, shown once. */
export async function storeWarnings({ store, durable, settings }: OpenStore): Promise<readonly string[]> {
  if (settings.kind === 'memory' && settings.warning !== undefined) return [settings.warning];
  try {
    return durable ? (await store.check()).warnings : [];
  } catch (thrown) {
    throw atPlace(thrown, settings);
  }
}

/** An error that names the server that does not answer. */
export function atPlace(thrown: unknown, { kind, place }: StoreSettings): unknown {
  if ((kind !== 'redis' && kind !== 'postgres') || !AgentLoopError.isInstance(thrown) || thrown.code !== 'UNAVAILABLE')
    return thrown;
  const message = thrown.message.replace(/^(Redis|PostgreSQL) /, `${place} `);
  return new AgentLoopError(thrown.code, message, { cause: thrown });
}

async function madeStore(settings: StoreSettings): Promise<TaskStateStore> {
  switch (settings.kind) {
    case 'memory': {
      const { InMemoryStateStore } = await import('../stores/memory/in-memory-state-store.ts');
      return new InMemoryStateStore();
    }
    case 'lmdb': {
      const { LmdbStateStore } = await import('../stores/lmdb/index.ts');
      return inFolder(settings, () => new LmdbStateStore({ path: settings.path }));
    }
    case 'postgres': {
      const { PostgresStateStore } = await import('../stores/postgres/index.ts');
      return new PostgresStateStore({ postgres: settings.url });
    }
    case 'redis': {
      const { RedisStateStore } = await import('../stores/redis/index.ts');
      return new RedisStateStore({ redis: settings.url });
    }
  }
}

function inFolder<T>({ path }: { readonly path: string }, open: () => T): T {
  try {
    keepOutOfGit(path);
    return open();
  } catch (thrown) {
    throw unusable(path, thrown);
  }
}

function keepOutOfGit(path: string): void {
  if (existsSync(path)) return;
  // Made recursively, a folder on a read-only disk is "no such file", and one below /proc never ends.
  makeFolderSync(path, { recursive: !existsSync(dirname(path)) });
  writePrivateSync(join(path, '.gitignore'), '*\n');
}

function unusable(path: string, thrown: unknown): AgentLoopError {
  if (AgentLoopError.isInstance(thrown) && thrown.code === 'MISSING_PACKAGE') return thrown;
  const code = AgentLoopError.isInstance(thrown) ? thrown.code : 'UNAVAILABLE';
  const why = code === 'UNAVAILABLE' ? reasonOf(thrown) : messageOf(thrown).replace(/\.$/, '');
  return new AgentLoopError(
    code,
    `the journals of turns cannot be kept in ${path}: ${why}; use --store lmdb:FOLDER with a folder that this process may write to, or --store memory to keep none`,
    { cause: thrown },
  );
}

/** What the file system said, without the sentence that the store puts around it. */
function reasonOf(thrown: unknown): string {
  const cause = AgentLoopError.isInstance(thrown) ? thrown.cause : thrown;
  return messageOf(cause ?? thrown).replace(/\.$/, '');
}

function isClosable(store: object): store is { close(): Promise<void> } {
  return 'close' in store && typeof store.close === 'function';
}
