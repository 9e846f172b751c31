import { once } from 'node:events';
import { afterAll, describe, expect, it } from '@jest/globals';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';

const programs = new ChildPrograms('tests/agent/children');
const stores = new TemporaryStores();
afterAll(() => Promise.all([programs.clear(), stores.clear()]));

/** Runs the program again until it ends by itself: what it says then, and how many processes were killed before. */
async function climb(depth: number, mode: 'climbs' | 'stuck') {
  const path = stores.path();
  for (let killed = 0; ; killed++) {
    const child = programs.start('climbing', path, String(depth), mode);
    const said: unknown[] = [];
    child.on('message', (text) => said.push(text));
    await once(child, 'close');
    if (child.signalCode !== 'SIGKILL') return { killed, said };
  }
}

describe('a turn whose child turn is killed more often than maxResumes', () => {
  it.each([
    ['of its call', 1],
    ['two levels below', 2],
  ])('R-04 waits for the child turn %s while that gets further', async (_, depth) => {
    expect(await climb(depth, 'climbs')).toEqual({ killed: 5, said: ['at the top'] });
  });

  it('R-04 ends where the child turn gets no further', async () => {
    const { killed, said } = await climb(1, 'stuck');
    expect(said).toEqual([expect.stringContaining('crashed 3 times')]);
    expect(killed).toBe(3);
  });
});
