import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, it } from '@jest/globals';
import { modelServer, settingsOf } from '../cli/commands/model-servers.ts';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import { describeReal } from '../real/real-part.ts';

const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const tools = fileURLToPath(new URL('../cli/commands/questions-tools.mjs', import.meta.url));
const folder = temporaryFolder({});
const terminals: TypedTerminal[] = [];

afterEach(async () => {
  await Promise.all(terminals.splice(0).map((terminal) => terminal.kill()));
  folder.remove();
});

/** `millrace chat` in a pseudo-terminal of its own, made by `script` of util-linux: keys go through the kernel's line discipline. */
class TypedTerminal {
  readonly #child: ChildProcess;
  readonly ended: Promise<unknown[]>;
  #shown = '';
  #seen = 0;

  constructor(args: readonly string[], env: Readonly<Record<string, string>>) {
    const command = ['stty cols 90 rows 40; exec', process.execPath, main, ...args].join(' ');
    const { PATH = '', HOME = '' } = process.env;
    this.#child = spawn('script', ['-qfec', command, '/dev/null'], {
      env: { PATH, HOME, TERM: 'xterm', NO_COLOR: '1', SHELL: '/bin/sh', ...env },
    });
    this.ended = once(this.#child, 'close');
    this.#child.stdout?.setEncoding('utf8').on('data', (text) => {
      this.#shown += text;
    });
    terminals.push(this);
  }

  type(keys: string): void {
    this.#child.stdin?.write(keys);
  }

  /** Resolves once that text is shown behind what was waited for before. */
  async shows(text: string): Promise<void> {
    for (;;) {
      const at = this.#shown.indexOf(text, this.#seen);
      if (at >= 0) {
        this.#seen = at + text.length;
        return;
      }
      const stdout = this.#child.stdout;
      const more = stdout && (await Promise.race([once(stdout, 'data'), this.ended.then(() => undefined)]));
      if (!more) throw new Error(`ended without ${JSON.stringify(text)}: ${this.#shown}`);
    }
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended;
  }
}

describeReal(['script'], 'millrace chat', () => {
  it('H-43 in a real terminal: y runs the call, Ctrl-C cancels one, Ctrl-D leaves one, a second process answers it', async () => {
    const refund = (order: number) => ({ text: 'One moment.', toolCalls: [{ name: 'refund', arguments: { order } }] });
    const server = await modelServer({
      script: [refund(7), { text: 'Refunded.' }, refund(8), refund(9), { text: 'Third time.' }, { text: 'All said.' }],
    });
    const args = ['chat', '--context-id', 'trip', '--tools', tools, '--store', `lmdb:${join(folder.path, 'store')}`];
    const first = new TypedTerminal(args, settingsOf(server));
    await first.shows('❯ ');
    first.type('Refund 7.\r');
    await first.shows('order: 7');
    await first.shows('(y, n, or n and why) ❯ ');
    first.type('y\r');
    await first.shows('refunded 7');
    await first.shows('Refunded.');
    await first.shows('❯ ');
    first.type('Refund 8.\r');
    await first.shows('(y, n, or n and why) ❯ ');
    first.type('y\u0003');
    await first.shows('millrace: cancelled');
    await first.shows('❯ ');
    first.type('Refund 9.\r');
    await first.shows('(y, n, or n and why) ❯ ');
    first.type('\u0004');
    await first.shows('--answer');
    expect(await first.ended).toEqual([3, null]);

    const second = new TypedTerminal(args, settingsOf(server));
    await second.shows('continues the conversation trip');
    await second.shows('order: 9');
    await second.shows('(y, n, or n and why) ❯ ');
    second.type('y\r');
    await second.shows('Third time.');
    await second.shows('❯ ');
    second.type('Well?\r');
    await second.shows('All said.');
    await second.shows('❯ ');
    second.type('\u0004');
    expect(await second.ended).toEqual([0, null]);
    const sent = JSON.stringify(server.requests.at(-1)?.['messages']);
    expect(sent).toContain('refunded 7');
    expect(sent).not.toContain('refunded 8');
    expect(sent).toContain('refunded 9');
    server.assertDone();
  });
});
