import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentLoopError, type JournalRecord } from 'millrace';
import { isTerminal } from 'millrace/internals';
import { Random } from '../crash/random.ts';
import { type Findings, findingsOf } from './checks.ts';
import type { ActiveJob, Faults, WorkerFault } from './faults.ts';
import { readLedgers } from './ledger.ts';
import type { LoadOptions } from './options.ts';
import type { Order, Report, Role } from './order.ts';
import { LoadProcess } from './processes.ts';
import { type RedisCounts, redisCounts, type Servers, startServers, storedBytes } from './servers.ts';
import { turnsOf } from './turns.ts';

export interface LoadResult extends Findings {
  readonly ms: number;
  readonly kills: number;
  readonly observerKills: number;
  readonly cpuMs: number;
  readonly redis: RedisCounts;
  readonly storedBytes: number;
}

const name = 'load';
const agentId = 'ada';
/** No turn made its last model call for so long: the run is stuck. The last turn may lose its worker twice, and a takeover takes 1.5 × lockMs. */
const stuckMs = (lockMs: number) => 60_000 + 3 * lockMs;
const endingMs = 30_000;
/** Rarely, so that what only a sweep brings back is late. */
const sweepMs = (lockMs: number) => Math.max(10_000, Math.min(4 * lockMs, 50_000));
/** Two clocks, a busy machine. */
const toleranceMs = 1_000;

/** Runs all turns, and looks at what is left. `program`: of the processes. */
export async function runLoad(options: LoadOptions, program: string): Promise<LoadResult> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-fleet-load-'));
  const servers = await startServers(options.store, name);
  try {
    return await new Load(options, program, folder, servers).run();
  } finally {
    await servers.store.close();
    await servers.redis.remove();
    await servers.postgres?.remove();
    rmSync(folder, { recursive: true, force: true });
  }
}

class Load {
  readonly #options: LoadOptions;
  readonly #program: string;
  readonly #servers: Servers;
  readonly #order: Omit<Order, 'role'>;
  readonly #random: Random;
  readonly #processes: LoadProcess[] = [];
  readonly #workers: LoadProcess[] = [];
  readonly #broken: string[] = [];
  readonly #faults: Faults = { workers: [], locks: [], outages: [] };
  readonly #last = new Set<string>();
  readonly #counts = { gateway: 0, observer: 0 };
  readonly #redis = { commands: 0, received: 0, sent: 0, cpuMs: 0 };
  #kills = 0;
  #observerKills = 0;

  constructor(options: LoadOptions, program: string, folder: string, servers: Servers) {
    const { turns, seed, observed, concurrency, lockMs } = options;
    this.#options = options;
    this.#program = program;
    this.#servers = servers;
    this.#random = new Random(seed);
    const worker = {
      concurrency,
      lockMs,
      leaseMs: lockMs / 2,
      stalledCheckMs: lockMs / 4,
      sweepEveryMs: sweepMs(lockMs),
    };
    const { url: redis } = servers.redis;
    this.#order = { redis, postgres: servers.postgres?.url, name, folder, turns, seed, observed, worker };
  }

