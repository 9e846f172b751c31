import { existsSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import { LmdbDatabase, Openings } from 'millrace/internals';
import { TemporaryStores } from './temporary-stores.ts';

const stores = new TemporaryStores();
const databases: LmdbDatabase[] = [];

afterEach(async () => {
  await Promise.all(databases.splice(0).map((database) => database.close()));
  await stores.clear();
});

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await nextTurn();
}

/** A write whose commit is done while another process opens the file, as `opening` says. */
async function writeThatMeetsAnOpening() {
  const path = stores.path();
  const database = new LmdbDatabase(path);
  databases.push(database);
  const opening = join(path, 'opening');
  writeFileSync(opening, String(process.pid));
  const runs: string[] = [];
  const write = database.write(() => {
    runs.push('run');
    database.put(['x'], String(runs.length));
    return runs.length;
  });
  await until(() => database.read(() => database.get(['x'])) === '1');
  return { database, write, runs, endOpening: () => rm(opening) };
}

describe('a write that meets the opening of its file by another process', () => {
  it('resolves once the opening is over, and is not repeated where it still stands', async () => {
    const { write, runs, endOpening } = await writeThatMeetsAnOpening();
    const order: string[] = [];
    const written = write.then(() => order.push('written'));
    for (const _ of [1, 2, 3]) await nextTurn();
    order.push('over');
    await endOpening();
    await written;
    expect(order).toEqual(['over', 'written']);
    expect(runs).toHaveLength(1);
  });

  it('runs again where the opening undid it', async () => {
    const { database, write, endOpening } = await writeThatMeetsAnOpening();
    // What is there of the file once an older transaction passes for the newest, and somebody has written behind it.
    database.put(['write'], 'other.1');
    await until(() => database.lastWrite() === 'other.1');
    await endOpening();
    expect(await write).toBe(2);
    expect(database.read(() => database.get(['x']))).toBe('2');
  });
});

describe('Openings', () => {
  it('shows writers an opening while it lasts and when it has ended, also one that fails', () => {
    const path = stores.path();
    const openings = new Openings(path);
    expect(openings.look()).toEqual({ underWay: false, ended: 0 });
    expect(openings.announce(() => openings.look())).toEqual({ underWay: true, ended: 0 });
    const fails = () => {
      throw new Error('no');
    };
    expect(() => openings.announce(fails)).toThrow('no');
    expect(openings.look()).toEqual({ underWay: false, ended: 2 });
    expect(readdirSync(path)).toEqual(['openings']);
  });

  it.each([
    ['of a process that is gone', (mark: string) => writeFileSync(mark, '999999999')],
    [
      'that is older than any opening lasts',
      (mark: string) => {
        writeFileSync(mark, String(process.pid));
        utimesSync(mark, 0, 0);
      },
    ],
  ])('passes over a mark %s, and counts it as ended', async (_, leave) => {
    const path = stores.path();
    const openings = new Openings(path);
    leave(join(path, 'opening'));
    await openings.whenOver();
    expect(openings.look()).toEqual({ underWay: false, ended: 1 });
    leave(join(path, 'opening'));
    expect(openings.announce(() => 'opened')).toBe('opened');
    expect(existsSync(join(path, 'opening'))).toBe(false);
  });
});
