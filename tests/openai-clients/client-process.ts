import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** What a user of a client is shown. */
export interface Shown {
  readonly text: string;
  readonly asks: readonly { readonly name: string; readonly input: unknown }[];
  readonly error?: {
    readonly name?: string;
    readonly status?: number;
    readonly code?: string;
    readonly message: string;
  };
}

export interface ChatSettings {
  /** Of the chat: the same goes on. */
  readonly name: string;
  readonly baseURL: string;
  readonly apiKey: string;
  readonly endpoint: 'chat' | 'responses';
  readonly stream: boolean;
  /** How the client names what was said before. */
  readonly by: 'history' | 'previous' | 'conversation';
  readonly headers?: Readonly<Record<string, string>>;
}

export type Act = { readonly say: string } | { readonly decide: boolean };

const pathOf = (file: string) => fileURLToPath(new URL(file, import.meta.url));

/** A client as a process of its own, that acts one act at a time. */
export class ClientProcess {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  #log = '';

  /** `python`: the interpreter, for the client in Python. */
  constructor(kind: string, python?: string) {
    const [bin, args] = python === undefined ? [process.execPath, ['client.mjs', kind]] : [python, ['client.py']];
    const { PATH = '', HOME = '' } = process.env;
    const [file = '', ...more] = args;
    this.#child = spawn(bin, [pathOf(file), ...more], { env: { PATH, HOME }, stdio: ['pipe', 'pipe', 'pipe'] });
    this.#child.stderr?.on('data', (text) => {
      this.#log += text;
    });
    if (!this.#child.stdout) throw new Error('The client has no output.');
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  async ready(): Promise<void> {
    await this.#next();
  }

  async act(settings: ChatSettings, act: Act): Promise<Shown> {
    this.#child.stdin?.write(`${JSON.stringify({ ...settings, ...act })}\n`);
    return JSON.parse(await this.#next());
  }

  async close(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await gone;
  }

  async #next(): Promise<string> {
    const next = await this.#lines.next();
    if (next.done) throw new Error(`The client has ended:\n${this.#log}`);
    return next.value;
  }
}
