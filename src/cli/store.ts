import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { AgentLoopError, messageOf, type TaskStateStore } from '../core/contracts/index.ts';
import { makeFolderSync, writePrivateSync } from '../private-files.ts';
import { loadPackage } from '../stores/load-package.ts';
import { invalidConfig } from './arguments.ts';
import type { Environment } from './terminal.ts';

/** What the command line says about where journals are kept. */
export interface StoreFlags {
  readonly store?: string;
}

/** Where journals are kept. `place` names it for a person, without a password. */
export type StoreSettings =
  | { readonly kind: 'memory'; readonly place: string; readonly warning?: string }
  | { readonly kind: 'lmdb'; readonly path: string; readonly place: string }
  | { readonly kind: 'redis' | 'postgres'; readonly url: string; readonly place: string };

/** How a store of each kind is named on the command line. */
const forms: Readonly<Record<StoreSettings['kind'], string>> = {
  memory: 'memory',
  lmdb: 'lmdb[:FOLDER]',
  redis: 'redis://HOST:PORT',
  postgres: 'postgres://HOST/DATABASE',
};
const { memory: _, ...lastingForms } = forms;

/** What `--store` takes. */
export const anyStore = alternatives(Object.values(forms));

/** What `--store` takes where turns have to outlive the process. */
export const anyLastingStore = alternatives(Object.values(lastingForms));

function alternatives(words: readonly string[]): string {
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

const defaultFolder = '.millrace';
const variable = 'MILLRACE_STORE';
const memoryPlace = 'the memory of this process';

/**
 * Decides from the command line, then from `MILLRACE_STORE`; else it is LMDB in `.millrace/` of the working folder.
 * @throws AgentLoopError `INVALID_CONFIG`. What was given is not repeated: it may hold a password.
 */
export function storeSettings({ store }: StoreFlags, env: Environment): StoreSettings {
  const fromEnvironment = env[variable]?.trim();
  if (store !== undefined) return settingsOf(store.trim(), '--store');
  return settingsOf(fromEnvironment || 'lmdb', variable);
}

/** The same for a command that runs turns: without the package of the default store they are kept in memory, with a warning. */
export function turnStore(flags: StoreFlags, env: Environment): StoreSettings {
  const settings = storeSettings(flags, env);
  const isChosen = flags.store !== undefined || (env[variable]?.trim() ?? '') !== '';
  if (isChosen || settings.kind !== 'lmdb' || canLoad('lmdb')) return settings;
  const warning =
    'the turn is kept in memory and cannot be resumed later: the package "lmdb" cannot be loaded; run `npm install lmdb`';
  return { kind: 'memory', place: memoryPlace, warning };
}

/** An installed package whose binary is for another platform cannot be loaded either. */
export function canLoad(name: string): boolean {
  try {
    loadPackage(name);
    return true;
  } catch {
    return false;
  }
}

/**
 * The same for a command that works on tasks of earlier processes.
 * @throws AgentLoopError `INVALID_CONFIG` for memory, `NOT_FOUND` for a folder that is not there.
 */
export function lastingStore(flags: StoreFlags, env: Environment): Exclude<StoreSettings, { kind: 'memory' }> {
  const settings = storeSettings(flags, env);
  if (settings.kind === 'memory') {
    throw invalidConfig(
      `the memory of another process cannot be read; name the store of the turn: --store ${anyLastingStore}`,
    );
  }
  if (settings.kind === 'lmdb' && !existsSync(settings.path)) {
    throw new AgentLoopError(
      'NOT_FOUND',
      `there is no store in ${settings.path}: the folder does not exist; name the store with --store`,
    );
  }
  return settings;
}

function settingsOf(text: string, source: string): StoreSettings {
  if (text === 'memory') return { kind: 'memory', place: memoryPlace };
  if (text === 'lmdb') return lmdbIn(defaultFolder);
  if (text.startsWith('lmdb:') && text !== 'lmdb:') return lmdbIn(text.slice('lmdb:'.length));
  if (isUrl(text, ['redis:', 'rediss:'])) return { kind: 'redis', url: text, place: `Redis at ${shownUrl(text)}` };
  if (isUrl(text, ['postgres:', 'postgresql:'])) {
    return { kind: 'postgres', url: text, place: `PostgreSQL at ${shownUrl(text)}` };
  }
  throw invalidConfig(`${source} must be ${anyStore}; with TLS, an address begins with rediss://`);
}

function lmdbIn(folder: string): StoreSettings {
  const path = resolve(folder);
  return { kind: 'lmdb', path, place: `the LMDB store in ${path}` };
}

/** Where journals are on this disk: LMDB makes a file beside the path, too, where the path is a file. */
export function storeFiles(settings: StoreSettings): readonly string[] {
  return settings.kind === 'lmdb' ? [settings.path, `${settings.path}-lock`] : [];
}

/** Whether it is the address of a server of one of these protocols. */
export function isUrl(text: string, protocols: readonly string[]): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return protocols.includes(protocol) && hostname !== '';
}

/** The settings as the command line takes them; of an address without its query, and with words in place of a user name and a password. */
export function shownStore(settings: StoreSettings): string {
  switch (settings.kind) {
    case 'memory':
      return 'memory';
    case 'lmdb':
      return `lmdb:${settings.path}`;
    case 'redis':
    case 'postgres':
      return shownUrl(settings.url, placeholders(settings.url));
  }
}

/** What says to whoever copies a command that something secret belongs there. */
function placeholders(url: string): string {
  const { username, password } = new URL(url);
  const user = username === '' ? '' : 'USER';
  return `${user}${password === '' ? '' : ':PASSWORD'}${username + password === '' ? '' : '@'}`;
}

/** An address for a person, without its password. */
export function shownUrl(url: string, credentials = ''): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${credentials}${host}${pathname === '/' ? '' : pathname}`;
}

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
