import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** The two commands of examples/chat/README.md, on free ports: `millrace serve` on a folder of its own, and the page. */
export class ChatSite {
  readonly url: string;
  readonly #serverPort: number;
  readonly #folder: string;
  readonly #page: ChildProcess;
  #server: ChildProcess;

  private constructor(parts: {
    readonly url: string;
    readonly serverPort: number;
    readonly folder: string;
    readonly page: ChildProcess;
    readonly server: ChildProcess;
  }) {
    this.url = parts.url;
    this.#serverPort = parts.serverPort;
    this.#folder = parts.folder;
    this.#page = parts.page;
    this.#server = parts.server;
  }

  static async start(): Promise<ChatSite> {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-chat-'));
    const [serverPort, pagePort] = [await freePort(), await freePort()];
    const server = await serving(serverPort, folder);
    const env = { ...process.env, MILLRACE_URL: `http://127.0.0.1:${serverPort}`, NO_COLOR: '1' };
    const vite = ['node_modules/vite/bin/vite.js', 'examples/chat', '--host', '127.0.0.1', '--port', `${pagePort}`];
    const page = spawn(process.execPath, vite, { env, stdio: ['ignore', 'pipe', 'inherit'] });
    await printed(page, /Local:/);
    return new ChatSite({ url: `http://127.0.0.1:${pagePort}/`, serverPort, folder, page, server });
  }

  async killServer(): Promise<void> {
    await ended(this.#server, 'SIGKILL');
  }

  async startServer(): Promise<void> {
    this.#server = await serving(this.#serverPort, this.#folder);
  }

  async close(): Promise<void> {
    await Promise.all([ended(this.#server, 'SIGTERM'), ended(this.#page, 'SIGTERM')]);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function serving(port: number, folder: string): Promise<ChildProcess> {
  const { OPENAI_BASE_URL: _url, OPENAI_API_KEY: _key, ...env } = process.env;
  const store = ['--store', `lmdb:${folder}`, '--lease-ms', '2000'];
  const serve = ['dist/cli/main.js', 'serve', '--tools', 'examples/chat/tools.mjs', '--port', `${port}`, ...store];
  const server = spawn(process.execPath, serve, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  server.stderr?.resume();
  await printed(server, /listens at/);
  return server;
}

/** Resolves with a line that fits. Rejects where the process ends before. */
async function printed(child: ChildProcess, pattern: RegExp): Promise<void> {
  if (!child.stdout) throw new Error('The process has no output.');
  const lines = createInterface(child.stdout);
  for await (const line of lines) {
    if (!pattern.test(line)) continue;
    child.stdout.resume();
    return;
  }
  throw new Error(`The process ended before it printed ${pattern}.`);
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  await exited;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (typeof address === 'object' && address !== null) return address.port;
  throw new Error('There is no free port.');
}
