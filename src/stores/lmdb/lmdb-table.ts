import { atOnce, type Body, found, type Rows, type Table, type TableKey } from '../table/table.ts';
import { LmdbDatabase } from './lmdb-database.ts';
import { assertStorePath } from './store-path.ts';

/** After every part of a key. */
const last = '\u{10ffff}';

/** A table in an LMDB file, which may hold other stores too. Reads answer at once, from the memory map. */
export class LmdbTable implements Table<'now', 'later'> {
  readonly #database: LmdbDatabase;
  readonly #rows: Rows = {
    get: (key) => found(this.#database.get(key)),
    range: (prefix, { from, to = last, limit } = {}) => {
      const start = from === undefined ? prefix : [...prefix, from];
      const entries = this.#database.range({ start, end: [...prefix, to], ...(limit !== undefined && { limit }) });
      return found(entries.map(({ key, value }) => ({ key: partsOf(key), value })));
    },
    put: (key, value) => this.#database.put(key, value),
    remove: (key) => this.#database.remove(key),
  };

  /** Errors: those of `LmdbDatabase`, and `INVALID_CONFIG` for a path that is none. */
  constructor(path: string) {
    assertStorePath(path);
    this.#database = new LmdbDatabase(path);
  }

  read<T>(prepare: () => Body<T>): T {
    const body = prepare();
    return this.#database.read(() => atOnce(body(this.#rows)));
  }

  async write<T>(prepare: () => Body<T>): Promise<T> {
    const body = prepare();
    return this.#database.write(() => atOnce(body(this.#rows)));
  }

  /** Waits for what was sent to be written, and closes the file. Again: does nothing. */
  close(): Promise<void> {
    return this.#database.close();
  }
}

function partsOf(key: unknown): TableKey {
  return Array.isArray(key) ? key.map((part) => (typeof part === 'number' ? part : String(part))) : [String(key)];
}
