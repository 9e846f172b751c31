import type { Command } from 'commander';
import type { Agent } from '../agent/agent.ts';
import type { MessageStore, TaskStateStore } from '../core/contracts/index.ts';
import type { TurnQueue } from '../fleet/index.ts';
import { invalidConfig } from './arguments.ts';
import { anyLastingStore, isUrl, type StoreSettings, shownUrl } from './store.ts';

/** What the command line says about the queue of turns that wait for workers. */
export interface QueueFlags {
  readonly queue?: string;
  /** Of the queue. */
  readonly name?: string;
}

/** Where the queue is. `place` names it for a person, without a password. */
export interface QueueSettings {
  readonly connection: string | { readonly postgres: string };
  readonly name: string | undefined;
  readonly place: string;
}

/** Adds the options that say where turns wait for workers; `use` says what a command does with them. */
export function addQueueFlags(command: Command, use: string): Command {
  return command
    .option('--queue <url>', `${use}: redis://HOST:PORT, or postgres://HOST/DATABASE (an experiment)`)
    .option('--name <name>', 'the name of the queue, the same for all who share it (default: millrace)');
}

/**
 * The queue that the flags name; by default it is in the Redis of the store. Errors: `INVALID_CONFIG`, also for a store that other processes cannot
 * read. What was given is not repeated: it may hold a password.
 */
export function checkedQueue({ queue, name }: QueueFlags, store: StoreSettings): QueueSettings {
  if (store.kind === 'memory')
    throw invalidConfig(`a queue needs a store that other processes read, too; add --store ${anyLastingStore}`);
  const url = queue?.trim() ?? (store.kind === 'redis' ? store.url : undefined);
  if (url === undefined)
    throw invalidConfig('--queue is missing; add --queue redis://HOST:PORT, where turns wait for workers');
  if (isUrl(url, ['redis:', 'rediss:'])) return { connection: url, name, place: placeOf(url, name) };
  if (isUrl(url, ['postgres:', 'postgresql:']))
    return { connection: { postgres: url }, name, place: placeOf(url, name) };
  throw invalidConfig('--queue must be redis://HOST:PORT (rediss:// for TLS), or postgres://HOST/DATABASE');
}

interface QueuedOn {
  readonly store: TaskStateStore;
  readonly messageStore?: MessageStore | undefined;
  readonly maxOutstanding?: number | undefined;
}

/** Opens the queue; loads its package. Errors: `INVALID_CONFIG`, `MISSING_PACKAGE`. */
export async function openQueue({ connection, name }: QueueSettings, on: QueuedOn): Promise<TurnQueue> {
  const { turnQueue } = await import('../fleet/index.ts');
  return turnQueue({ connection, name, ...on });
}

/** Refuses an agent whose id is another one in each process: no worker would run its turns. Errors: `INVALID_CONFIG`. */
export function checkQueuedAgent({ options }: Agent, file: string): void {
  if (options.id !== undefined || options.name !== undefined) return;
  throw invalidConfig(
    `the agent of ${file} has no id, by which workers find its turns; give it one: agent({ id: 'clerk', … })`,
  );
}

function placeOf(url: string, name = 'millrace'): string {
  return `${name} at ${shownUrl(url)}`;
}
