import { messageOf } from '../../../src/core/errors.ts';
import type { JournalRecord } from '../../../src/core/records.ts';
import { violationsOf } from '../invariants.ts';
import { Random } from '../random.ts';
import type { Doom } from '../workload/life.ts';
import type { Order, Task } from '../workload/order.ts';
import { planOf } from '../workload/plan.ts';
import type { CrashChild, Nursery } from './crash-child.ts';
import type { Site } from './site.ts';

/** What a round may need besides its seed. */
export interface RoundOptions {
  readonly seed: number;
  readonly site: Site;
  readonly nursery: Nursery;
  readonly tasks: readonly Task[];
  readonly leaseMs: number;
  /** How long the turns may take to end once nobody is killed any more. */
  readonly endingMs: number;
  /** Whether what is left of a broken round is kept for inspection. */
  readonly keeps: boolean;
}

export interface Tally {
  /** Processes killed with their turns under way, servers included. */
  readonly kills: number;
  /** Processes that were stopped and continued after another had taken over. */
  readonly pauses: number;
  readonly tasks: number;
  readonly violations: readonly string[];
}

/** No code means that something may be broken; these say that the turn is somebody else's, or that the store was away. */
const innocent: ReadonlySet<string> = new Set(['FENCED', 'UNAVAILABLE']);

/** How long a process may take to tell how its work ended, once the turns are over. */
const hearingMs = 5_000;

/** Some turns, the processes that come and go over them, and what is left in the end. */
export class Round {
  readonly random: Random;
  readonly tasks: readonly Task[];
  kills = 0;
  pauses = 0;
  readonly #options: RoundOptions;
  readonly #children: CrashChild[] = [];
  readonly #paused = new Set<number>();
  readonly #violations: string[] = [];

  constructor(options: RoundOptions) {
    this.#options = options;
    this.random = new Random(options.seed);
    this.tasks = options.tasks;
  }

  get leaseMs(): number {
    return this.#options.leaseMs;
  }

  get site(): Site {
    return this.#options.site;
  }

  say(violation: string): void {
    this.#violations.push(violation);
  }

  /** A process that starts the turns, or goes on with them. */
  async begin(
    order: Partial<Pick<Order, 'persistent' | 'leaseMs'>> & { readonly doom?: Doom } = {},
  ): Promise<CrashChild> {
    const { nursery, site, leaseMs } = this.#options;
    const child = nursery.take();
    this.#children.push(child);
    const seed = this.random.seed();
    const { world } = site;
    await child.order({
      store: await site.address(seed),
      world,
      tasks: this.tasks,
      seed,
      leaseMs,
      persistent: true,
      ...order,
    });
    return child;
  }

  async kill(child: CrashChild): Promise<void> {
    if (await child.kill()) this.kills++;
  }

  /** The process may be stopped: what it does when it goes on is not in the order of time. */
  noteStop(child: CrashChild): void {
    this.#paused.add(child.pid);
  }

  /** Lets the turns end, and looks at what is left of them. */
  async end(): Promise<Tally> {
    const { endingMs } = this.#options;
    const last = await this.begin();
    if (!(await last.settled(endingMs))) this.say(`the turns end: not within ${endingMs} ms`);
    this.#checkWork(last);
    await this.#hearOut();
    for (const child of this.#children) this.#checkLosses(child);
    for (const child of this.#children) await this.#options.nursery.giveBack(child);
    // What is known to be broken and did not end is only half there: it would tell of promises that nobody broke.
    if (this.#options.keeps || last.isIdle) await this.#examine();
    else await this.#options.site.close();
    const { kills, pauses } = this;
    return { kills, pauses, tasks: this.tasks.length, violations: this.#violations };
  }

  /**
   * Waits for the other processes, which see the turns end too: one that was overtaken because the machine was busy may not have said so
   * yet. One that stays silent is judged by what it did.
   */
  async #hearOut(): Promise<void> {
    await Promise.all(this.#children.map((child) => child.settled(hearingMs)));
  }

  #checkWork({ work, isGone, errors }: CrashChild): void {
    if (isGone) this.say(`the last process stays alive: it printed ${errors}`);
    for (const { taskId } of this.tasks) {
      const outcome = work.outcomes.get(taskId);
      if (outcome?.ended !== true || outcome.status !== 'completed')
        this.say(`${taskId}: the turn completes: it is ${JSON.stringify(outcome)}`);
    }
  }

  #checkLosses({ work, pid }: CrashChild): void {
    for (const { taskId, code, message } of work.losses) {
      if (code === 'FENCED') this.#paused.add(pid);
      if (!innocent.has(code)) this.say(`${taskId}: a turn is lost only to others: ${code}: ${message}`);
    }
  }

  async #examine(): Promise<void> {
    const { site, keeps } = this.#options;
    let journals: readonly (readonly JournalRecord[])[] = [];
    try {
      journals = await site.journals(this.tasks.map(({ taskId }) => taskId));
    } catch (error) {
      this.say(`the journals can be read: ${messageOf(error)}`);
    }
    const deeds = site.deeds();
    for (const [index, records] of journals.entries()) {
      const task = this.tasks[index];
      if (task === undefined) continue;
      const own = deeds.filter((deed) => deed.task === task.taskId);
      const remains = { taskId: task.taskId, plan: planOf(task.seed), records, deeds: own, paused: this.#paused };
      this.#violations.push(...violationsOf(remains));
    }
    if (keeps && this.#violations.length > 0) this.say(`journals and ledger are kept in ${site.keep(journals)}`);
    await site.close();
  }
}
