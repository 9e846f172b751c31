import { once } from 'node:events';
import { afterAll, describe, expect, it } from '@jest/globals';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';

const programs = new ChildPrograms('tests/agent/children');
const stores = new TemporaryStores();
afterAll(() => Promise.all([programs.clear(), stores.clear()]));

/** Runs the program again until it ends by itself: what it says then, and how many processes were killed before. */
async function untilItEnds(program: string, ...args: readonly string[]) {
  const path = stores.path();
  for (let killed = 0; killed < 10; killed++) {
    const child = programs.start(program, path, ...args);
    const said: unknown[] = [];
    child.on('message', (text) => said.push(text));
    await once(child, 'close');
    if (child.signalCode !== 'SIGKILL') return { killed, said };
  }
  throw new Error('Ten processes were killed.');
}

const climb = (depth: number, mode: 'climbs' | 'stuck') => untilItEnds('climbing', String(depth), mode);

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

describe('a turn that kills each process before anything of it is stored there', () => {
  it.each(['model', 'hook'])('R-04 ends with POISON where its %s does so', async (part) => {
    const { killed, said } = await untilItEnds('crashing', part);
    expect(said).toEqual([expect.stringContaining('crashed 3 times')]);
    expect(killed).toBe(3);
  });
});
