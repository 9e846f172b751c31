import { startRedis } from '../stores/redis/redis-process.ts';
import { mutations } from './mutations.ts';
import { type CampaignSum, runCampaign } from './parent/campaign.ts';
import { ChildBundle } from './parent/child-bundle.ts';
import { Nursery } from './parent/crash-child.ts';
import type { Mutation } from './store-mutations.ts';

export interface MutationRunOptions {
  readonly seed: number;
  readonly lanes: number;
  readonly stores: readonly Mutation['store'][];
  /** Only those that are looked for in these. */
  readonly modes: readonly Mutation['mode'][];
}

/** By then a planted bug has to be found. */
const maxKills = 150;

/** Broken turns often do not end; it is not waited long for them. */
const endingMs = 8_000;

/** Plants each bug and looks for it. Prints what gave it away; true where none survived. */
export async function runMutations({ seed, lanes, stores, modes }: MutationRunOptions): Promise<boolean> {
  const server = stores.includes('redis') ? await startRedis({ config: ['appendonly yes', 'save ""'] }) : undefined;
  let survivors = 0;
  const wanted = ({ store, mode }: Mutation) => stores.includes(store) && modes.includes(mode);
  for (const mutation of mutations.filter(wanted)) {
    const bundle = new ChildBundle(mutation.patches);
    const nursery = new Nursery(bundle.path, Math.ceil(lanes / 2));
    const until = (sum: CampaignSum) => evidenceIn(sum).length > 0 || sum.kills + sum.pauses + sum.outages >= maxKills;
    const { store, mode } = mutation;
    const sum = await runCampaign({ seed, store, mode, nursery, server, lanes, until, endingMs });
    await nursery.clear();
    bundle.remove();
    if (evidenceIn(sum).length === 0) survivors++;
    console.log(reportOf(mutation, sum));
  }
  await server?.remove();
  return survivors === 0;
}

/** The promises that were seen broken. That a turn did not end in time may also be the machine's fault. */
function evidenceIn({ violations }: CampaignSum): readonly string[] {
  const told = violations.map(
    ({ violation }) =>
      violation.replace(/^([a-z]+-[a-z-]*\d[\d:-]*|[\da-f]{8}-[\da-f-]{27}): /, '').split(':')[0] ?? '',
  );
  return [...new Set(told)].filter((invariant) => !/^the turns? (end|completes)/.test(invariant));
}

function reportOf({ name, store, mode }: Mutation, sum: CampaignSum): string {
  const { kills, pauses, outages, ms } = sum;
  const cost = `${kills} kills, ${pauses} pauses, ${outages} outages, ${Math.round(ms / 1000)} s`;
  const evidence = evidenceIn(sum);
  if (evidence.length === 0) return `SURVIVED  ${store} ${mode}: ${name} (${cost})`;
  return `caught    ${store} ${mode}: ${name} (${cost})\n          by: ${evidence.slice(0, 4).join('; ')}`;
}
