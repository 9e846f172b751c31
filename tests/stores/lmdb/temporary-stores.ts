import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LmdbStateStore, type LmdbStateStoreOptions } from 'millrace/lmdb';

/** Folders and stores of one test file, and their end. */
export class TemporaryStores {
  readonly #paths: string[] = [];
  readonly #stores: LmdbStateStore[] = [];

  path(): string {
    const path = mkdtempSync(join(tmpdir(), 'millrace-lmdb-'));
    this.#paths.push(path);
    return path;
  }

  open(options: Partial<LmdbStateStoreOptions> = {}): LmdbStateStore {
    const store = new LmdbStateStore({ ...options, path: options.path ?? this.path() });
    this.#stores.push(store);
    return store;
  }

  /** Closes what is open and removes the folders. */
  async clear(): Promise<void> {
    await Promise.all(this.#stores.splice(0).map((store) => store.close()));
    for (const path of this.#paths.splice(0)) rmSync(path, { recursive: true, force: true });
  }
}
