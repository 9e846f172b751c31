import { setTimeout as sleep } from 'node:timers/promises';
import { AgentLoopError, foldRecords, type TaskStateStore } from 'millrace';
import { answerTask, openQuestions } from 'millrace/internals';
import type { Outage } from '../workload/order.ts';
import { steering } from '../workload/plan.ts';
import type { Fault, Workload } from '../workload/tree.ts';
import type { CrashChild } from './crash-child.ts';
import { patienceMs, wake, wakeTooLate } from './modes.ts';
import type { Round } from './round.ts';

/** So many moments a tree has about; a process that does not reach the one it shall die at ends its turns. */
const momentsOfTree = 260;
/** A tree takes about this long where nobody disturbs it. Milliseconds. */
const treeMs = 700;
const tickMs = 50;

/** A round of a workload of trees, with the fault that is its turn. Somebody outside answers what the trees ask. */
export async function treeRound(round: Round, workload: Workload, number: number): Promise<void> {
  const { faults } = workload;
  const fault = faults[number % faults.length] ?? faults[0];
  if (workload.remote !== undefined && !fault.startsWith('remote-')) await round.serve();
  await played[fault](round, workload, number);
}

type Play = (round: Round, workload: Workload, number: number) => Promise<void>;

const played: Readonly<Record<Fault, Play>> = {
  moment: momentRound,
  'any-time': anyTimeRound,
  pause: (round, workload) => pauseRound(round, workload, { at: round.random.int(4, momentsOfTree / 2) }),
  'pause-at-intent': (round, workload) =>
    pauseRound(round, workload, { at: round.random.int(1, 6), of: 'child-intent' }),
  watch: watchRound,
  'outage-of-root': (round, workload) => outageRound(round, workload, { of: 'root', at: round.random.int(1, 6) }),
  'outage-of-child': (round, workload) => outageRound(round, workload, { of: 'child', at: round.random.int(1, 14) }),
  'outage-above-alone': outageAboveAloneRound,
  'outage-above': outageAboveRound,
  'outage-below': outageBelowRound,
  'remote-moment': remoteMomentRound,
  'remote-any-time': remoteAnyTimeRound,
  'remote-away': (round, workload) => remoteAwayRound(round, workload, 'SIGKILL'),
  'remote-stopped': (round, workload) => remoteAwayRound(round, workload, 'SIGSTOP'),
  'cancel-suspended': (round, _, number) => cancelRound(round, { isSuspended: true, number }),
  'cancel-running': (round, _, number) => cancelRound(round, { isSuspended: false, number }),
};

async function momentRound(round: Round): Promise<void> {
  const { random } = round;
  await dieAt(round, random.int(1, momentsOfTree));
  if (random.chance(0.4)) await dieAt(round, random.int(1, momentsOfTree / 3));
}

async function dieAt(round: Round, at: number): Promise<void> {
  const { random } = round;
  const work = random.pick(['run', 'watch'] as const);
  const child = await round.begin({ work, doom: { at, signal: 'SIGKILL', lagMs: random.int(0, 10) } });
  if (!(await child.settled(patienceMs))) round.say('a process dies where it shall, or ends its turns: it did neither');
  if (child.killedItself) round.kills++;
}

async function anyTimeRound(round: Round, { leases }: Workload): Promise<void> {
  const { random } = round;
  const victims = random.int(2, 3);
  for (let victim = 0; victim < victims; victim++) {
    const child = await round.begin({ work: random.pick(['run', 'run', 'watch', 'sweep']) });
    const waitMs = random.int(1, treeMs) + (victim === 0 ? 0 : random.int(leases.root - 100, leases.root + 100));
    if (await child.settled(waitMs)) return;
    await round.kill(child);
  }
}

async function pauseRound(
  round: Round,
  { leases }: Workload,
  where: { readonly at: number; readonly of?: 'child-intent' },
): Promise<void> {
  const doom = { ...where, signal: 'SIGSTOP', lagMs: round.random.int(0, 10) } as const;
  const sleeper = await round.begin({ persistent: false, doom });
  round.noteStop(sleeper);
  // Who is first to create the turns owns them.
  if (await sleeper.settled(round.random.int(100, treeMs))) return;
  const heir = await round.begin({ work: 'watch' });
  const overtaken = await heir.settled(leases.root + 5_000);
  if (heir.isGone) round.say(`who takes over stays alive: it printed ${heir.errors}`);
  // Otherwise it was stopped within a transaction of LMDB, which keeps everybody else from writing; or never.
  if (overtaken && !(await sleeper.settled(50))) await wakeTooLate(round, sleeper);
  else await wake(sleeper);
}

/** A second `startTurn` beside each owner takes over where the owner dies. */
async function watchRound(round: Round): Promise<void> {
  const { random } = round;
  const kills = random.int(1, 2);
  let owner = await round.begin({ work: 'watch' });
  for (let kill = 0; kill < kills; kill++) {
    const watcher = await round.begin({ work: 'watch' });
    if (await owner.settled(random.int(30, treeMs))) return;
    await round.kill(owner);
    owner = watcher;
  }
  await endsInTime(round, owner, 'a watcher');
}

