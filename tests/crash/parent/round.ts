import { once } from 'node:events';
import { createServer } from 'node:net';
import type { JournalRecord } from 'millrace';
import { messageOf } from 'millrace/internals';
import { violationsOf } from '../invariants.ts';
import { Random } from '../random.ts';
import { openBelowEnded, treeViolations } from '../tree-invariants.ts';
import type { Doom } from '../workload/life.ts';
import type { Order, Task, TreeWork } from '../workload/order.ts';
import { planOf } from '../workload/plan.ts';
import { type TreeMode, turnsOf, type Workload, workloads } from '../workload/tree.ts';
import type { Deed } from '../workload/world.ts';
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
  /** Where the turns are trees. */
  readonly workload?: TreeMode;
}

export interface Tally {
  /** Processes killed with their turns under way, servers included. */
  readonly kills: number;
  /** Processes that were stopped and continued after another had taken over. */
  readonly pauses: number;
  /** Of the store, for one process, while trees run. */
  readonly outages: number;
  readonly tasks: number;
  readonly violations: readonly string[];
}

/** No code means that something may be broken; these say that the turn is somebody else's, or that the store was away. */
const innocent: ReadonlySet<string> = new Set(['FENCED', 'UNAVAILABLE']);

/** Of turns alone. */
const turnDefaults = { storeDeadlineMs: 30_000 };

/** How long a process may take to tell how its work ended, once the turns are over. */
const hearingMs = 5_000;

/** How long a process may take to serve the remote agent. */
const servingMs = 20_000;

/** Some turns, the processes that come and go over them, and what is left in the end. */
export class Round {
  readonly random: Random;
  readonly tasks: readonly Task[];
  kills = 0;
  pauses = 0;
  /** How the turns of the round end. */
  ending: 'completed' | 'canceled' = 'completed';
  readonly #options: RoundOptions;
  readonly #children: CrashChild[] = [];
  readonly #paused = new Set<number>();
  /** When each was stopped, at the earliest. */
  readonly #stops = new Map<number, number>();
  readonly #violations: string[] = [];
  #server: CrashChild | undefined;
  #remotePort: Promise<number> | undefined;

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

  get workload(): Workload | undefined {
    const { workload } = this.#options;
    return workload && workloads[workload];
  }

  say(violation: string): void {
    this.#violations.push(violation);
  }

