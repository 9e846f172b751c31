import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url));

/** A command of the build, as a process of its own. */
export class CommandProcess {
  readonly child: ChildProcess;
  #output = '';

  constructor(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const { PATH = '' } = process.env;
    this.child = spawn(process.execPath, [main, ...args], { env: { PATH, ...env } });
    const keep = (data: Buffer) => {
      this.#output += data;
    };
    this.child.stdout?.on('data', keep);
    this.child.stderr?.on('data', keep);
  }

  get output(): string {
    return this.#output;
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** Waits until it has written this, and gives the first group. */
  async wrote(pattern: RegExp): Promise<string> {
    for (;;) {
      const found = pattern.exec(this.#output);
      if (found) return found[1] ?? '';
      const { stdout, stderr, exitCode } = this.child;
      if (exitCode !== null || !stdout || !stderr) throw new Error(`it did not write ${pattern}: ${this.#output}`);
      await Promise.race([once(stdout, 'data'), once(stderr, 'data'), once(this.child, 'exit')]);
    }
  }

  /** Sends a signal, if there is one, and gives the exit code once the process is gone. */
  async end(signal?: NodeJS.Signals): Promise<number | null> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      const gone = once(this.child, 'exit');
      if (signal) this.child.kill(signal);
      await gone;
    }
    return this.child.exitCode;
  }
}
