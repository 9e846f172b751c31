import { type ChildProcess, fork } from 'node:child_process';
import type { Order, Outcome, Report } from '../workload/order.ts';

/** What came of an order. */
export interface Work {
  readonly outcomes: ReadonlyMap<string, Outcome>;
  /** Each time a turn was lost: its task, code and message. */
  readonly losses: readonly Extract<Report, { type: 'lost' }>[];
}

const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** A process that runs turns. */
export class CrashChild {
  readonly #child: ChildProcess;
  readonly #outcomes = new Map<string, Outcome>();
  readonly #losses: Extract<Report, { type: 'lost' }>[] = [];
  readonly #gone: Promise<void>;
  readonly #ready: Promise<void>;
  #waiting: (() => void)[] = [];
  #isGone = false;
  #isServing = false;
  /** Outages of the store that it had in its last order. */
  outages = 0;
  #errors = '';
  /** The moments that the last order reached, once it is done. */
  reached: number | undefined;

  constructor(program: string) {
    const child = fork(program, { execArgv: [], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
    this.#child = child;
    running.add(child);
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors += text;
    });
    this.#gone = new Promise((resolve) => child.once('close', () => resolve()));
    void this.#gone.then(() => {
      running.delete(child);
      this.#isGone = true;
      this.#wake();
    });
    let ready = () => {};
    this.#ready = new Promise((resolve) => {
      ready = resolve;
    });
    child.on('message', (report: Report) => (report.type === 'ready' ? ready() : this.#take(report)));
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** What it printed before it died of itself. */
  get errors(): string {
    return this.#errors;
  }

  /** Whether its order is done. */
  get isIdle(): boolean {
    return this.reached !== undefined;
  }

  get work(): Work {
    return { outcomes: this.#outcomes, losses: this.#losses };
  }

  /** Rejects where it ended by itself before it began. */
  async order(order: Order): Promise<void> {
    await Promise.race([this.#ready, this.#gone]);
    if (this.#isGone && this.#child.exitCode !== null && this.reached === undefined)
      throw new Error(`A child ended with ${this.#child.exitCode} before its first order: ${this.#errors}`);
    this.reached = undefined;
    this.outages = 0;
    this.#outcomes.clear();
    this.#losses.length = 0;
    if (!this.#isGone) this.#child.send(order);
  }

  /** Resolves once its order is done or it is gone, at the latest after so many milliseconds. True where it is one of the two. */
  async settled(withinMs: number): Promise<boolean> {
    const over = () => this.isIdle || this.#isGone;
    const until = Date.now() + withinMs;
    while (!over() && Date.now() < until) await this.#nextReport(until - Date.now());
    return over();
  }

  /** Resolves once it serves the remote agent. Rejects where it is gone before. */
  async serving(withinMs: number): Promise<void> {
    const until = Date.now() + withinMs;
    while (!this.#isServing && !this.#isGone && Date.now() < until) await this.#nextReport(until - Date.now());
    if (!this.#isServing && !this.killedItself) throw new Error(`The remote agent is not served: ${this.#errors}`);
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(signal);
  }

  /** `kill -9`; resolves once it is gone. False where it was gone already. */
  async kill(): Promise<boolean> {
    if (this.#isGone) return false;
    this.#child.kill('SIGKILL');
    await this.#gone;
    return this.#child.signalCode === 'SIGKILL';
  }

  /** Whether it died by a signal that nobody else sent: its own. */
  get killedItself(): boolean {
    return this.#isGone && this.#child.signalCode === 'SIGKILL';
  }

  #take(report: Exclude<Report, { type: 'ready' }>): void {
    if (report.type === 'lost') this.#losses.push(report);
    else if (report.type === 'outage') this.outages++;
    else if (report.type === 'serving') this.#isServing = true;
    else if (report.type === 'task') this.#outcomes.set(report.taskId, report.outcome);
    else this.reached = report.reached;
    this.#wake();
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  #nextReport(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}

/** Processes that are started before they are needed. */
export class Nursery {
  readonly #program: string;
  readonly #size: number;
  readonly #spare: CrashChild[] = [];

  constructor(program: string, size: number) {
    this.#program = program;
    this.#size = size;
    this.#fill();
  }

  take(): CrashChild {
    const child = this.#spare.shift() ?? new CrashChild(this.#program);
    this.#fill();
    return child;
  }

  /** One whose order is done takes others; one that is still at it is ended. */
  async giveBack(child: CrashChild): Promise<void> {
    if (child.isIdle && !child.isGone && this.#spare.length < this.#size * 2) this.#spare.push(child);
    else await child.kill();
  }

  async clear(): Promise<void> {
    await Promise.all(this.#spare.splice(0).map((child) => child.kill()));
  }

  #fill(): void {
    while (this.#spare.length < this.#size) this.#spare.push(new CrashChild(this.#program));
  }
}
