import { afterAll, describe, expect, it } from '@jest/globals';
import { runMutations } from '../crash/mutation-run.ts';
import { runCampaign, type StoreKind } from '../crash/parent/campaign.ts';
import { ChildBundle } from '../crash/parent/child-bundle.ts';
import { Nursery } from '../crash/parent/crash-child.ts';
import type { Mode } from '../crash/parent/modes.ts';
import { type RedisProcess, startRedis } from '../stores/redis/redis-process.ts';
import { describeReal } from './real-part.ts';

/** A share of `npm run test:crash`, of which CI runs more, and which tells how to run a failing round again. */
const seed = Number(process.env['MILLRACE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const bundle = new ChildBundle();
const nursery = new Nursery(bundle.path, 2);
const lanes = 6;
let server: RedisProcess | undefined;

afterAll(async () => {
  await nursery.clear();
  await server?.remove();
  bundle.remove();
});

/** So many kills, or of `pause` pauses, and not a promise broken. */
async function survives(store: StoreKind, mode: Mode, count: number): Promise<void> {
  const counted = mode === 'pause' ? 'pauses' : 'kills';
  const until = (sum: { readonly kills: number; readonly pauses: number; readonly violations: readonly unknown[] }) =>
    sum[counted] >= count || sum.violations.length > 0;
  const sum = await runCampaign({ seed, store, mode, nursery, server, lanes, until });
  expect(sum.violations).toEqual([]);
  expect(sum[counted]).toBeGreaterThanOrEqual(count);
}

describe(`turns on LMDB whose processes die (npm run test:crash -- --seed ${seed} --store lmdb)`, () => {
  it.each([
    ['boundary', 'S1-70 S1-76 S1-79', 45],
    ['random', 'S1-70 S1-76 S1-79', 45],
    ['race', 'S1-80', 15],
    ['pause', 'S1-80', 6],
  ] as const)('keep every promise: %s (%s), %d times', (mode, _, count) => survives('lmdb', mode, count));
});

describe('trees of turns on LMDB whose processes die', () => {
  it('T-22 break a promise where a bug is planted', async () => {
    expect(await runMutations({ seed, lanes, stores: ['lmdb'], modes: ['tree-asks'] })).toBe(true);
  });
});

describeReal(
  ['redis'],
  `turns on Redis whose processes die (npm run test:crash -- --seed ${seed} --store redis)`,
  () => {
    it.each([
      ['boundary', 15],
      ['random', 15],
      ['race', 6],
      ['pause', 3],
      ['outage', 6],
    ] as const)('S1-70 S1-79 keep every promise: %s, %d times', async (mode, count) => {
      server ??= await startRedis({ config: ['appendonly yes', 'save ""'] });
      await survives('redis', mode, count);
    });
  },
);
