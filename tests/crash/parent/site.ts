import { randomUUID } from 'node:crypto';
import { appendFileSync, cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AgentLoopError, type JournalRecord, type TaskStateStore } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { PostgresStateStore } from 'millrace/postgres';
import { RedisStateStore } from 'millrace/redis';
import type { PostgresProcess } from '../../stores/postgres/postgres-process.ts';
import type { RedisProcess } from '../../stores/redis/redis-process.ts';
import { Random } from '../random.ts';
import type { StoreAddress } from '../workload/order.ts';
import { type Deed, lineOf, readDeeds } from '../workload/world.ts';
import { DelayProxy } from './delay-proxy.ts';

export type Part = 'own' | 'remote';

/** Where a round takes place: a store and a ledger. Nobody else's tasks are touched. */
export interface Site {
  /** The ledger file. */
  readonly world: string;
  /** The store as one more process reaches it; that of the remote agent is another one. */
  address(seed: number, part?: Part): Promise<StoreAddress>;
  /** Empty for a task that there is not. */
  journals(taskIds: readonly string[]): Promise<readonly (readonly JournalRecord[])[]>;
  /** Of all tasks of the remote agent. */
  remoteJournals(): Promise<ReadonlyMap<string, readonly JournalRecord[]>>;
  /** The store as nobody slows it down; it is closed behind that. */
  withStore<T>(use: (store: TaskStateStore) => Promise<T>): Promise<T>;
  deeds(): readonly Deed[];
  note(deed: Deed): void;
  /** Keeps journals and ledger for inspection; gives the folder. */
  keep(journals: ReadonlyMap<string, readonly JournalRecord[]>): string;
  close(): Promise<void>;
}

/** In a folder of its own. */
abstract class FolderSite {
  protected readonly folder = mkdtempSync(join(tmpdir(), 'millrace-round-'));
  readonly world = join(this.folder, 'world');

  constructor() {
    appendFileSync(this.world, '');
  }

  deeds(): readonly Deed[] {
    return readDeeds(this.world);
  }

  note(deed: Deed): void {
    appendFileSync(this.world, lineOf(deed));
  }

  async journals(taskIds: readonly string[]): Promise<readonly (readonly JournalRecord[])[]> {
    return this.withStore((store) => Promise.all(taskIds.map((taskId) => journalOf(store, taskId))));
  }

  async remoteJournals(): Promise<ReadonlyMap<string, readonly JournalRecord[]>> {
    return this.#with('remote', async (store) => {
      const tasks = await store.list({ limit: 1_000 });
      return new Map(
        await Promise.all(tasks.map(async ({ taskId }) => [taskId, await journalOf(store, taskId)] as const)),
      );
    });
  }

  withStore<T>(use: (store: TaskStateStore) => Promise<T>): Promise<T> {
    return this.#with('own', use);
  }

  async #with<T>(part: Part, use: (store: TaskStateStore) => Promise<T>): Promise<T> {
    const store = this.open(part);
    try {
      return await use(store);
    } finally {
      await store.close();
    }
  }

  protected abstract open(part: Part): LmdbStateStore | PostgresStateStore | RedisStateStore;

  keep(journals: ReadonlyMap<string, readonly JournalRecord[]>): string {
    const kept = mkdtempSync(join(tmpdir(), 'millrace-broken-'));
    cpSync(this.world, join(kept, 'world'));
    for (const [taskId, records] of journals)
      writeFileSync(join(kept, `journal-${taskId}`), records.map((record) => JSON.stringify(record)).join('\n'));
    return kept;
  }

  protected remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export class LmdbSite extends FolderSite implements Site {
  async address(_seed: number, part: Part = 'own'): Promise<StoreAddress> {
    return { type: 'lmdb', path: join(this.folder, part) };
  }

  protected override open(part: Part): LmdbStateStore {
    return new LmdbStateStore({ path: join(this.folder, part) });
  }

  async close(): Promise<void> {
    this.remove();
  }
}

export class RedisSite extends FolderSite implements Site {
  readonly #server: RedisProcess;
  readonly #strict: boolean;
  /** The server is shared with other rounds. */
  readonly #prefix = `round-${randomUUID()}`;
  readonly #proxies: DelayProxy[] = [];

  constructor(server: RedisProcess, strict: boolean) {
    super();
    this.#server = server;
    this.#strict = strict;
  }

  async address(seed: number, part: Part = 'own'): Promise<StoreAddress> {
    const proxy = await DelayProxy.start(this.#server.port, { random: new Random(seed), delayMs: 8, loss: 0.003 });
    this.#proxies.push(proxy);
    return { type: 'redis', url: proxy.url, prefix: this.#prefixOf(part), strict: this.#strict };
  }

  protected override open(part: Part): RedisStateStore {
    return new RedisStateStore({ redis: this.#server.url, prefix: this.#prefixOf(part) });
  }

  #prefixOf(part: Part): string {
    return part === 'own' ? this.#prefix : `${this.#prefix}-${part}`;
  }

  async close(): Promise<void> {
    await Promise.all(this.#proxies.map((proxy) => proxy.close()));
    this.remove();
  }
}

export class PostgresSite extends FolderSite implements Site {
  readonly #server: PostgresProcess;
  /** The server is shared with other rounds. */
  readonly #schema = `round_${randomUUID().replaceAll('-', '')}`;
  readonly #proxies: DelayProxy[] = [];
  readonly #migrated = new Map<Part, Promise<void>>();

  constructor(server: PostgresProcess) {
    super();
    this.#server = server;
  }

  async address(seed: number, part: Part = 'own'): Promise<StoreAddress> {
    const migrated = this.#migrated.get(part) ?? this.#migrate(part);
    this.#migrated.set(part, migrated);
    await migrated;
    const proxy = await DelayProxy.start(this.#server.port, { random: new Random(seed), delayMs: 8, loss: 0.003 });
    this.#proxies.push(proxy);
    const url = `postgres://millrace@127.0.0.1:${new URL(proxy.url).port}/postgres`;
    return { type: 'postgres', url, schema: this.#schemaOf(part) };
  }

  protected override open(part: Part): PostgresStateStore {
    return new PostgresStateStore({ postgres: this.#server.url, schema: this.#schemaOf(part), migrate: true });
  }

  async #migrate(part: Part): Promise<void> {
    const store = this.open(part);
    await store.migrate();
    await store.close();
  }

  #schemaOf(part: Part): string {
    return part === 'own' ? this.#schema : `${this.#schema}_${part}`;
  }

  async close(): Promise<void> {
    await Promise.all(this.#proxies.map((proxy) => proxy.close()));
    this.remove();
  }
}

async function journalOf(store: TaskStateStore, taskId: string): Promise<readonly JournalRecord[]> {
  try {
    return await store.read(taskId);
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return [];
    throw error;
  }
}
