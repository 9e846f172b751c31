import { awaited, type Body, found, MemoryTable, type Rows, type Table } from 'millrace/internals';

/** A table as a database on another machine is one: each read of a row is awaited, and transactions run one after the other. */
export class RemoteTable implements Table<'later', 'later'> {
  readonly #table = new MemoryTable();
  #last: Promise<unknown> = Promise.resolve();

  read<T>(prepare: () => Body<T>): Promise<T> {
    return this.write(prepare);
  }

  async write<T>(prepare: () => Body<T>): Promise<T> {
    const body = prepare();
    const result = this.#last.then(() => {
      const rows = this.#table.write(() => (inner) => found(inner));
      return awaited(body(later(rows)));
    });
    this.#last = result.catch(() => {});
    return result;
  }
}

function later(rows: Rows): Rows {
  return {
    ...rows,
    *get(key) {
      yield nextMacrotask();
      return yield* rows.get(key);
    },
    *range(prefix, range) {
      yield nextMacrotask();
      return yield* rows.range(prefix, range);
    },
  };
}

function nextMacrotask(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
