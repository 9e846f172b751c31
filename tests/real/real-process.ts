import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { eventually } from '../eventually.ts';

/** A test run that is broken off leaves no server behind. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** A server that is not ours, as a process of its own. */
export class RealProcess {
  readonly #child: ChildProcess;
  readonly #log: string[] = [];

  constructor(bin: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const { PATH = '', HOME = '' } = process.env;
    const child = spawn(bin, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH, HOME, ...env } });
    this.#child = child;
    running.add(child);
    child.once('exit', () => running.delete(child));
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => this.#log.push(String(text)));
  }

  /** Asks until `isReady` tells so. Rejects with what the process printed where it ends before. */
  async ready(name: string, isReady: () => Promise<boolean>): Promise<void> {
    await eventually(async () => this.#isOver || (await isReady().catch(() => false)));
    if (this.#isOver) throw new Error(`${name} did not start:\n${this.#log.join('')}`);
  }

  async close(): Promise<void> {
    if (this.#isOver) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await gone;
  }

  get #isOver(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }
}
