import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, it } from '@jest/globals';
import { InMemoryStateStore } from 'millrace';
import { turnQueue, worker } from 'millrace/fleet';
import { testLimitMs } from '../eventually.ts';
import { answering, fleetBench, times, until, user } from '../fleet/fleet-bench.ts';
import { jobEvents, overtaking } from '../fleet/job-events.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { type RedisProcess, startRedis } from '../stores/redis/redis-process.ts';

describeRedis('a fleet whose workers die', () => {
  const on = fleetBench();
  const programs = new ChildPrograms('tests/fleet/children');
  const folder = mkdtempSync(join(tmpdir(), 'millrace-fleet-'));
  const children: ChildProcess[] = [];
  let files = 0;
  let log = '';
  afterEach(async () => {
    await Promise.all(children.splice(0).map(kill));
    log = '';
  });
  afterAll(async () => {
    await programs.clear();
    rmSync(folder, { recursive: true, force: true });
  });

  async function start(name: string, options: object = {}, changes: object = {}): Promise<ChildProcess> {
    log ||= join(folder, `log-${files++}`);
    const given = {
      log,
      rounds: 3,
      modelMs: 5,
      toolMs: 20,
      worker: { ...times, concurrency: 10, ...changes },
      ...options,
    };
    const child = programs.start('worker', on.redis.server.url, name, JSON.stringify(given));
    children.push(child);
    await nextMessage(child);
    return child;
  }

  interface Line {
    readonly what: string;
    readonly tool: string;
    readonly call: string;
    readonly pid: number;
    readonly at: number;
  }

  function lines(): readonly Line[] {
    try {
      return readFileSync(log, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => {
          const [what = '', tool = '', taskId = '', callId = '', pid = '', at = ''] = line.split(' ');
          return { what, tool, call: `${taskId} ${callId}`, pid: Number(pid), at: Number(at) };
        });
    } catch {
      return [];
    }
  }

  const runsOf = (tool: string) => {
    const counts = new Map<string, number>();
    for (const { what, tool: of, call } of lines())
      if (what === 'tool' && of === tool) counts.set(call, (counts.get(call) ?? 0) + 1);
    return counts;
  };

  /** Every turn has one end, no recorded call ran again, and no call in doubt that must not. */
  async function sound(ids: readonly string[]): Promise<void> {
    for (const taskId of ids) {
      const records = await on.store.read(taskId);
      expect(records.filter(({ type }) => /^turn\.(done|failed|canceled)$/.test(type))).toHaveLength(1);
      expect(records.at(-1)?.type).toBe('turn.done');
      const results = records.flatMap((record) => (record.type === 'tool.result' ? [record.callId] : []));
      expect(new Set(results).size).toBe(results.length);
    }
    expect([...runsOf('risk').values()].filter((count) => count > 1)).toEqual([]);
  }

  const allEnd = (ids: readonly string[]) =>
    until(async () => (await on.store.list({ state: 'completed', limit: ids.length })).length === ids.length);

  async function startTurns(count: number, options: object = {}) {
    const name = on.nameOfTest;
    const queue = on.queue();
    const ids = Array.from({ length: count }, (_, index) => `t${index}`);
    for (const taskId of ids) await queue.start(user('Work'), { agentId: 'ada', taskId, ...options });
    return { name, queue, ids };
  }

  it('F-04 all turns end once, and F-06 those of a killed worker are taken over in front of all that wait', async () => {
    const { name, ids } = await startTurns(80);
    const [first] = await Promise.all([start(name, { toolMs: 200 }), start(name, { toolMs: 200 })]);
    const pid = first?.pid ?? 0;
    const openOfFirst = () => {
      const ended = new Set(lines().flatMap(({ what, tool, call }) => (what === 'done' ? [`${tool} ${call}`] : [])));
      return lines().filter(
        (line) => line.what === 'tool' && line.pid === pid && !ended.has(`${line.tool} ${line.call}`),
      );
    };
    await until(() => openOfFirst().length >= 6);
    const events = jobEvents(on);
    await kill(first as ChildProcess);
    const taskIds = new Set(openOfFirst().map(({ call }) => call.split(' ')[0] ?? ''));
    expect(taskIds.size).toBeGreaterThan(0);
    await allEnd(ids);
    for (const taskId of taskIds)
      expect((await on.store.read(taskId)).some(({ type }) => type === 'turn.resumed')).toBe(true);
    const overtaken = overtaking(await events());
    expect(overtaken.length).toBeGreaterThanOrEqual(taskIds.size);
    expect(Math.max(...overtaken)).toBe(0);
    await sound(ids);
  });

  it('F-07 SIGTERM leaves the turns to others at once, and no tool runs twice', async () => {
    const { name, ids } = await startTurns(10);
    // Longer than this test may take: its turns would end it otherwise, or its drain, or its leases.
    const [drainMs, leaseMs, lockMs] = [2 * testLimitMs, 2 * testLimitMs, 3 * testLimitMs];
    const first = await start(name, { toolMs: 400, rounds: 1_000 }, { drainMs, leaseMs, lockMs });
    await until(() => lines().length >= 10);
    await start(name, { toolMs: 20 }, { leaseMs, lockMs });
    const gone = once(first, 'exit');
    first.kill('SIGTERM');
    expect(await gone).toEqual([0, null]);
    await allEnd(ids);
    await sound(ids);
    expect([...runsOf('work').values()].filter((count) => count > 1)).toEqual([]);
    const records = await Promise.all(ids.map((id) => on.store.read(id)));
    expect(records.flat().filter(({ type }) => type === 'turn.resumed').length).toBeGreaterThan(0);
  });

  it('F-07 a tool that ignores its signal does not keep the process beyond drainMs', async () => {
    const { name } = await startTurns(1);
    const deaf = await start(name, { toolMs: 2 * testLimitMs, deaf: true }, { drainMs: 1_000 });
    await until(() => lines().length > 0);
    const gone = once(deaf, 'exit');
    deaf.kill('SIGTERM');
    expect(await gone).toEqual([0, null]);
  });

  it('F-03 a queue that is flushed while turns run and wait loses none', async () => {
    const { name, ids } = await startTurns(40);
    await Promise.all([start(name, { toolMs: 100 }), start(name, { toolMs: 100 })]);
    await until(() => lines().length > 10);
    const keys = on.redis.server.cli('KEYS', `{${name}}*`).split('\n');
    on.redis.server.cli('DEL', ...keys);
    await allEnd(ids);
    await sound(ids);
  });

  it('F-10 an event loop that is blocked for longer than the lock, and shorter than the lease, harms nothing', async () => {
    const { name, ids } = await startTurns(8);
    const lasting = { lockMs: 700, leaseMs: 300, stalledCheckMs: 200 };
    await start(name, { blockMs: 1_200 }, lasting);
    await start(name, {}, lasting);
    await allEnd(ids);
    await sound(ids);
  });

  it.each<[string, (redis: RedisProcess) => Promise<void> | void]>([
    ['was killed', (redis) => redis.end('SIGKILL')],
    ['stands still', (redis) => redis.signal('SIGSTOP')],
  ])('F-07 a worker whose Redis %s is drained all the same, and logs no failure twice', async (_, fail) => {
    const redis = await startRedis({ config: ['save ""'] });
    const queue = turnQueue({ connection: redis.url, store: new InMemoryStateStore() });
    const failures: string[] = [];
    const warn = (message: string, fields?: object) => void failures.push(`${message} ${JSON.stringify(fields)}`);
    const logger = { debug: warn, info: warn, warn, error: warn };
    try {
      const working = worker({ queue, agents: [answering()], drainMs: 1_000, logger });
      const over = working.run();
      await until(() => working.ready());
      await fail(redis);
      await until(async () => !(await working.ready()));
      await working.drain();
      await queue.close();
      await over;
      // The connection that is lost, and those that are refused, each once.
      expect(failures).toEqual([...new Set(failures)]);
    } finally {
      await redis.remove();
    }
  });
});
