// Kills processes at every moment of a turn and checks what is left of it. What it takes and tells stands in README.md beside it.

import { startPostgres } from '../stores/postgres/postgres-process.ts';
import { startRedis } from '../stores/redis/redis-process.ts';
import { runMutations } from './mutation-run.ts';
import { optionsOf, usage } from './options.ts';
import { type CampaignSum, runCampaign, type StoreKind } from './parent/campaign.ts';
import { ChildBundle } from './parent/child-bundle.ts';
import { Nursery } from './parent/crash-child.ts';
import { defaultKills, isTreeMode, type Mode } from './parent/modes.ts';
import { headLine, type Row, rowLine, sumLine } from './summary-table.ts';

const options = optionsOf(process.argv.slice(2));
if ('problem' in options) {
  console.error(`${options.problem}\n${usage}`);
  process.exit(1);
}
const { seed, modes, stores, round, lanes, kills, minutes } = options;
console.log(`seed ${seed}`);
if (options.mutations) process.exit((await runMutations(options)) ? 0 : 1);
const bundle = new ChildBundle();
const nursery = new Nursery(bundle.path, Math.ceil(lanes / 2));
const server = stores.includes('redis') ? await startRedis({ config: ['appendonly yes', 'save ""'] }) : undefined;
const postgres = stores.includes('postgres') ? await startPostgres(['max_connections=500']) : undefined;
const rows: Row[] = [];
console.log(headLine);
for (const store of stores) {
  for (const mode of modes) {
    if (mode === 'outage' && store !== 'redis') continue;
    const row = await campaign(store, mode);
    rows.push(row);
    // At once: a run that is broken off has said what it did.
    console.log(rowLine(row));
  }
}
await nursery.clear();
await server?.remove();
await postgres?.remove();
bundle.remove();
console.log(sumLine(rows));
process.exitCode = rows.some(({ violations, isShort }) => violations > 0 || isShort) ? 1 : 0;

async function campaign(store: StoreKind, mode: Mode): Promise<Row> {
  const target = kills ?? defaultKills(mode);
  const isEnough = (sum: CampaignSum) => faultsOf(mode, sum) >= target;
  const isLate = (sum: CampaignSum) => sum.ms > minutes * 60_000;
  const isBroken = (sum: CampaignSum) => sum.violations.length > 20;
  const until = (sum: CampaignSum) => isEnough(sum) || isLate(sum) || isBroken(sum);
  const one = round === undefined ? {} : { round };
  const sum = await runCampaign({ seed, store, mode, nursery, server, postgres, lanes, until, ...one });
  for (const { round: number, violation } of sum.violations) {
    console.log(
      `${violation}\n  again: npm run test:crash -- --seed ${seed} --store ${store} --mode ${mode} --round ${number}`,
    );
  }
  const isShort = round === undefined && !isEnough(sum);
  return { ...sum, store, mode, violations: sum.violations.length, isShort };
}

/** What counts for a campaign. */
function faultsOf(mode: Mode, { kills, pauses, outages }: CampaignSum): number {
  if (isTreeMode(mode)) return kills + pauses + outages;
  return mode === 'pause' ? pauses : kills;
}
