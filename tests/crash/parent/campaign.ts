import { messageOf } from 'millrace/internals';
import type { PostgresProcess } from '../../stores/postgres/postgres-process.ts';
import { type RedisProcess, startRedis } from '../../stores/redis/redis-process.ts';
import { Random, seedOf } from '../random.ts';
import type { Task } from '../workload/order.ts';
import { isRepeated, planOf } from '../workload/plan.ts';
import { type Workload, workloads } from '../workload/tree.ts';
import type { Nursery } from './crash-child.ts';
import { boundaryRound, isTreeMode, type Mode, outageRound, pauseRound, raceRound, randomRound } from './modes.ts';
import { Round, type Tally } from './round.ts';
import { LmdbSite, PostgresSite, RedisSite, type Site } from './site.ts';
import { answering, steered, treeRound } from './tree-rounds.ts';

export type StoreKind = 'lmdb' | 'postgres' | 'redis';

export interface CampaignOptions {
  readonly seed: number;
  readonly store: StoreKind;
  readonly mode: Mode;
  readonly nursery: Nursery;
  /** The server of all rounds but those of `outage`, which have one each. */
  readonly server: RedisProcess | undefined;
  readonly postgres?: PostgresProcess | undefined;
  /** Rounds that run at the same time. */
  readonly lanes: number;
  /** Only this round. */
  readonly round?: number;
  /** How long the turns of a round may take to end once nobody is killed any more. Default 30,000; less where they are known to be broken. */
  readonly endingMs?: number;
  /** Ends the campaign: enough kills or pauses, the first violation, or too much time. */
  readonly until: (sum: CampaignSum) => boolean;
}

export interface CampaignSum {
  readonly rounds: number;
  readonly kills: number;
  readonly pauses: number;
  readonly outages: number;
  readonly tasks: number;
  readonly violations: readonly Violation[];
  readonly ms: number;
}

export interface Violation {
  /** The round's number. */
  readonly round: number;
  readonly violation: string;
}

/** Long enough for a renewal of a busy process to come in time, short enough not to wait long for it. */
const leaseMs = 200;

/** Rounds of one mode on one store, some at a time, each determined by the seed and its number. */
export async function runCampaign(options: CampaignOptions): Promise<CampaignSum> {
  const startedAt = performance.now();
  let sum: CampaignSum = { rounds: 0, kills: 0, pauses: 0, outages: 0, tasks: 0, violations: [], ms: 0 };
  let next = options.round ?? 0;
  const isOver = () => options.until(sum) || (options.round !== undefined && next > options.round);
  const lane = async () => {
    while (!isOver()) {
      const number = next++;
      const tally = await runRound(options, number);
      sum = added(sum, number, tally, performance.now() - startedAt);
    }
  };
  await Promise.all(Array.from({ length: options.lanes }, lane));
  return sum;
}

function added(sum: CampaignSum, number: number, tally: Tally, ms: number): CampaignSum {
  return {
    rounds: sum.rounds + 1,
    kills: sum.kills + tally.kills,
    pauses: sum.pauses + tally.pauses,
    outages: sum.outages + tally.outages,
    tasks: sum.tasks + tally.tasks,
    violations: [...sum.violations, ...tally.violations.map((violation) => ({ round: number, violation }))],
    ms,
  };
}

async function runRound(options: CampaignOptions, number: number): Promise<Tally> {
  const { store, mode, nursery, endingMs = 30_000 } = options;
  const keeps = options.endingMs === undefined;
  const seed = seedOf(options.seed, store, mode, number);
  const own = mode === 'outage' ? await startOwnRedis(seed) : undefined;
  const site = siteOf(options, own);
  const tasks = tasksOf(options, number, seed);
  const workload = isTreeMode(mode) ? { workload: mode } : {};
  const round = new Round({ seed, site, nursery, tasks, leaseMs, endingMs, keeps, ...workload });
  const outsiders = outsidersOf(round, mode);
  try {
    await play(round, mode, { number, server: own?.server });
  } catch (error) {
    round.say(`the round can be played: ${messageOf(error)}`);
  }
  const tally = await round.end(async () => {
    await Promise.all(outsiders.map((outsider) => outsider.stop()));
  });
  await own?.server.remove();
  return tally;
}

/** Whoever answers and steers the trees of a round from outside. */
function outsidersOf(round: Round, mode: Mode): readonly { stop(): Promise<void> }[] {
  if (!isTreeMode(mode)) return [];
  const { isSteered }: Workload = workloads[mode];
  return [...(mode.includes('cancel') ? [] : [answering(round)]), ...(isSteered ? [steered(round)] : [])];
}

function play(
  round: Round,
  mode: Mode,
  { number, server }: { readonly number: number; readonly server: RedisProcess | undefined },
): Promise<void> {
  if (isTreeMode(mode)) return treeRound(round, workloads[mode], number);
  switch (mode) {
    case 'boundary':
      return boundaryRound(round, boundaryOf(number).moment);
    case 'random':
      return randomRound(round);
    case 'pause':
      return pauseRound(round);
    case 'race':
      return raceRound(round);
    case 'outage':
      if (server === undefined) throw new Error('An outage needs a server of its own.');
      return outageRound(round, server);
  }
}

/** So many moments a plan has at least; what lies beyond is for the other modes. */
const momentsOfPlan = 90;

/** Which moment of which plan a round is about. */
function boundaryOf(number: number): { readonly plan: number; readonly moment: number } {
  return { plan: Math.floor(number / momentsOfPlan), moment: (number % momentsOfPlan) + 1 };
}

function tasksOf({ mode, seed, store }: CampaignOptions, number: number, roundSeed: number): readonly Task[] {
  const random = new Random(roundSeed);
  if (mode === 'boundary')
    return [{ taskId: `${mode}-${number}`, seed: longSeed(seedOf(seed, boundaryOf(number).plan)) }];
  return Array.from({ length: countOf(mode, random) }, (_, index) => ({
    taskId: `${store}-${mode}-${number}-${index}`,
    seed: random.seed(),
  }));
}

/** Turns of a round. A tree with a remote agent has two sides to run. */
function countOf(mode: Mode, random: Random): number {
  if (!isTreeMode(mode)) return random.int(2, 5);
  const { remote }: Workload = workloads[mode];
  return remote === undefined ? random.int(1, 2) : 1;
}

/** The first seed from there on whose plan has enough calls to reach every moment. */
function longSeed(from: number): number {
  for (let seed = from; ; seed++) {
    const calls = planOf(seed).flatMap((given) => given.filter((_, at) => !isRepeated(given, at))).length;
    if (calls >= 8 && calls <= 12) return seed;
  }
}

interface OwnRedis {
  readonly server: RedisProcess;
  readonly strict: boolean;
}

async function startOwnRedis(seed: number): Promise<OwnRedis> {
  const strict = new Random(seedOf(seed, 'fsync')).chance(0.5);
  const config = ['appendonly yes', `appendfsync ${strict ? 'always' : 'everysec'}`, 'save ""'];
  return { server: await startRedis({ config }), strict };
}

function siteOf({ store, server, postgres }: CampaignOptions, own: OwnRedis | undefined): Site {
  if (own) return new RedisSite(own.server, own.strict);
  if (store === 'lmdb') return new LmdbSite();
  if (store === 'postgres') {
    if (!postgres) throw new Error('The campaign has no PostgreSQL.');
    return new PostgresSite(postgres);
  }
  if (server === undefined) throw new Error('A campaign on Redis needs a server.');
  return new RedisSite(server, false);
}
