import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, it } from '@jest/globals';
import { ChildBundle, type Patch } from '../crash/parent/child-bundle.ts';
import { fleetBench, times, until, user } from '../fleet/fleet-bench.ts';
import { kill, nextMessage } from '../stores/lmdb/child-programs.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';

const waiting = 3_000;
/** Clocks, and a machine that does other things. */
const toleranceMs = 1_000;

/** Lets a lock be shorter than a lease, so that each job of a dead worker comes back while its turn is held. */
const shortLocks: Patch = { file: 'src/fleet/options.ts', from: 'if (times.lockMs <= shortest)', to: 'if (false)' };
const delayed: Patch = {
  file: 'src/fleet/run-job.ts',
  from: 'await this.#pause(Math.min(retryAfterOf(outcome.error), this.#options.times.leaseMs) + tickMs);',
  to: "return this.#delay(job, token, { is: 'later', at: Date.now() + 250, first: false });",
};

describeRedis('takeovers with a full queue', () => {
  const on = fleetBench();
  const folder = mkdtempSync(join(tmpdir(), 'millrace-takeover-'));
  const children: ChildProcess[] = [];
  const bundles: ChildBundle[] = [];
  afterEach(async () => {
    await Promise.all(children.splice(0).map(kill));
    for (const bundle of bundles.splice(0)) bundle.remove();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** Kills one of three workers and gives how long it took until the last of its turns was resumed; no longer than `patienceMs`. */
  async function slowestTakeover(patches: readonly Patch[], worker: typeof times, patienceMs: number): Promise<number> {
    const name = on.nameOfTest;
    const log = join(folder, name);
    const queue = on.queue();
    const ids = Array.from({ length: waiting }, (_, index) => `t${index}`).values();
    const lane = async () => {
      for (const taskId of ids) await queue.start(user('Work'), { agentId: 'ada', taskId });
    };
    await Promise.all(Array.from({ length: 20 }, lane));
    const bundle = new ChildBundle(patches, 'tests/fleet/children/worker.ts');
    bundles.push(bundle);
    const start = async () => {
      const given = { log, rounds: 3, modelMs: 5, toolMs: 300, worker: { ...worker, concurrency: 10 } };
      const child = fork(join(bundle.path, '..', 'worker.mjs'), [on.redis.server.url, name, JSON.stringify(given)]);
      children.push(child);
      await nextMessage(child);
      return child;
    };
    const [victim] = await Promise.all([start(), start(), start()]);
    if (!victim) throw new Error('no worker');
    const open = () => {
      const lines = readFileSync(log, { encoding: 'utf8', flag: 'a+' })
        .split('\n')
        .map((line) => line.split(' '));
      const done = new Set(lines.flatMap(([what, ...call]) => (what === 'done' ? [call.slice(0, 3).join(' ')] : [])));
      const own = lines.filter(([what, , , , pid]) => what === 'tool' && pid === String(victim.pid));
      return new Set(own.flatMap(([, ...call]) => (done.has(call.slice(0, 3).join(' ')) ? [] : [call[1] ?? ''])));
    };
    await until(() => open().size >= 6);
    await kill(victim);
    const killedAt = Date.now();
    const taskIds = open();
    expect((await queue.health()).waiting).toBeGreaterThan(waiting * 0.9);
    const takenAt = new Map<string, number>();
    while (takenAt.size < taskIds.size && Date.now() < killedAt + patienceMs) {
      for (const taskId of taskIds) {
        const resumed = (await on.store.read(taskId)).find(({ type, at }) => type === 'turn.resumed' && at >= killedAt);
        if (resumed) takenAt.set(taskId, resumed.at);
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return takenAt.size < taskIds.size ? Number.POSITIVE_INFINITY : Math.max(...takenAt.values()) - killedAt;
  }

  it('F-06 3,000 turns wait, and each turn of a killed worker has a new owner within lockMs + 2 x stalledCheckMs', async () => {
    const boundMs = times.lockMs + 2 * times.stalledCheckMs + toleranceMs;
    expect(await slowestTakeover([], times, 2 * boundMs)).toBeLessThan(boundMs);
  });

  const early = { ...times, lockMs: 1_000, leaseMs: 3_000, stalledCheckMs: 250 };
  const earlyBoundMs = early.leaseMs + 2 * early.stalledCheckMs + toleranceMs;

  it('F-06 a worker that gets the job of a dead one before its lease has ended waits in place', async () => {
    expect(await slowestTakeover([shortLocks], early, 2 * earlyBoundMs)).toBeLessThan(earlyBoundMs);
  });

  it('F-06 where it delayed the job in place of waiting, the turn would come after those that wait', async () => {
    expect(await slowestTakeover([shortLocks, delayed], early, 2 * earlyBoundMs)).toBeGreaterThan(earlyBoundMs);
  });
});
