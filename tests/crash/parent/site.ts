import { appendFileSync, cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JournalRecord } from '../../../src/core/records.ts';
import { LmdbStateStore } from '../../../src/stores/lmdb/lmdb-state-store.ts';
import { RedisStateStore } from '../../../src/stores/redis/redis-state-store.ts';
import type { RedisProcess } from '../../stores/redis/redis-process.ts';
import { Random } from '../random.ts';
import type { StoreAddress } from '../workload/order.ts';
import { type Deed, readDeeds } from '../workload/world.ts';
import { DelayProxy } from './delay-proxy.ts';

/** Where a round takes place: a store and a ledger. Nobody else's tasks are touched. */
export interface Site {
  /** The ledger file. */
  readonly world: string;
  /** The store as one more process reaches it. */
  address(seed: number): Promise<StoreAddress>;
  /** Once no child uses the store any more. */
  journals(taskIds: readonly string[]): Promise<readonly (readonly JournalRecord[])[]>;
  deeds(): readonly Deed[];
  /** Keeps journals and ledger for inspection; gives the folder. */
  keep(journals: readonly (readonly JournalRecord[])[]): string;
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

  keep(journals: readonly (readonly JournalRecord[])[]): string {
    const kept = mkdtempSync(join(tmpdir(), 'millrace-broken-'));
    cpSync(this.world, join(kept, 'world'));
    for (const [index, records] of journals.entries())
      writeFileSync(join(kept, `journal-${index}`), records.map((record) => JSON.stringify(record)).join('\n'));
    return kept;
  }

  protected remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export class LmdbSite extends FolderSite implements Site {
  async address(): Promise<StoreAddress> {
    return { type: 'lmdb', path: join(this.folder, 'store') };
  }

  async journals(taskIds: readonly string[]): Promise<readonly (readonly JournalRecord[])[]> {
    const store = new LmdbStateStore({ path: join(this.folder, 'store') });
    try {
      return taskIds.map((taskId) => store.read(taskId));
    } finally {
      await store.close();
    }
  }

  async close(): Promise<void> {
    this.remove();
  }
}

export class RedisSite extends FolderSite implements Site {
  readonly #server: RedisProcess;
  readonly #strict: boolean;
  readonly #proxies: DelayProxy[] = [];

  constructor(server: RedisProcess, strict: boolean) {
    super();
    this.#server = server;
    this.#strict = strict;
  }

  async address(seed: number): Promise<StoreAddress> {
    const proxy = await DelayProxy.start(this.#server.port, { random: new Random(seed), delayMs: 8, loss: 0.003 });
    this.#proxies.push(proxy);
    return { type: 'redis', url: proxy.url, strict: this.#strict };
  }

  async journals(taskIds: readonly string[]): Promise<readonly (readonly JournalRecord[])[]> {
    const store = new RedisStateStore({ redis: this.#server.url });
    try {
      return await Promise.all(taskIds.map((taskId) => store.read(taskId)));
    } finally {
      await store.close();
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#proxies.map((proxy) => proxy.close()));
    this.remove();
  }
}
