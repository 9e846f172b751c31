import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, it } from '@jest/globals';
import { ChildBundle, type Patch } from '../crash/parent/child-bundle.ts';
import { fleetBench, times, until, user } from '../fleet/fleet-bench.ts';
import { jobEvents, overtaking } from '../fleet/job-events.ts';
import { kill, nextMessage } from '../stores/lmdb/child-programs.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';

const waiting = 3_000;
/** So many that begin before it are not chance. */
const many = 100;

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

  /**
   * Kills one of three workers and gives, of each of its jobs, how many that waited began before it had a new owner: once its turns were
   * resumed, or once there are `many`.
   */
  async function takeover(patches: readonly Patch[], worker: typeof times): Promise<readonly number[]> {
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
    const events = jobEvents(on);
    await kill(victim);
    const taskIds = [...open()];
    expect((await queue.health()).waiting).toBeGreaterThan(waiting * 0.9);
    const cli = (...args: readonly string[]) => on.redis.server.cli(...args).split('\n');
    // The job of a dead worker comes back at the latest with the second look after its lock has ended.
    const key = (...parts: readonly string[]) => [`{${name}}`, 'ada', ...parts].join(':');
    const locks = cli('LRANGE', key('active'), '0', '-1').flatMap((id) => cli('PTTL', key(id, 'lock')));
    expect(Math.max(...locks.map(Number))).toBeLessThanOrEqual(worker.lockMs);
    expect(Number(cli('PTTL', key('stalled-check'))[0])).toBeLessThanOrEqual(worker.stalledCheckMs);
    let overtaken: readonly number[] = [];
    await until(async () => {
      overtaken = overtaking(await events());
      if (Math.max(...overtaken) >= many) return true;
      const records = await Promise.all(taskIds.map((taskId) => on.store.read(taskId)));
      return records.every((each) => each.some(({ type }) => type === 'turn.resumed'));
    });
    expect(overtaken.length).toBeGreaterThanOrEqual(taskIds.length);
    return overtaken;
  }

  it('F-06 3,000 turns wait, and each turn of a killed worker has a new owner once its lock has ended, before any of them', async () => {
    expect(Math.max(...(await takeover([], times)))).toBe(0);
  });

  const early = { ...times, lockMs: 1_000, leaseMs: 3_000, stalledCheckMs: 250 };

  it('F-06 a worker that gets the job of a dead one before its lease has ended waits in place', async () => {
    expect(Math.max(...(await takeover([shortLocks], early)))).toBe(0);
  });

  it('F-06 where it delayed the job in place of waiting, the turn would come after those that wait', async () => {
    expect(Math.max(...(await takeover([shortLocks, delayed], early)))).toBeGreaterThanOrEqual(many);
  });
});
