import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Programs of a folder, bundled on first use, and the processes that run them. */
export class ChildPrograms {
  readonly #folder = mkdtempSync(join(tmpdir(), 'millrace-children-'));
  readonly #bundles = new Map<string, string>();
  readonly #children = new Set<ChildProcess>();
  readonly #sources: string;

  /** `sources`: the folder of the programs. */
  constructor(sources = 'tests/stores/lmdb/children') {
    this.#sources = sources;
    symlinkSync(join(process.cwd(), 'node_modules'), join(this.#folder, 'node_modules'));
    // Where a bundle with the Redis store looks for its scripts.
    symlinkSync(join(process.cwd(), 'src/stores/redis/lua'), join(this.#folder, 'lua'));
  }

  /** The bundle of a program that somebody else starts. */
  bundleOf(program: string): string {
    return this.#bundle(program);
  }

  start(program: string, ...args: readonly string[]): ChildProcess {
    const child = fork(this.#bundle(program), args, { execArgv: [], stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
    this.#children.add(child);
    child.once('exit', () => this.#children.delete(child));
    return child;
  }

  async clear(): Promise<void> {
    await Promise.all([...this.#children].map((child) => kill(child)));
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #bundle(program: string): string {
    const known = this.#bundles.get(program);
    if (known !== undefined) return known;
    const outfile = join(this.#folder, `${program}.mjs`);
    const options = { entryPoints: [join(this.#sources, `${program}.ts`)], outfile };
    execFileSync(process.execPath, ['tests/bundle.mjs', JSON.stringify(options)]);
    this.#bundles.set(program, outfile);
    return outfile;
  }
}

/** `kill -9`; resolves once the process is gone and all that it printed has been read. */
export async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, 'close');
  child.stdout?.resume();
  child.kill('SIGKILL');
  await closed;
}

/** What `once(child, 'message')` gives; rejects where the process ends before. */
export function nextMessage(child: ChildProcess): ReturnType<typeof once> {
  const over = new AbortController();
  const ended = once(child, 'exit', over).then(([code, signal]) => {
    throw new Error(`The child ended with ${signal ?? code} before it sent a message.`);
  });
  return Promise.race([once(child, 'message', over), ended]).finally(() => over.abort());
}

export interface PrintedLines {
  readonly lines: readonly string[];
  /** Resolves once there are as many; rejects where the process ends before. */
  reach(count: number): Promise<void>;
}

/** The lines that a process prints, as they come. */
export function linesOf(child: ChildProcess): PrintedLines {
  const lines: string[] = [];
  let rest = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    const pieces = (rest + text).split('\n');
    rest = pieces.pop() ?? '';
    lines.push(...pieces);
  });
  return {
    lines,
    reach: (count) =>
      new Promise((resolve, reject) => {
        const check = () => {
          if (lines.length >= count) leave(resolve);
        };
        const ended = () => leave(() => reject(new Error(`The child ended after ${lines.length} lines.`)));
        const leave = (settle: () => void) => {
          child.stdout?.off('data', check);
          child.off('close', ended);
          settle();
        };
        child.stdout?.on('data', check);
        child.on('close', ended);
        check();
      }),
  };
}
