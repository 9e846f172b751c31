import type { RedisProcess } from '../../stores/redis/redis-process.ts';
import { type TreeMode, treeModes, workloads } from '../workload/tree.ts';
import type { CrashChild } from './crash-child.ts';
import type { Round } from './round.ts';

const turnModes = ['boundary', 'random', 'pause', 'race', 'outage'] as const;
export type TurnMode = (typeof turnModes)[number];
/** Of turns alone, and of trees: those are named as their workloads. */
export type Mode = TurnMode | TreeMode;

export function isTreeMode(mode: Mode): mode is TreeMode {
  return mode in workloads;
}

export const modeNames: readonly Mode[] = [...turnModes, ...treeModes];

const killsOfTurns: Readonly<Record<TurnMode, number>> = {
  boundary: 200,
  random: 180,
  pause: 60,
  race: 100,
  outage: 80,
};

/** How many kills a campaign has by default; of `pause`, pauses; of trees, kills, pauses and outages. Together 2,000 over both stores. */
export function defaultKills(mode: Mode): number {
  return isTreeMode(mode) ? (mode === 'tree-cancel' ? 30 : 44) : killsOfTurns[mode];
}

/** How long a process that shall die or end by itself may take for it. */
export const patienceMs = 30_000;

/** The first process dies at the `n`th moment that it reaches, some of the next ones at an early one. */
export async function boundaryRound(round: Round, n: number): Promise<void> {
  const { random } = round;
  await dieAt(round, n);
  if (random.chance(0.3)) await dieAt(round, random.int(1, 40));
}

async function dieAt(round: Round, at: number): Promise<void> {
  const lagMs = round.random.int(0, 10);
  const child = await round.begin({ doom: { at, signal: 'SIGKILL', lagMs } });
  if (!(await child.settled(patienceMs))) round.say('a process dies where it shall, or ends its turns: it did neither');
  if (child.killedItself) round.kills++;
}

/** Two to four processes, one after the other, killed at any time. */
export async function randomRound(round: Round): Promise<void> {
  const { random } = round;
  const victims = random.int(2, 4);
  for (let victim = 0; victim < victims; victim++) {
    const child = await round.begin();
    const waitMs = victim === 0 ? random.int(1, 250) : round.leaseMs + random.int(-40, 250);
    if (await child.settled(waitMs)) return;
    await round.kill(child);
  }
}

/** A process is stopped, another overtakes it, and it goes on: it is too late for everything. */
export async function pauseRound(round: Round): Promise<void> {
  const { random } = round;
  const byItself = random.chance(0.7);
  const doom = { at: random.int(4, 90), signal: 'SIGSTOP', lagMs: random.int(0, 10) } as const;
  const sleeper = await round.begin({ persistent: false, ...(byItself && { doom }) });
  round.noteStop(sleeper);
  if (!byItself) {
    if (await sleeper.settled(random.int(1, 200))) return;
    sleeper.signal('SIGSTOP');
  }
  const heir = await round.begin();
  const overtaken = await heir.settled(round.leaseMs + 3_000);
  if (heir.isGone) round.say(`who takes over stays alive: it printed ${heir.errors}`);
  // Otherwise it was stopped within a transaction of LMDB, which keeps everybody else from writing; or never.
  if (overtaken && !(await sleeper.settled(50))) await wakeTooLate(round, sleeper, byItself ? 0 : 1);
  else await wake(sleeper);
}

/**
 * `unfenced`: how many tools it may still start. One that was stopped from outside may have been between its last look at the clock and
 * the first effect of a tool, where nobody can fence it off; it runs one thing at a time, so that is one call at most.
 */
export async function wakeTooLate(round: Round, sleeper: CrashChild, unfenced = 0): Promise<void> {
  const taskIds = round.taskIds();
  const before = await round.site.journals(taskIds);
  const started = startsOf(round, sleeper);
  round.pauses++;
  if (!(await wake(sleeper))) round.say('who was overtaken lets go: it still works on its turns');
  const after = await round.site.journals(taskIds);
  if (startsOf(round, sleeper) > started + unfenced) round.say('who was overtaken starts nothing: it ran a tool');
  for (const [index, records] of after.entries()) {
    if (records.length !== before[index]?.length) round.say('who was overtaken records nothing: a journal grew');
  }
  for (const { taskId, code, message } of sleeper.work.losses) {
    // Its call of the store may have run into the deadline before the answer that fences it off is read.
    const isExpected = code === 'FENCED' || (code === 'UNAVAILABLE' && round.mayHaveTimedOut(sleeper));
    if (!isExpected) round.say(`${taskId}: who was overtaken is FENCED: it is told ${code}: ${message}`);
  }
}

/** Lets a stopped process go on, also one that stops itself only now. */
export async function wake(sleeper: CrashChild): Promise<boolean> {
  const timer = setInterval(() => sleeper.signal('SIGCONT'), 50);
  try {
    sleeper.signal('SIGCONT');
    return await sleeper.settled(patienceMs);
  } finally {
    clearInterval(timer);
  }
}

function startsOf({ site }: Round, { pid }: CrashChild): number {
  return site.deeds().filter((deed) => deed.type === 'start' && deed.pid === pid).length;
}

/** Two processes want the same turns at the same time. */
export async function raceRound(round: Round): Promise<void> {
  if (round.random.chance(0.3)) await startRace(round);
  else await takeoverRace(round);
}

/** Nobody dies, and leases are long: who has one keeps it. */
async function startRace(round: Round): Promise<void> {
  const leaseMs = 20_000;
  const racers = [await round.begin({ leaseMs }), await round.begin({ leaseMs })];
  for (const racer of racers) {
    if (!(await racer.settled(patienceMs))) round.say('two that start the same turns both see them end: one does not');
    for (const { taskId, code } of racer.work.losses) round.say(`${taskId}: a lease that lasts is kept: ${code}`);
  }
}

/** The owner is killed, two go on, one of them is killed as well. */
async function takeoverRace(round: Round): Promise<void> {
  const { random } = round;
  const owner = await round.begin();
  if (await owner.settled(random.int(20, 200))) return;
  await round.kill(owner);
  const racers: readonly [CrashChild, CrashChild] = [await round.begin(), await round.begin()];
  const victim = random.pick(racers);
  if (!(await victim.settled(round.leaseMs + random.int(-30, 200)))) await round.kill(victim);
  for (const racer of racers) {
    if (!(await racer.settled(patienceMs)))
      round.say('of two that go on, who survives sees the turns end: it does not');
  }
}

/** Redis is killed and started again while turns run, some of them killed as well. */
export async function outageRound(round: Round, server: RedisProcess): Promise<void> {
  const { random } = round;
  const outages = random.int(1, 2);
  for (let outage = 0; outage < outages; outage++) {
    const child = await round.begin();
    const isOver = await child.settled(random.int(10, 250) + (outage === 0 ? 0 : round.leaseMs));
    await server.end(random.chance(0.75) ? 'SIGKILL' : 'SIGTERM');
    if (!isOver) round.kills++;
    const dies = !isOver && random.chance(0.5);
    if (dies) await child.settled(random.int(0, 100));
    if (dies) await round.kill(child);
    await child.settled(random.int(0, 200));
    await server.start();
    if (!dies && !(await child.settled(patienceMs))) round.say('turns go on once Redis is back: they do not');
  }
}
