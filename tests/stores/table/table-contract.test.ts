import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { AgentLoopError, InMemoryMessageStore, systemClock } from 'millrace';
import {
  type Body,
  found,
  type KeyPart,
  LmdbTable,
  type MaybePromise,
  MemoryTable,
  messageStoreArguments,
  PostgresDatabase,
  PostgresTable,
  type Rows,
  type Table,
  type TableKey,
  TableMessageStore,
  type TableRange,
} from 'millrace/internals';
import { checkArguments } from 'millrace/stores';
import { messageStoreContract } from 'millrace/testing';
import { describePostgres } from '../postgres/describe-postgres.ts';
import { type PostgresProcess, startPostgres } from '../postgres/postgres-process.ts';
import { RemoteTable } from './remote-table.ts';

const folder = mkdtempSync(join(tmpdir(), 'millrace-table-'));
afterAll(() => rmSync(folder, { recursive: true }));
let made = 0;

interface Opened {
  readonly table: Table;
  /** Another process on the same rows. */
  readonly peer: Table;
  readonly close: () => MaybePromise<unknown>;
}

const tables: Record<string, () => Opened> = {
  MemoryTable: () => {
    const table = new MemoryTable();
    return { table, peer: table, close: () => {} };
  },
  LmdbTable: () => {
    const path = join(folder, String(made++));
    const [table, peer] = [new LmdbTable(path), new LmdbTable(path)];
    return { table, peer, close: () => Promise.all([table.close(), peer.close()]) };
  },
  'a table whose rows are answered later': () => {
    const table = new RemoteTable();
    return { table, peer: table, close: () => {} };
  },
};

const write = async <T>(table: Table, body: Body<T>): Promise<T> => table.write(() => body);
const read = async <T>(table: Table, body: Body<T>): Promise<T> => table.read(() => body);
/** Writes without reading. */
const change = (table: Table, put: (rows: Rows) => void) => write(table, (rows) => found(put(rows)));
const putAll = (table: Table, keys: readonly TableKey[]) =>
  change(table, (rows) => {
    for (const key of keys) rows.put(key, JSON.stringify(key));
  });
const keysIn = (table: Table, prefix: TableKey, range?: TableRange) =>
  read(table, function* (rows) {
    return (yield* rows.range(prefix, range)).map(({ key }) => key);
  });
const valueAt = (table: Table, key: TableKey) => read(table, (rows) => rows.get(key));

describePostgres('PostgresTable keeps the contract of Table', () => {
  let postgres: PostgresProcess;
  beforeAll(async () => {
    postgres = await startPostgres();
  });
  afterAll(() => postgres.remove());

  keepsContract(() => {
    const options = { postgres: postgres.url, schema: `table_${made++}`, migrate: true };
    const [table, peer] = [
      new PostgresTable(new PostgresDatabase('PostgresTable', options), 'test'),
      new PostgresTable(new PostgresDatabase('PostgresTable', options), 'test'),
    ];
    return { table, peer, close: () => Promise.all([table.close(), peer.close()]) };
  });
});

for (const [name, open] of Object.entries(tables)) {
  describe(`${name} keeps the contract of Table`, () => keepsContract(open));
}

