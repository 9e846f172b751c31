import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { AgentLoopError, messageOf } from '../core/errors.ts';
import { makeFolderSync, writePrivateSync } from '../files/private-files.ts';
import type { StateStoreOptions } from '../stores/factory.ts';
import type { TaskStateStore } from '../stores/interfaces.ts';
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
  const { StoreFactory } = await import('../stores/factory.ts');
  const store = inFolder(settings, () => StoreFactory.createStateStore(optionsOf(settings)));
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
  try {
    return durable ? (await store.check()).warnings : [];
  } catch (thrown) {
    throw atPlace(thrown, settings);
  }
}

/** An error that names the Redis that does not answer. */
export function atPlace(thrown: unknown, { kind, place }: StoreSettings): unknown {
  if (kind !== 'redis' || !AgentLoopError.isInstance(thrown) || thrown.code !== 'UNAVAILABLE') return thrown;
  const message = thrown.message.replace(/^Redis /, `${place} `);
  return new AgentLoopError(thrown.code, message, { cause: thrown });
}

function optionsOf(settings: StoreSettings): StateStoreOptions {
  switch (settings.kind) {
    case 'memory':
      return { type: 'memory' };
    case 'lmdb':
      return { type: 'lmdb', path: settings.path };
    case 'redis':
      return { type: 'redis', redis: settings.url };
  }
}

function inFolder<T>(settings: StoreSettings, open: () => T): T {
  if (settings.kind !== 'lmdb') return open();
  try {
    keepOutOfGit(settings.path);
    return open();
  } catch (thrown) {
    throw unusable(settings.path, thrown);
  }
}

function keepOutOfGit(path: string): void {
  if (existsSync(path)) return;
  // Made recursively, a folder on a read-only disk is "no such file", and one below /proc never ends.
  makeFolderSync(path, { recursive: !existsSync(dirname(path)) });
  writePrivateSync(join(path, '.gitignore'), '*\n');
}

function unusable(path: string, thrown: unknown): AgentLoopError {
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
