import { type Clock, InMemoryStateStore, systemClock } from 'millrace';
import { asyncStore } from 'millrace/testing';
import { violationsOf } from './invariants.ts';
import { Random } from './random.ts';
import type { Life } from './workload/life.ts';
import { mortalStore } from './workload/mortal-store.ts';
import { planOf } from './workload/plan.ts';
import { plannedModel } from './workload/planned-model.ts';
import type { Running } from './workload/running.ts';
import { drive } from './workload/turn-driver.ts';
import type { Deed, World } from './workload/world.ts';
import { worldTools } from './workload/world-tools.ts';

const leaseMs = 10_000;

/** What stands for a process: at a moment it dies, and whatever it waits for never comes, timers included. */
export class VirtualProcess implements Life {
  readonly clock: Clock;
  readonly death: Promise<'died'>;
  readonly #dieAt: number;
  readonly #timers = new Set<() => void>();
  #reached = 0;
  #die: () => void = () => {};

  constructor(dieAt: number) {
    this.#dieAt = dieAt;
    this.death = new Promise((resolve) => {
      this.#die = () => resolve('died');
    });
    this.clock = { now: () => systemClock.now(), schedule: (ms, callback) => this.#schedule(ms, callback) };
  }

  reach(): void | Promise<void> {
    this.#reached++;
    if (this.#reached < this.#dieAt) return undefined;
    for (const cancel of this.#timers) cancel();
    this.#die();
    return new Promise(() => {});
  }

  #schedule(ms: number, callback: () => void): () => void {
    if (this.#reached >= this.#dieAt) return () => {};
    const cancel = systemClock.schedule(ms, () => {
      this.#timers.delete(cancel);
      callback();
    });
    this.#timers.add(cancel);
    return () => {
      this.#timers.delete(cancel);
      cancel();
    };
  }
}

/** A turn whose processes die up to `deaths` times, in this process and on the memory store. Gives what it broke and how often they died. */
export async function interruptedTurn(
  seed: number,
  deaths: number,
): Promise<{ readonly died: number; readonly violations: readonly string[] }> {
  const random = new Random(seed);
  const task = { taskId: `turn-${seed}`, seed };
  const deeds: Deed[] = [];
  const world: World = { note: (deed) => deeds.push(deed), deeds: () => deeds };
  let passedMs = 0;
  const store = new InMemoryStateStore({ clock: { ...systemClock, now: () => systemClock.now() + passedMs } });
  let died = 0;
  for (let pid = 1; ; pid++) {
    const life = new VirtualProcess(died < deaths ? random.int(1, 80) : Number.POSITIVE_INFINITY);
    const { taskId } = task;
    const configOf = (running: Running) => ({
      agentId: 'worker',
      llmProvider: plannedModel(life, (_, iteration, __, request) => {
        world.note({ type: 'model', task: taskId, iteration, pid, at: Date.now() });
        running.beginRequest(taskId, iteration, request);
      }),
      toolProviders: [worldTools({ life, world, pid, running })],
      taskStateStore: mortalStore(random.chance(0.5) ? store : asyncStore(store), life),
      toolConcurrency: 3,
      leaseMs,
      clock: life.clock,
      enableTracing: false,
    });
    const onShown = (_: unknown, record: string) => world.note({ type: 'shown', task: taskId, record, pid });
    const onUnstopped = (_: unknown, work: string) => world.note({ type: 'unstopped', task: taskId, work, pid });
    const lost: string[] = [];
    const onLost = (_: unknown, { code }: { readonly code: string }) => lost.push(code);
    const driver = { configOf, persistent: false, onShown, onUnstopped, onLost };
    const outcome = await Promise.race([life.death, drive(driver, task)]);
    if (lost.length > 0) return { died, violations: [`${task.taskId}: a turn is lost to nobody: ${lost.join()}`] };
    if (outcome !== 'died') break;
    died++;
    // The lease of the dead runs out.
    passedMs += leaseMs;
  }
  const remains = {
    taskId: task.taskId,
    plan: planOf(seed),
    records: store.read(task.taskId),
    deeds,
    paused: new Set<number>(),
  };
  return { died, violations: violationsOf(remains) };
}
