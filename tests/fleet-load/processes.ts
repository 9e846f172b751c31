import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { Order, Report } from './order.ts';

const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** A process of the load. */
export class LoadProcess {
  readonly pid: number;
  /** What it used of the processors, as far as it said. */
  cpuMs = 0;
  /** Resolves also once it is gone. */
  readonly ready: Promise<void>;
  isPaused = false;
  readonly #child: ChildProcess;
  #isExpected = false;

  /** `onLost`: it ended, and nobody killed it. */
  constructor(program: string, order: Order, onReport: (report: Report) => void, onLost: (why: string) => void) {
    const child = fork(program, [JSON.stringify(order)], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    this.#child = child;
    this.pid = child.pid ?? 0;
    running.add(child);
    this.ready = new Promise((resolve) => {
      child.once('exit', () => resolve());
      child.on('message', (report: Report) => {
        if (report.type === 'ready') resolve();
        if (report.type === 'cpu') this.cpuMs = report.ms;
        onReport(report);
      });
    });
    child.once('exit', (code, signal) => {
      running.delete(child);
      if (!this.#isExpected) onLost(`${order.role} ${this.pid} ended by itself with ${code ?? signal}`);
    });
  }

  /** `kill -9`; resolves once it is gone. */
  async kill(): Promise<void> {
    this.#isExpected = true;
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await gone;
  }

  pause(): void {
    this.isPaused = true;
    this.#child.kill('SIGSTOP');
  }

  resume(): void {
    this.#child.kill('SIGCONT');
    this.isPaused = false;
  }
}
