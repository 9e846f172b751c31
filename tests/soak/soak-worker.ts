import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { Batch, WorkerReport } from './messages.ts';

const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** A process that runs turns, and which batches it has. */
export class SoakWorker {
  readonly batches = new Set<Batch>();
  readonly #child: ChildProcess;

  constructor(program: string, redis: string, onReport: (report: WorkerReport) => void) {
    this.#child = fork(program, [redis], { execArgv: ['--expose-gc'], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    running.add(this.#child);
    this.#child.once('exit', () => running.delete(this.#child));
    this.#child.on('message', onReport);
  }

  /** Has it run all turns of a batch, or those that are left of it. */
  run(batch: Batch, tasks = batch.tasks): void {
    this.batches.add(batch);
    this.#child.send({ ...batch, tasks });
  }

  /** `kill -9`; resolves once it is gone. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await gone;
  }
}
