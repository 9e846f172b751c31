import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { freePort } from './free-port.ts';

export interface RedisProcessOptions {
  /** Lines of its configuration file beyond the port and the folder. */
  readonly config?: readonly string[];
  readonly program?: 'redis-server' | 'redis-sentinel';
  /** No file may grow beyond this, as on a disk that is full. `liftFileLimit` takes it away. */
  readonly fileLimitKiB?: number;
}

/** A test run that is broken off leaves no server behind. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** A server of our own on a free port of the loopback interface, with a folder of its own. */
export class RedisProcess {
  readonly port: number;
  readonly #program: string;
  readonly folder: string;
  readonly #fileLimitKiB: number | undefined;
  #child: ChildProcess | undefined;

  constructor(port: number, folder: string, { program = 'redis-server', fileLimitKiB }: RedisProcessOptions) {
    this.port = port;
    this.folder = folder;
    this.#program = program;
    this.#fileLimitKiB = fileLimitKiB;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Starts the process, again also, and waits until it takes commands. */
  async start(): Promise<void> {
    const [command, args] = this.#commandLine();
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'] });
    this.#child = child;
    running.add(child);
    child.once('exit', () => running.delete(child));
    await once(child, 'spawn');
    const log: string[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      log.push(line);
      if (/Ready to accept connections|Sentinel ID is/.test(line)) {
        child.stdout.resume();
        return;
      }
    }
    throw new Error(`${this.#program} did not start:\n${log.join('\n')}`);
  }

  /** With a limit through a shell that sets it and becomes the server; a write beyond it then fails, and does not end the server. */
  #commandLine(): readonly [string, readonly string[]] {
    const configuration = join(this.folder, 'redis.conf');
    if (this.#fileLimitKiB === undefined) return [this.#program, [configuration]];
    const script = `trap '' XFSZ; ulimit -S -f ${this.#fileLimitKiB}; exec "$0" "$1"`;
    return ['bash', ['-c', script, this.#program, configuration]];
  }

  /** Room on the disk again. */
  liftFileLimit(): void {
    const { status, stderr } = spawnSync('prlimit', [`--pid=${this.#child?.pid}`, '--fsize=unlimited'], {
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(`prlimit: ${stderr}`);
  }

  /** Waits until the process is gone. */
  async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill(signal);
    await gone;
  }

  /** Stands still (`SIGSTOP`) or goes on (`SIGCONT`). */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(signal);
  }

  async remove(): Promise<void> {
    this.#child?.kill('SIGCONT');
    await this.end('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** The same while this process goes on. */
  async cliLater(...args: readonly string[]): Promise<string> {
    const { stdout } = await promisify(execFile)('redis-cli', ['-p', String(this.port), ...args], { encoding: 'utf8' });
    return stdout.trim();
  }

  /** What `redis-cli` prints. */
  cli(...args: readonly string[]): string {
    const { stdout, stderr, status } = spawnSync('redis-cli', ['-p', String(this.port), ...args], { encoding: 'utf8' });
    if (status !== 0) throw new Error(`redis-cli ${args.join(' ')}: ${stdout}${stderr}`);
    return stdout.trim();
  }
}

/** With an append-only file, as the store wants it, unless the options say otherwise. */
export async function startRedis(options: RedisProcessOptions = {}): Promise<RedisProcess> {
  const { config = ['appendonly yes', 'save ""'] } = options;
  const folder = mkdtempSync(join(tmpdir(), 'millrace-redis-'));
  const port = await freePort();
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    'daemonize no',
    'repl-diskless-sync-delay 0',
    ...config,
  ];
  writeFileSync(join(folder, 'redis.conf'), `${lines.join('\n')}\n`);
  const redis = new RedisProcess(port, folder, options);
  try {
    await redis.start();
  } catch (error) {
    await redis.remove();
    throw error;
  }
  return redis;
}