function keepsContract(open: () => Opened): void {
  async function on(run: (opened: Opened) => Promise<void>): Promise<void> {
    const opened = open();
    try {
      await run(opened);
    } finally {
      await opened.close();
    }
  }

  it('gives what was put last under a key, and nothing once it was removed', () =>
    on(async ({ table, peer }) => {
      await putAll(table, [['a', 'b'], ['a', 1], ['a']]);
      expect(await valueAt(peer, ['a', 'b'])).toBe('["a","b"]');
      await change(peer, (rows) => {
        rows.put(['a', 'b'], '');
        rows.remove(['a', 1]);
        rows.remove(['never']);
      });
      expect(await valueAt(table, ['a', 'b'])).toBe('');
      expect(await valueAt(table, ['a', 1])).toBeUndefined();
      expect(await valueAt(table, ['a'])).toBe('["a"]');
      expect(await valueAt(table, ['a', 'b', 'c'])).toBeUndefined();
    }));

  it('keeps strings with any characters', () =>
    on(async ({ table, peer }) => {
      const texts = ['\0', '"', '\uffff', '😀', 'x'.repeat(100_000), '\n'];
      await change(table, (rows) => {
        for (const [index, text] of texts.entries()) rows.put(['text', index], text);
      });
      for (const [index, text] of texts.entries()) expect(await valueAt(peer, ['text', index])).toBe(text);
    }));

  it('lists the entries under a prefix in order: numbers by value, before strings, and what continues a key after it', () =>
    on(async ({ table, peer }) => {
      const sorted: TableKey[] = [
        ['a'],
        ['a', 2],
        ['a', 10],
        ['a', 10, 'x'],
        ['a', 1_700_000_000_000],
        ['a', 'B'],
        ['a', 'a'],
      ];
      await putAll(table, [...sorted.toReversed(), ['aa'], ['b', 1], ['']]);
      expect(await keysIn(peer, ['a'])).toEqual(sorted);
      expect(await keysIn(peer, ['a', 10])).toEqual([
        ['a', 10],
        ['a', 10, 'x'],
      ]);
      expect(await keysIn(peer, ['none'])).toEqual([]);
    }));

  it('lists from one value to before another, and no more than asked for', () =>
    on(async ({ table }) => {
      const at = (time: number, id: string): TableKey => ['due', time, id];
      await putAll(table, [at(1, 'a'), at(2, 'a'), at(2, 'b'), at(3, 'a'), ['due']]);
      expect(await keysIn(table, ['due'], { to: 3 })).toEqual([['due'], at(1, 'a'), at(2, 'a'), at(2, 'b')]);
      expect(await keysIn(table, ['due'], { from: 2 })).toEqual([at(2, 'a'), at(2, 'b'), at(3, 'a')]);
      expect(await keysIn(table, ['due'], { from: 2, to: 3, limit: 1 })).toEqual([at(2, 'a')]);
      expect(await keysIn(table, ['due'], { from: 4 })).toEqual([]);
      expect(await keysIn(table, ['due'], { limit: 0 })).toEqual([]);
    }));

  it('shows a transaction its own writes', () =>
    on(async ({ table }) => {
      await putAll(table, [
        ['a', 1],
        ['a', 2],
      ]);
      const seen = await write(table, function* (rows) {
        rows.remove(['a', 1]);
        rows.put(['a', 3], '3');
        const keys = (yield* rows.range(['a'])).map(({ key }) => key);
        return [keys, yield* rows.get(['a', 1]), yield* rows.get(['a', 3])];
      });
      expect(seen).toEqual([
        [
          ['a', 2],
          ['a', 3],
        ],
        undefined,
        '3',
      ]);
    }));

  it('runs transactions that write one after the other', () =>
    on(async ({ table, peer }) => {
      const count: Body<number> = function* (rows) {
        const before = Number((yield* rows.get(['count'])) ?? 0);
        rows.put(['count'], String(before + 1));
        return before + 1;
      };
      const counts = await Promise.all(Array.from({ length: 40 }, (_, n) => write(n % 2 ? table : peer, count)));
      expect(counts.sort((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, n) => n + 1));
      expect(await valueAt(table, ['count'])).toBe('40');
    }));

  it('gives the caller what is thrown before or in a transaction, and keeps nothing of it', () =>
    on(async ({ table }) => {
      const thrown = new AgentLoopError('CONFLICT', 'It was changed.');
      const before = async () =>
        table.write(() => {
          throw thrown;
        });
      await expect(before()).rejects.toBe(thrown);
      const inside = () =>
        write(table, function* (rows) {
          yield* rows.get(['a']);
          throw thrown;
        });
      await expect(inside()).rejects.toBe(thrown);
      await putAll(table, [['a']]);
      expect(await keysIn(table, ['a'])).toEqual([['a']]);
    }));

  it('is an ordered map, whatever is put and removed', () =>
    on(async ({ table }) => {
      const part: fc.Arbitrary<KeyPart> = fc.oneof(fc.integer({ min: 0, max: 5 }), fc.constantFrom('a', 'b', 'c'));
      const key = fc.array(part, { minLength: 1, maxLength: 3 });
      const step = fc.record({ key, put: fc.boolean() });
      const compare = (one: TableKey, other: TableKey): number => {
        for (const [index, part] of one.entries()) {
          const there = other[index];
          if (there === undefined) return 1;
          if (part === there) continue;
          if (typeof part === typeof there) return part < there ? -1 : 1;
          return typeof part === 'number' ? -1 : 1;
        }
        return one.length - other.length;
      };
      const space = () => `case-${made++}`;
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 30 }), key, async (steps, prefix) => {
          const first = space();
          const model = new Map<string, TableKey>();
          await change(table, (rows) => {
            for (const { key: given, put } of steps) {
              const full = [first, ...given];
              if (put) rows.put(full, 'x');
              else rows.remove(full);
              if (put) model.set(JSON.stringify(full), full);
              else model.delete(JSON.stringify(full));
            }
          });
          const isIn = (full: TableKey) => prefix.every((one, index) => full[index + 1] === one);
          const sorted = [...model.values()].sort(compare);
          expect(await keysIn(table, [first])).toEqual(sorted);
          expect(await keysIn(table, [first, ...prefix])).toEqual(sorted.filter(isIn));
        }),
        { numRuns: 40 },
      );
    }));
}

/** Answers everything with a promise. */
class RemoteMessageStore extends TableMessageStore<'later', 'later'> {
  static {
    checkArguments(RemoteMessageStore.prototype, messageStoreArguments, 'all');
  }
}

messageStoreContract(
  {
    name: 'TableMessageStore on a table whose rows are answered later',
    createStore: () => new RemoteMessageStore(new RemoteTable(), { clock: systemClock }),
  },
  { describe, it },
);

describe('InMemoryMessageStore', () => {
  it('gives messages that the caller may change', () => {
    const store = new InMemoryMessageStore();
    store.append('c', 't', [{ role: 'user', content: 'Hello' }]);
    const [message] = store.load('c').messages;
    Object.assign(message ?? {}, { content: 'changed' });
    expect(store.load('c').messages).toEqual([{ role: 'user', content: 'Hello' }]);
  });
});
