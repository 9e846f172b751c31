import { randomUUID } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentLoopError } from 'millrace';
import { messageOf } from 'millrace/internals';
import { RedisStateStore } from 'millrace/redis';
import { violationsOf } from '../crash/invariants.ts';
import type { Random } from '../crash/random.ts';
import type { Task } from '../crash/workload/order.ts';
import { planOf } from '../crash/workload/plan.ts';
import { readDeeds } from '../crash/workload/world.ts';
import type { RedisProcess } from '../stores/redis/redis-process.ts';
import { MemorySamples } from './memory-samples.ts';
import type { Batch, WorkerReport } from './messages.ts';
import { SoakWorker } from './soak-worker.ts';

export interface SoakOptions {
  readonly program: string;
  readonly redis: RedisProcess;
  /** Of the ledger files. */
  readonly folder: string;
  readonly workers: number;
  /** Turns at once, over all workers. */
  readonly turns: number;
  readonly random: Random;
}

const batchSize = 25;

/** No code means that something may be broken; these say that the turn is somebody else's, or that Redis was away. */
const innocent: ReadonlySet<string> = new Set(['FENCED', 'UNAVAILABLE']);

/** Turns that come and go while workers and Redis die. The first worker is never killed: its memory is measured. */
export class Soak {
  readonly violations: string[] = [];
  readonly memory = new MemorySamples();
  ended = 0;
  kills = 0;
  restarts = 0;
  readonly losses = new Map<string, number>();
  readonly #options: SoakOptions;
  readonly #store: RedisStateStore;
  #workers: SoakWorker[];
  /** By task: its batch. */
  readonly #open = new Map<string, Batch>();
  /** By batch: how many of its turns have not ended. */
  readonly #left = new Map<Batch, number>();
  readonly #examined = new Set<Promise<void>>();
  #isFilling = true;

  constructor(options: SoakOptions) {
    this.#options = options;
    this.#store = new RedisStateStore({ redis: options.redis.url });
    this.#workers = Array.from({ length: options.workers }, (_, index) => this.#newWorker(index === 0));
  }

  get open(): number {
    return this.#open.size;
  }

  start(): void {
    while (this.#open.size < this.#options.turns) this.#begin();
  }

  /** Kills one of the workers at any time, and lets another go on with what it had. */
  async killWorker(): Promise<void> {
    const index = this.#options.random.int(1, this.#workers.length - 1);
    const worker = this.#workers[index];
    if (worker === undefined) return;
    const next = this.#newWorker(false);
    this.#workers[index] = next;
    await worker.kill();
    this.kills++;
    for (const batch of worker.batches) {
      const tasks = batch.tasks.filter(({ taskId }) => this.#open.has(taskId));
      if (tasks.length > 0) next.run(batch, tasks);
    }
  }

  /** Kills Redis, or asks it to end, and starts it again a while later. */
  async restartRedis(): Promise<void> {
    const { redis, random } = this.#options;
    await redis.end(random.chance(0.7) ? 'SIGKILL' : 'SIGTERM');
    await sleep(random.int(0, 2_500));
    await redis.start();
    this.restarts++;
  }

  /** Starts nothing new; resolves once every turn has ended and was looked at. */
  async finish(withinMs: number): Promise<void> {
    this.#isFilling = false;
    const until = Date.now() + withinMs;
    while (this.#open.size > 0 && Date.now() < until) await sleep(100);
    for (const taskId of this.#open.keys()) this.violations.push(`${taskId}: the turn ends: not within ${withinMs} ms`);
    await Promise.all(this.#examined);
    const left = await this.#store.list();
    for (const { taskId } of left) this.violations.push(`${taskId}: nothing is left in the store`);
    await Promise.all(this.#workers.map((worker) => worker.kill()));
    await this.#store.close();
    this.violations.push(...this.memory.growth());
  }

  #newWorker(isMeasured: boolean): SoakWorker {
    const { program, redis } = this.#options;
    return new SoakWorker(program, redis.url, (report) => this.#take(report, isMeasured));
  }

  #begin(): void {
    const { folder, random } = this.#options;
    const name = randomUUID();
    const tasks = Array.from({ length: batchSize }, (_, n): Task => ({ taskId: `${name}-${n}`, seed: random.seed() }));
    const batch: Batch = { world: join(folder, name), tasks };
    writeFileSync(batch.world, '');
    for (const { taskId } of tasks) this.#open.set(taskId, batch);
    this.#left.set(batch, batchSize);
    const [idlest] = [...this.#workers].sort((a, b) => this.#load(a) - this.#load(b));
    idlest?.run(batch);
  }

  #load({ batches }: SoakWorker): number {
    return [...batches].reduce((sum, batch) => sum + (this.#left.get(batch) ?? 0), 0);
  }

  #take(report: WorkerReport, isMeasured: boolean): void {
    if (report.type === 'ended') return this.#end(report.taskId, report.status);
    if (report.type === 'memory') {
      if (isMeasured) this.memory.add(report.heap, report.rss);
      return;
    }
    const { taskId, code, message } = report;
    this.losses.set(code, (this.losses.get(code) ?? 0) + 1);
    if (!innocent.has(code)) this.violations.push(`${taskId}: a turn is lost only to others: ${code}: ${message}`);
  }

  #end(taskId: string, status: string): void {
    const batch = this.#open.get(taskId);
    if (batch === undefined) return;
    this.#open.delete(taskId);
    this.ended++;
    if (status !== 'completed') this.violations.push(`${taskId}: the turn completes: it is ${status}`);
    const left = (this.#left.get(batch) ?? 0) - 1;
    this.#left.set(batch, left);
    if (left === 0) this.#close(batch);
    if (this.#isFilling && this.#open.size <= this.#options.turns - batchSize) this.#begin();
  }

  #close(batch: Batch): void {
    this.#left.delete(batch);
    for (const worker of this.#workers) worker.batches.delete(batch);
    const examined = this.#examine(batch).finally(() => this.#examined.delete(examined));
    this.#examined.add(examined);
  }

  /** Looks at what is left of each turn, and takes it out of the store. */
  async #examine({ world, tasks }: Batch): Promise<void> {
    const deeds = readDeeds(world);
    for (const { taskId, seed } of tasks) {
      try {
        const records = await whenReached(() => this.#store.read(taskId));
        const own = deeds.filter(({ task }) => task === taskId);
        this.violations.push(
          ...violationsOf({ taskId, plan: planOf(seed), records, deeds: own, paused: new Set<number>() }),
        );
        await whenReached(() => this.#store.delete(taskId));
      } catch (error) {
        this.violations.push(`${taskId}: the journal can be read: ${messageOf(error)}`);
      }
    }
    rmSync(world);
  }
}

/** Asks again for as long as Redis is away. */
async function whenReached<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!AgentLoopError.isInstance(error) || error.code !== 'UNAVAILABLE') throw error;
      await sleep(100);
    }
  }
}