  /** A process that starts the turns, or goes on with them. */
  async begin(
    order: Partial<Pick<Order, 'persistent' | 'leaseMs' | 'work' | 'outage'>> & { readonly doom?: Doom } = {},
  ): Promise<CrashChild> {
    const { nursery, site, leaseMs, workload } = this.#options;
    const child = nursery.take();
    const isServer = order.work === 'serve';
    if (!isServer) this.#children.push(child);
    const seed = this.random.seed();
    const { world } = site;
    await child.order({
      store: await site.address(seed, isServer ? 'remote' : 'own'),
      world,
      tasks: this.tasks,
      seed,
      leaseMs,
      persistent: true,
      ...(workload && { workload }),
      ...(this.#remotePort && { remotePort: await this.#remotePort }),
      ...order,
    });
    return child;
  }

  /** A process that serves the remote agent, at the same port as the one before, which is gone. */
  async serve(doom?: Doom): Promise<CrashChild> {
    this.#remotePort ??= freePort(this.random);
    const server = await this.begin({ work: 'serve', ...(doom && { doom }) });
    this.#server = server;
    await server.serving(servingMs);
    return server;
  }

  async kill(child: CrashChild): Promise<void> {
    if (await child.kill()) this.kills++;
  }

  /** Stops a process that is nobody's owner here: a server. It counts as a pause. */
  stop(server: CrashChild): void {
    server.signal('SIGSTOP');
    this.pauses++;
  }

  /** Whether the process got the lease of a turn at the top. */
  hasTaken({ pid }: CrashChild): boolean {
    const tops = this.tasks.map(({ taskId }) => taskId);
    return this.site.deeds().some((deed) => deed.type === 'lease' && deed.pid === pid && tops.includes(deed.task));
  }

  /** Whether a task is of the remote agent, and not a turn on this side. */
  isAtServer(taskId: string): boolean {
    return !this.tasks.some((task) => taskId === task.taskId || taskId.startsWith(`${task.taskId}:`));
  }

  /** The process may be stopped: what it does when it goes on is not in the order of time. */
  noteStop(child: CrashChild): void {
    this.#paused.add(child.pid);
    this.#stops.set(child.pid, performance.now());
  }

  /** Whether the process may have been stopped for longer than a turn waits for its store. */
  mayHaveTimedOut({ pid }: CrashChild): boolean {
    const stoppedAt = this.#stops.get(pid);
    const { storeDeadlineMs } = this.workload ?? turnDefaults;
    return stoppedAt !== undefined && performance.now() - stoppedAt > storeDeadlineMs;
  }

  /** Lets the turns end, and looks at what is left of them. `onEnded`: what is not needed any more by then is stopped. */
  async end(onEnded: () => Promise<void> | undefined = () => undefined): Promise<Tally> {
    const last = await this.#finish();
    await onEnded();
    this.#checkWork(last);
    await this.#hearOut();
    await this.#server?.kill();
    for (const child of this.#children) this.#checkLosses(child);
    for (const child of this.#children) await this.#options.nursery.giveBack(child);
    // What is known to be broken and did not end is only half there: it would tell of promises that nobody broke.
    if (this.#options.keeps || last.isIdle) await this.#examine();
    else await this.#options.site.close();
    const { kills, pauses } = this;
    const outages = this.#children.reduce((sum, child) => sum + child.outages, 0);
    return { kills, pauses, outages, tasks: this.tasks.length, violations: this.#violations };
  }

  async #finish(): Promise<CrashChild> {
    const { endingMs } = this.#options;
    const { workload, ending, random } = this;
    const work = ending === 'canceled' ? 'cancel' : random.pick<TreeWork>(['run', 'run', 'watch', 'sweep']);
    const last = await this.begin(workload ? { work } : {});
    if (workload && !(await this.endsInTime(last)))
      this.say(`a tree ends in time: not with a process that is told to ${work}`);
    if (!(await last.settled(endingMs))) this.say(`the turns end: not within ${endingMs} ms`);
    return last;
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
      if (outcome?.ended !== true || outcome.status !== this.ending)
        this.say(`${taskId}: the turn completes: it is ${JSON.stringify(outcome)}`);
    }
  }

  #checkLosses({ work, pid, outages }: CrashChild): void {
    // What it asked a model while it did not reach the store was in vain.
    if (outages > 0) this.#paused.add(pid);
    for (const { taskId, code, message } of work.losses) {
      if (code === 'FENCED') this.#paused.add(pid);
      if (!innocent.has(code)) this.say(`${taskId}: a turn is lost only to others: ${code}: ${message}`);
    }
  }

  /** Whether a process that lives ends the trees within their lease and 5 s. */
  async endsInTime(child: CrashChild): Promise<boolean> {
    const { leases, remote } = this.workload ?? {};
    const lease = leases?.root ?? this.leaseMs;
    const remoteMs = remote === undefined ? 0 : (leases?.below ?? 0) + remoteAgainMs;
    // Who cancels from outside and dies leaves a lease of its own behind.
    const outsideMs = this.ending === 'canceled' ? outsideLeaseMs : 0;
    return settledInTicks(child, (lease + endsBehindLeaseMs + remoteMs + outsideMs) / tickMs);
  }

  /** Child turns that are open below ended ones, at this moment. */
  async lookBelowEnded(): Promise<void> {
    const { workload } = this;
    if (!workload) return;
    const journals = await this.#journalsOf(this.taskIds());
    for (const task of this.tasks) for (const found of openBelowEnded({ workload, task, journals })) this.say(found);
  }

  /** Of trees, every turn. */
  taskIds(): readonly string[] {
    const { workload, tasks } = this;
    return tasks.flatMap((task) => (workload ? turnsOf(workload, task) : [task]).map(({ taskId }) => taskId));
  }

  async #journalsOf(taskIds: readonly string[]): Promise<ReadonlyMap<string, readonly JournalRecord[]>> {
    const found = await this.site.journals(taskIds);
    const remote = this.workload?.remote === undefined ? [] : await this.site.remoteJournals();
    return new Map([...taskIds.map((taskId, index) => [taskId, found[index] ?? []] as const), ...remote]);
  }

  async #examine(): Promise<void> {
    const { site, keeps } = this.#options;
    let journals: ReadonlyMap<string, readonly JournalRecord[]> = new Map();
    try {
      const planned = this.taskIds();
      journals = await this.#journalsOf(planned);
      for (const taskId of journals.keys())
        if (!planned.includes(taskId)) this.say(`a call begins one remote task: ${taskId} is of none`);
      const deeds = site.deeds();
      for (const task of this.tasks) this.#violations.push(...this.#brokenBy(task, journals, deeds));
    } catch (error) {
      this.say(`the journals can be read: ${messageOf(error)}`);
    }
    if (keeps && this.#violations.length > 0) this.say(`journals and ledger are kept in ${site.keep(journals)}`);
    await site.close();
  }

  #brokenBy(
    task: Task,
    journals: ReadonlyMap<string, readonly JournalRecord[]>,
    all: readonly Deed[],
  ): readonly string[] {
    const { workload } = this;
    const { taskId } = task;
    const paused = this.#paused;
    const turns = new Set(workload && turnsOf(workload, task).map((turn) => turn.taskId));
    const isOwn = (id: string) => id === taskId || id.startsWith(`${taskId}:`) || turns.has(id);
    const deeds = all.filter((deed) => isOwn(deed.task));
    if (!workload)
      return violationsOf({ taskId, plan: planOf(task.seed), records: journals.get(taskId) ?? [], deeds, paused });
    const told = this.#children.flatMap(({ work }) => {
      const outcome = work.outcomes.get(taskId);
      return outcome?.ended && outcome.usedTokens !== undefined && outcome.status === 'completed'
        ? [outcome.usedTokens]
        : [];
    });
    return treeViolations({ workload, task, journals, deeds, paused, told, isCut: this.ending === 'canceled' });
  }
}

/** Below those that the system gives away by itself: while the server is gone, nobody else takes its port. */
async function freePort(random: Random): Promise<number> {
  const server = createServer();
  const port = random.int(10_000, 30_000);
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return port;
  } catch {
    return freePort(random);
  } finally {
    server.close();
  }
}

/** A tree has ended so long behind the end of a lease that nobody keeps any more. */
const endsBehindLeaseMs = 5_000;

/** Of whoever writes into a journal from outside. */
const outsideLeaseMs = 5_000;
/** Each process of a tree with a remote agent loads A2A first, and a client of a server that was away asks it again some seconds later. */
const remoteAgainMs = 10_000;
const tickMs = 50;

/** As `settled`, in turns of a timer: a machine that is too busy for this process is too busy for the others. */
async function settledInTicks(child: CrashChild, ticks: number): Promise<boolean> {
  for (let tick = 0; tick < ticks; tick++) if (await child.settled(tickMs)) return true;
  return false;
}