  async run(): Promise<LoadResult> {
    const { workers, turns, killEveryMs, lockMs } = this.#options;
    const before = await storedBytes(this.#servers);
    await this.#count(-1);
    for (let index = 0; index < workers; index++) this.#workers.push(this.#start('worker'));
    await Promise.all(this.#workers.map(({ ready }) => ready));
    const startedAt = performance.now();
    const gateway = this.#start('gateway');
    const observer = this.#start('observer');
    const faults = killEveryMs === 0 ? [] : [this.#killWorkers(), this.#pauseWorker(), this.#restartRedis()];
    if (killEveryMs > 0) faults.push(this.#killOnce('gateway', gateway), this.#killOnce('observer', observer));
    await this.#reached(1);
    const ms = performance.now() - startedAt;
    await Promise.all(faults);
    const journals = await this.#journals();
    const until = Date.now() + endingMs;
    while (this.#counts.observer < this.#options.observed && Date.now() < until) await sleep(100);
    await this.#count(1);
    const stored = (await storedBytes(this.#servers)) - before;
    await Promise.all(this.#processes.map((each) => each.kill()));
    const { leaseMs = 0, stalledCheckMs = 0 } = this.#order.worker;
    const remains = {
      turns: turnsOf(turns, this.#options.seed),
      journals,
      deeds: readLedgers(this.#order.folder),
      faults: this.#faults,
      leaseMs,
      lockMs,
      places: workers * this.#options.concurrency,
    };
    const findings = findingsOf(remains, lockMs + 2 * stalledCheckMs + toleranceMs);
    const violations = [...this.#broken, ...findings.violations];
    const cpuMs = this.#processes.reduce((sum, each) => sum + each.cpuMs, 0);
    return {
      ...findings,
      violations,
      ms,
      kills: this.#kills,
      observerKills: this.#observerKills,
      cpuMs,
      redis: this.#redis,
      storedBytes: stored,
    };
  }

  #start(role: Role): LoadProcess {
    const take = (report: Report) => {
      if (report.type === 'last') this.#last.add(report.taskId);
      if (report.type === 'long' && this.#options.killEveryMs > 0) this.#loseLock(report.taskId);
      if (report.type === 'count' && role !== 'worker') this.#counts[role] = report.count;
    };
    const lost = (why: string) => {
      this.#broken.push(`the load: a process lives until it is killed: ${why}`);
    };
    const made = new LoadProcess(this.#program, { ...this.#order, role }, take, lost);
    this.#processes.push(made);
    return made;
  }

  /** The share of the turns that have made their last model call. */
  get #share(): number {
    return this.#last.size / this.#options.turns;
  }

  get #isOver(): boolean {
    return this.#share >= 1 || this.#broken.length > 0;
  }

  /** Resolves once this share of the turns is about to end, or nothing moves any more. */
  async #reached(share: number): Promise<void> {
    let [size, at] = [this.#last.size, Date.now()];
    while (this.#share < share && !this.#isOver) {
      await sleep(20);
      if (this.#last.size > size) [size, at] = [this.#last.size, Date.now()];
      const mostMs = stuckMs(this.#options.lockMs);
      if (Date.now() - at > mostMs)
        this.#broken.push(`the load: turns get on: none for ${mostMs} ms, ${size} are done`);
    }
  }

  async #killWorkers(): Promise<void> {
    const { killEveryMs } = this.#options;
    for (;;) {
      const pauseUntil = Date.now() + this.#random.int(killEveryMs / 2, killEveryMs * 1.5);
      while (Date.now() < pauseUntil && !this.#isOver) await sleep(20);
      if (this.#isOver) return;
      const victim = this.#random.pick([0, ...this.#workers.keys()]);
      const worker = this.#workers[victim];
      if (!worker || worker.isPaused) continue;
      this.#workers[victim] = this.#start('worker');
      const fault: WorkerFault = { pid: worker.pid, at: Date.now() };
      this.#faults.workers.push(fault);
      await worker.kill();
      fault.active = await this.#activeJobs();
      this.#kills++;
    }
  }

  /** A lock says which worker has the job: "<its name>:<a number>". None where Redis is away. */
  async #activeJobs(): Promise<readonly ActiveJob[]> {
    const script = `local found = {}
for _, id in ipairs(redis.call('LRANGE', KEYS[1] .. 'active', 0, -1)) do
  local data, lock = redis.call('HGET', KEYS[1] .. id, 'data'), redis.call('GET', KEYS[1] .. id .. ':lock')
  if data and lock then found[#found + 1] = { task = cjson.decode(data).taskId, worker = string.match(lock, '^(.*):') } end
end
return #found == 0 and '[]' or cjson.encode(found)`;
    try {
      return JSON.parse(await this.#servers.redis.cliLater('EVAL', script, '1', `{${name}}:${agentId}:`));
    } catch {
      return [];
    }
  }

  /** Stops a worker until others have its turns, and lets it continue: it must not act any more. */
  async #pauseWorker(): Promise<void> {
    await this.#reached(0.3);
    const worker = this.#random.pick([this.#workers[0], ...this.#workers]);
    if (!worker || this.#isOver) return;
    const at = Date.now();
    worker.pause();
    const { lockMs } = this.#options;
    await sleep(lockMs * 1.5);
    this.#faults.workers.push({ pid: worker.pid, at, resumedAt: Date.now() });
    worker.resume();
  }

  /** Deletes the lock of a turn's job, while its worker holds the lease. */
  #loseLock(taskId: string): void {
    this.#faults.locks.push({ taskId, at: Date.now() });
    const script = `local id = redis.call('GET', KEYS[1]) return id and redis.call('DEL', ARGV[1] .. id .. ':lock')`;
    const queue = `{${name}}:${agentId}:`;
    // Where Redis is away the lock stays.
    this.#servers.redis.cliLater('EVAL', script, '1', `${queue}de:${taskId}`, queue).catch(() => {});
  }

  async #restartRedis(): Promise<void> {
    const { redis } = this.#servers;
    await this.#reached(0.6);
    if (this.#isOver) return;
    await this.#count(1);
    const outage = { from: Date.now(), to: Number.POSITIVE_INFINITY };
    this.#faults.outages.push(outage);
    await redis.end('SIGKILL');
    await sleep(this.#random.int(200, 1_000));
    await redis.start();
    outage.to = Date.now();
    await this.#count(-1);
  }

  /** Kills it once it has done half of its work, or as much as it does before the turns are over; another one continues. */
  async #killOnce(role: 'gateway' | 'observer', process: LoadProcess): Promise<void> {
    const all = role === 'gateway' ? this.#options.turns : this.#options.observed;
    while (this.#counts[role] < all / 2 && !this.#isOver) await sleep(5);
    await process.kill();
    if (role === 'observer') this.#observerKills++;
    this.#start(role);
  }

  async #count(factor: 1 | -1): Promise<void> {
    const counts = await redisCounts(this.#servers.redis);
    this.#redis.commands += factor * counts.commands;
    this.#redis.received += factor * counts.received;
    this.#redis.sent += factor * counts.sent;
    this.#redis.cpuMs += factor * counts.cpuMs;
  }

  /** Of every turn, once it has ended, or as it is when the time is over. */
  async #journals(): Promise<ReadonlyMap<string, readonly JournalRecord[]>> {
    const { turns, seed } = this.#options;
    const until = Date.now() + endingMs;
    const found = new Map<string, readonly JournalRecord[]>();
    for (const { taskId } of turnsOf(turns, seed)) {
      for (;;) {
        const records = await this.#read(taskId);
        found.set(taskId, records);
        if (records.some(isTerminal) || Date.now() > until || this.#broken.length > 0) break;
        await sleep(50);
      }
    }
    return found;
  }

  async #read(taskId: string): Promise<readonly JournalRecord[]> {
    try {
      return await this.#servers.store.read(taskId);
    } catch (error) {
      if (AgentLoopError.isInstance(error) && (error.code === 'NOT_FOUND' || error.code === 'UNAVAILABLE')) return [];
      throw error;
    }
  }
}
