import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The agent and the page of tests/chat/children/chat-server.mjs, of the built package. */
export class ChatServer {
  readonly #folder = mkdtempSync(join(tmpdir(), 'millrace-chat-page-'));
  #child: ChildProcess | undefined;
  url = '';

  async start(accessKey = '', leaseMs = 2_000): Promise<void> {
    const port = this.url === '' ? '0' : new URL(this.url).port;
    const program = 'tests/chat/children/chat-server.mjs';
    this.#child = fork(program, [join(this.#folder, 'store'), port, accessKey, String(leaseMs)], { execArgv: [] });
    [this.url] = await once(this.#child, 'message');
  }

  async kill(): Promise<void> {
    if (!this.#child || this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