/** Says so where a tree takes longer than it may. */
async function endsInTime(round: Round, child: CrashChild, who: string): Promise<void> {
  if (!(await round.endsInTime(child))) round.say(`a tree ends in time: not with ${who}`);
}

async function outageRound(
  round: Round,
  { storeDeadlineMs }: Workload,
  where: Pick<Outage, 'of' | 'at'>,
): Promise<void> {
  const { random } = round;
  const ms = storeDeadlineMs + random.int(200, 700);
  const kind = random.pick(['refused', 'silent'] as const);
  const child = await round.begin({ outage: { ...where, ms, kind, away: 'all' } });
  if (random.chance(0.3)) await round.begin({ work: 'watch' });
  if (!(await child.settled(patienceMs))) round.say('trees go on once the store is back: they do not');
}

/**
 * The owner of a tree reaches the journals of the child turns, and not that of the root. Another takes the root over and dies at once, or
 * later: all that time the first has no right to the child turns any more.
 */
async function outageAboveRound(round: Round, { leases }: Workload): Promise<void> {
  const { random } = round;
  const kind = random.pick(['refused', 'silent'] as const);
  // Mostly early: the child turn lasts for longer than the lease above it then.
  const at = random.chance(0.75) ? random.int(1, 2) : random.int(3, 8);
  const outage = { of: 'child', at, ms: leases.root + 2_500, kind, away: 'root' } as const;
  const owner = await round.begin({ outage });
  const heir = await round.begin({
    work: 'watch',
    doom: { at: 1, of: random.chance(0.75) ? 'child-taken' : 'root-taken', signal: 'SIGKILL', lagMs: 0 },
  });
  if (!(await heir.settled(leases.root + random.int(400, 1_200)))) await round.kill(heir);
  else if (heir.killedItself) round.kills++;
  if (!(await owner.settled(patienceMs))) round.say('trees go on once the store is back: they do not');
}

/**
 * The owner of a tree reaches the journals of the child turns, and not that of the root, from the first append of a child turn on. Nobody
 * takes the root over: a child turn needs a lease that cannot be renewed, and the owner loses the root while it runs.
 */
async function outageAboveAloneRound(round: Round, { leases, storeDeadlineMs }: Workload): Promise<void> {
  const { random } = round;
  const kind = random.pick(['refused', 'silent'] as const);
  const ms = leases.root + storeDeadlineMs + 1_000;
  const owner = await round.begin({ outage: { of: 'child', at: 1, ms, kind, away: 'root' } });
  if (!(await owner.settled(patienceMs))) round.say('trees go on once the store is back: they do not');
}

/** The owner reaches the journal of the root, and not those below it, for longer than it tries again. */
async function outageBelowRound(round: Round, { storeDeadlineMs }: Workload): Promise<void> {
  const { random } = round;
  const kind = random.pick(['refused', 'silent'] as const);
  const outage = { of: 'child', at: random.int(2, 10), ms: storeDeadlineMs * 8, kind, away: 'children' } as const;
  const child = await round.begin({ outage });
  if (!(await child.settled(patienceMs))) round.say('trees go on once the store is back: they do not');
}

/** So many moments a server of a remote agent has about while one tree runs. */
const momentsOfServer = 160;
/** How long nobody listens at its port. Milliseconds. */
const mostDownMs = 300;

async function remoteMomentRound(round: Round): Promise<void> {
  const { random } = round;
  const at = random.int(1, momentsOfServer);
  const server = await round.serve({ at, signal: 'SIGKILL', lagMs: random.int(0, 10) });
  const child = await round.begin({ work: random.pick(['run', 'watch'] as const) });
  while (!server.isGone && !(await child.settled(tickMs)));
  if (!server.isGone) return;
  round.kills++;
  await nextServer(round, child);
}

async function remoteAnyTimeRound(round: Round): Promise<void> {
  const { random } = round;
  const kills = random.int(1, 2);
  let server = await round.serve();
  let child = await round.begin();
  for (let kill = 0; kill < kills; kill++) {
    if (await child.settled(random.int(1, treeMs))) return;
    await round.kill(server);
    if (random.chance(0.3)) {
      await round.kill(child);
      child = await round.begin({ work: 'watch' });
    }
    if (kill < kills - 1) {
      await sleep(random.int(0, mostDownMs));
      server = await round.serve();
    }
  }
  await nextServer(round, child);
}

async function nextServer(round: Round, child: CrashChild): Promise<void> {
  await sleep(round.random.int(0, mostDownMs));
  await round.serve();
  await endsInTime(round, child, 'the next server of the remote agent');
}

/**
 * While a remote task runs its server is killed, or stopped, and stays away for longer than the lease of the turns above: its caller is
 * killed with it or later, while it asks in vain, or not at all, and so may be who takes the tree over from it.
 */
