import { cancelOrphan, runnableTurns } from '../agent/runnable-turns.ts';
import { type Logger, messageOf, type TaskSummary } from '../core/contracts/index.ts';
import { Timer } from '../core/streams/index.ts';
import { isMarked } from '../core/turn/index.ts';
import type { FleetQueue } from './turn-queue.ts';

export interface SweepOptions {
  readonly queue: FleetQueue;
  readonly agentIds: readonly string[];
  readonly everyMs: number;
  readonly logger: Logger | undefined;
  readonly onWoken: () => void;
}

/** A live producer has added its job by then. */
const graceMs = 5_000;
/** A sweep takes at most a twentieth of the time. */
const restFactor = 20;
/** The interval for an unchanged turn grows up to this factor. */
const longestPause = 16;

interface Seen {
  readonly seq: number;
  /** When to wake it again if it has not changed. */
  readonly at: number;
  readonly pauseMs: number;
}

/**
 * Finds runnable turns in the store that may have no job: the producer crashed, or the queue was lost. One process of the fleet
 * sweeps at a time. Waking a turn that has its job changes nothing.
 */
export class Sweep {
  readonly #options: SweepOptions;
  /** By agent and task. */
  readonly #seen = new Map<string, Map<string, Seen>>();
  readonly #next: Timer;
  #stopped = false;
  #running: Promise<void> | undefined;

  constructor(options: SweepOptions) {
    this.#options = options;
    this.#next = new Timer(options.queue.clock);
  }

  /** Starts at once, and repeats until it is stopped. */
  start(): void {
    const { everyMs, logger } = this.#options;
    const began = performance.now();
    this.#running = this.#sweep()
      .catch((error: unknown) => logger?.warn('sweep failed', { error: messageOf(error) }))
      .then(() => {
        const took = performance.now() - began;
        const pauseMs = Math.max(everyMs, took * restFactor) * (0.9 + Math.random() / 5);
        this.#next.set(pauseMs, () => this.start());
      });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#next.close();
    await this.#running;
  }

  async #sweep(): Promise<void> {
    const { queue, agentIds, everyMs } = this.#options;
    for (const agentId of agentIds) {
      if (!(await queue.counts.sweeps(agentId, everyMs / 2))) continue;
      await queue.applyLimits(agentId);
      await this.#sweepFor(agentId);
    }
  }

  async #sweepFor(agentId: string): Promise<void> {
    const { queue, logger } = this.#options;
    const { store, clock } = queue;
    const now = clock.now();
    const tasks = await runnableTurns(store, { agentId, dueBy: now });
    const seen = this.#seenOf(agentId);
    for (const task of tasks) {
      if (this.#stopped) return;
      if (task.parentTaskId !== undefined) await cancelOrphan(task, { store, clock, logger });
      else if (this.#isDue(task, seen, now)) await this.#wake(task);
    }
    const there = new Set(tasks.map(({ taskId }) => taskId));
    for (const taskId of seen.keys()) if (!there.has(taskId)) seen.delete(taskId);
  }

  #seenOf(agentId: string): Map<string, Seen> {
    const seen = this.#seen.get(agentId) ?? new Map<string, Seen>();
    this.#seen.set(agentId, seen);
    return seen;
  }

  #isDue(task: TaskSummary, known: Map<string, Seen>, now: number): boolean {
    const { everyMs, queue } = this.#options;
    const { taskId, seq, updatedAt } = task;
    if (Date.parse(updatedAt) + graceMs > now || isMarked(queue.store, taskId)) return false;
    const seen = known.get(taskId);
    if (seen?.seq === seq && seen.at > now) return false;
    const pauseMs = seen?.seq === seq ? Math.min(seen.pauseMs * 2, everyMs * longestPause) : everyMs;
    known.set(taskId, { seq, at: now + pauseMs, pauseMs });
    return true;
  }

  async #wake(task: TaskSummary): Promise<void> {
    await this.#options.queue.enqueue(task, false);
    this.#options.onWoken();
  }
}
