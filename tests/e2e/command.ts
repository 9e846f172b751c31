import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

// Starting a process takes a second on a busy machine.

export interface CommandOptions {
  /** Added to an environment that keeps journals in memory and holds no other settings. */
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  readonly cwd?: string;
}

export interface CommandEnd {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** `millrace` as a process of its own, as `npm run build` made it. */
export class Command {
  readonly child: ChildProcess;
  readonly ended: Promise<CommandEnd>;
  #stdout = '';
  #stderr = '';
  #waiting: (() => void)[] = [];

  constructor(args: readonly string[], { env = {}, stdin = '', cwd }: CommandOptions = {}) {
    const { PATH = '', HOME = '' } = process.env;
    this.child = spawn(process.execPath, [main, ...args], {
      env: { PATH, HOME, MILLRACE_STORE: 'memory', ...env },
      ...(cwd !== undefined && { cwd }),
    });
    this.child.stdin?.on('error', () => {});
    if (stdin !== open) this.child.stdin?.end(stdin);
    this.child.stdout?.setEncoding('utf8').on('data', (text) => this.#add(text, ''));
    this.child.stderr?.setEncoding('utf8').on('data', (text) => this.#add('', text));
    this.ended = new Promise((resolve) => {
      this.child.on('close', (exitCode) => {
        resolve({ exitCode, stdout: this.#stdout, stderr: this.#stderr });
        for (const wake of this.#waiting) wake();
      });
    });
  }

  /** What stands on stdout and stderr so far. */
  get shown(): string {
    return this.#stdout + this.#stderr;
  }

  /** Resolves once stdout and stderr together hold that text; rejects where the process ends without it. */
  async shows(text: string): Promise<void> {
    while (!this.shown.includes(text)) {
      if (this.child.exitCode !== null) throw new Error(`ended without ${text}: ${this.shown}`);
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  #add(out: string, error: string): void {
    this.#stdout += out;
    this.#stderr += error;
    for (const wake of this.#waiting) wake();
    this.#waiting = [];
  }
}

/** For `stdin`: it stays open. */
export const open = '\u0000open';

export function millrace(args: readonly string[], options?: CommandOptions): Promise<CommandEnd> {
  return new Command(args, options).ended;
}