async function remoteAwayRound(round: Round, { leases }: Workload, signal: 'SIGKILL' | 'SIGSTOP'): Promise<void> {
  const { random } = round;
  const server = await round.serve();
  let child = await round.begin({ work: random.pick(['run', 'watch'] as const) });
  while (!round.site.deeds().some(({ task }) => round.isAtServer(task))) if (await child.settled(tickMs)) return;
  if (await child.settled(random.int(0, treeMs / 2))) return;
  if (signal === 'SIGKILL') await round.kill(server);
  else round.stop(server);
  for (let kills = random.int(0, 2); kills > 0; kills--) {
    if (await child.settled(random.chance(0.5) ? 0 : random.int(1, leases.root * 2))) break;
    await round.kill(child);
    child = await round.begin({ work: random.pick(['run', 'watch', 'sweep'] as const) });
    while (!round.hasTaken(child) && !(await child.settled(tickMs)));
  }
  await child.settled(leases.root + random.int(100, 1_000));
  if (signal === 'SIGSTOP' && random.chance(0.5)) server.signal('SIGCONT');
  else {
    if (signal === 'SIGSTOP') await round.kill(server);
    await round.serve();
  }
  await endsInTime(round, child, 'the remote agent reached again');
}

/** Each append has a moment before it, one behind it and one with its answer. */
const momentsOfCancel = 15;

async function cancelRound(
  round: Round,
  { isSuspended, number }: { readonly isSuspended: boolean; readonly number: number },
): Promise<void> {
  const { random } = round;
  round.ending = 'canceled';
  const owner = await round.begin({ work: 'run-until-asked' });
  const waitMs = isSuspended ? patienceMs : random.int(100, treeMs);
  if (!(await owner.settled(waitMs)) && isSuspended) round.say('a tree asks: it does not');
  // On a busy machine a process may need longer than that to begin; a turn that nobody created cannot be cancelled.
  await begun(round);
  if (random.chance(0.3)) await round.kill(owner);
  const at = 1 + (number % momentsOfCancel);
  const doom = { at, of: 'append', signal: 'SIGKILL', lagMs: random.int(0, 10) } as const;
  const canceller = await round.begin({ work: 'cancel', doom });
  if (!(await canceller.settled(patienceMs))) round.say('a process dies where it shall, or cancels: it did neither');
  if (canceller.killedItself) round.kills++;
  await round.lookBelowEnded();
}

/** Waits until every tree of the round has its first record. */
async function begun(round: Round): Promise<void> {
  const taskIds = round.tasks.map(({ taskId }) => taskId);
  for (let waitedMs = 0; waitedMs < patienceMs; waitedMs += 20) {
    const journals = await round.site.journals(taskIds);
    if (journals.every((records) => records.length > 0)) return;
    await sleep(20);
  }
  round.say('the trees begin: a process did not create them');
}

/** Approves whatever the trees of a round ask, from outside, until it is told to stop. */
export function answering(round: Round): { stop(): Promise<void> } {
  let isOver = false;
  const work = round.site.withStore(async (store) => {
    while (!isOver) {
      for (const { taskId } of round.tasks) await approve(store, taskId);
      await sleep(60);
    }
  });
  return {
    async stop() {
      isOver = true;
      await work;
    },
  };
}

async function approve(store: TaskStateStore, taskId: string): Promise<void> {
  try {
    const questions = openQuestions(foldRecords(await store.read(taskId)));
    if (questions.length === 0) return;
    const answers = Object.fromEntries(questions.map(({ id }) => [id, { approved: true }]));
    await answerTask(taskId, { store, answers, root: true, deadlineMs: 1_000 });
  } catch (error) {
    // Not there yet, over by now, or its owner is busy: it is asked again.
    if (!AgentLoopError.isInstance(error)) throw error;
  }
}

/** Tells each tree of a round to hurry, once, while its second agent has the turn. */
export function steered(round: Round): { stop(): Promise<void> } {
  let isOver = false;
  const told = new Set<string>();
  const work = round.site.withStore(async (store) => {
    while (!isOver && told.size < round.tasks.length) {
      for (const { taskId } of round.tasks)
        if (!told.has(taskId) && (await steer(round, store, taskId))) told.add(taskId);
      await sleep(10);
    }
  });
  return {
    async stop() {
      isOver = true;
      await work;
    },
  };
}

/** Whether it is over: it was told, or it is too late. */
async function steer({ site }: Round, store: TaskStateStore, taskId: string): Promise<boolean> {
  try {
    const records = await store.read(taskId);
    if (!records.some(({ type }) => type === 'agent.changed')) return false;
    const command = `hurry-${taskId}`;
    await store.post(taskId, { id: command, type: 'steer', message: steering });
    // What the journal has by now may be older than the message.
    const { length: seq } = await store.read(taskId);
    site.note({ type: 'steered', task: taskId, command, seq });
    return true;
  } catch (error) {
    if (!AgentLoopError.isInstance(error)) throw error;
    return error.code === 'TERMINAL';
  }
}
