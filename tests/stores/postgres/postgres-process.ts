import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { freePort } from '../redis/free-port.ts';
import { postgresPrograms } from './postgres-programs.mjs';

/** A test run that is broken off leaves no server behind. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGQUIT');
});

/** A server of our own on a free port of the loopback interface, with a folder of its own. */
export class PostgresProcess {
  readonly port: number;
  readonly folder: string;
  /** What the server wrote since its last start. */
  readonly log: string[] = [];
  readonly #settings: readonly string[];
  #child: ChildProcess | undefined;

  constructor(port: number, folder: string, settings: readonly string[]) {
    this.port = port;
    this.folder = folder;
    this.#settings = settings;
  }

  /** As the superuser `millrace`. The server asks for no password. */
  get url(): string {
    return `postgres://millrace@127.0.0.1:${this.port}/postgres`;
  }

  /** Starts the server, again also, and waits until it accepts connections. */
  async start(): Promise<void> {
    const settings = [`port=${this.port}`, 'listen_addresses=127.0.0.1', `unix_socket_directories=${this.folder}`];
    const args = [...settings, ...this.#settings].flatMap((setting) => ['-c', setting]);
    const child = spawn(program('postgres'), ['-D', join(this.folder, 'data'), ...args], {
      ...asUser,
      cwd: this.folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#child = child;
    running.add(child);
    child.once('exit', () => running.delete(child));
    this.log.length = 0;
    const lines = createInterface({ input: child.stderr });
    await new Promise<void>((resolve, reject) => {
      lines.on('line', (line) => {
        this.log.push(line);
        if (line.includes('database system is ready to accept connections')) resolve();
      });
      lines.on('close', () => reject(new Error(`postgres did not start:\n${this.log.join('\n')}`)));
    });
  }

  /** `SIGINT` ends it at once and cleanly, `SIGQUIT` as a crash does. Waits until it is gone. */
  async end(signal: 'SIGINT' | 'SIGQUIT'): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill(signal);
    await gone;
  }

  async remove(): Promise<void> {
    await this.end('SIGQUIT');
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** `settings`: lines of its configuration, such as `fsync=off`. */
export async function startPostgres(settings: readonly string[] = []): Promise<PostgresProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-postgres-'));
  if (asUser.uid !== undefined) chownSync(folder, asUser.uid, asUser.gid);
  const args = ['-D', join(folder, 'data'), '-U', 'millrace', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
  const made = spawnSync(program('initdb'), args, { ...asUser, cwd: folder, encoding: 'utf8' });
  if (made.status !== 0) throw new Error(`initdb: ${made.stdout}${made.stderr}`);
  const postgres = new PostgresProcess(await freePort(), folder, settings);
  await postgres.start();
  return postgres;
}

interface User {
  readonly uid?: number;
  readonly gid: number;
}

/** Initdb refuses root, so there the server belongs to `nobody`. */
const nobody = 65_534;
const asUser: User | { readonly uid?: undefined; readonly gid?: undefined } =
  process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {};

function program(name: string): string {
  if (postgresPrograms === undefined) throw new Error('PostgreSQL is not installed.');
  return join(postgresPrograms, name);
}
