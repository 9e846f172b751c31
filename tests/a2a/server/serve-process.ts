import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const main = join(root, 'dist/cli/main.js');

/** `millrace serve`, or another command that serves, of the build, as a process of its own. */
export class ServeProcess {
  readonly child: ChildProcess;
  #output = '';

  constructor(args: readonly string[], env: Readonly<Record<string, string>> = {}, command = 'serve') {
    const { PATH = '' } = process.env;
    this.child = spawn(process.execPath, [main, command, '--port', '0', ...args], { env: { PATH, ...env } });
    const keep = (data: Buffer) => {
      this.#output += data;
    };
    this.child.stdout?.on('data', keep);
    this.child.stderr?.on('data', keep);
  }

  /** Everything that it wrote. */
  get output(): string {
    return this.#output;
  }

  /** Where it listens. */
  async url(): Promise<string> {
    for (;;) {
      const url = /(?:listens at|inspect) (http\S+)/.exec(this.#output)?.[1];
      if (url !== undefined) return url;
      const { stdout } = this.child;
      if (this.child.exitCode !== null || stdout === null) throw new Error(`it does not listen: ${this.#output}`);
      await Promise.race([once(stdout, 'data'), once(this.child, 'exit')]);
    }
  }

  /** Sends a signal, and gives the exit code once the process is gone. */
  async end(signal: NodeJS.Signals): Promise<number | null> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      const gone = once(this.child, 'exit');
      this.child.kill(signal);
      await gone;
    }
    return this.child.exitCode;
  }
}

/** A folder with an agent, whose tools write down when they run; `slow` waits until there is a file `go` in it. */
export class AgentFolder {
  readonly path = mkdtempSync(join(tmpdir(), 'millrace-serve-'));
  readonly agent = join(this.path, 'agent.mjs');
  readonly store = `lmdb:${join(this.path, 'store')}`;
  readonly #ledger = join(this.path, 'ledger');

  constructor() {
    writeFileSync(this.#ledger, '');
    writeFileSync(this.agent, agentModule(this.path));
  }

  /** What the tools wrote, a line each. */
  ledger(): readonly string[] {
    return readFileSync(this.#ledger, 'utf8').split('\n').filter(Boolean);
  }

  go(): void {
    writeFileSync(join(this.path, 'go'), '');
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

function agentModule(folder: string): string {
  const millrace = pathToFileURL(join(root, 'dist/index.js')).href;
  return `
import { appendFileSync, existsSync } from 'node:fs';
import { agent, tool } from ${JSON.stringify(millrace)};
const folder = ${JSON.stringify(folder)};
const wrote = (line) => appendFileSync(folder + '/ledger', line + '\\n');
const parameters = { type: 'object', properties: {} };
const quick = tool({ name: 'quick', description: 'Is quick.', parameters, execute: () => { wrote('quick'); return 'quick'; } });
const slow = tool({
  name: 'slow', description: 'Is slow.', parameters, idempotent: true, onInDoubt: 'retry',
  execute: async (_, { idempotencyKey }) => {
    wrote('slow ' + idempotencyKey);
    while (!existsSync(folder + '/go')) await new Promise((resolve) => setTimeout(resolve, 20));
    return 'slow';
  },
});
const steps = ['quick', 'slow'];
const provider = {
  call: async ({ messages }) => {
    const name = steps[messages.filter(({ role }) => role === 'tool').length];
    if (name === undefined) return { message: { role: 'assistant', content: 'Both are done.' } };
    const toolCalls = [{ id: name, type: 'function', function: { name, arguments: '{}' } }];
    return { message: { role: 'assistant', content: null, toolCalls } };
  },
};
export default agent({ id: 'worker', provider, tools: [quick, slow] });
`;
}
