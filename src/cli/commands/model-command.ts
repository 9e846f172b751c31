import { once } from 'node:events';
import type { Command } from 'commander';
import { messageOf } from '../../core/contracts/index.ts';
import { wholeNumber } from '../arguments.ts';
import { type CommandHost, withInterruption } from '../command-host.ts';
import { complain, type Style } from '../terminal.ts';

interface ModelCommandFlags {
  readonly port: number;
  readonly host: string;
  readonly delayMs: number;
}

/** Adds `millrace model`: the demo model as a server, until it is interrupted. */
export function addModelCommand(program: Command, host: CommandHost): void {
  program
    .command('model')
    .summary('serve the built-in demo model')
    .description('Serve the built-in demo model over the OpenAI chat-completions API, until Ctrl-C.')
    .option('--port <number>', 'where to listen; 0 takes a free port', wholeNumber(0, 65_535), 4000)
    .option('--host <name>', 'the address to listen on', '127.0.0.1')
    .option('--delay-ms <number>', 'milliseconds before each chunk of an answer', wholeNumber(0, 60_000), 20)
    .action((flags: ModelCommandFlags) => serve(flags, host));
}

async function serve(flags: ModelCommandFlags, host: CommandHost): Promise<void> {
  const { startModelServer } = await import('../../testing/model-server.ts');
  await withInterruption(host, async (interruption) => {
    try {
      const server = await startModelServer(flags);
      void host.terminal.stdout.write(howToUse(server.baseUrl, host.terminal.style));
      if (!interruption.signal.aborted) await once(interruption.signal, 'abort');
      await server.close();
      if (host.terminal.stdout.isTerminal) void host.terminal.stdout.write('\n');
    } catch (thrown) {
      complain(host.terminal, messageOf(thrown).replace(/\.$/, ''));
      host.exitCode = 1;
    }
  });
}

function howToUse(baseUrl: string, style: Style): string {
  return [
    `${style.bold('The demo model listens at')} ${style.cyan(baseUrl)}`,
    style.dim('It is a stand-in: a small program with fixed rules and the OpenAI API.'),
    '',
    'Ask it:',
    '',
    `  npx millrace run "What is 12 * 7?" --model demo \\`,
    `    --base-url ${baseUrl}`,
    '',
    `  curl ${baseUrl}/chat/completions \\`,
    "    -H 'content-type: application/json' \\",
    `    -d '{"model":"demo","messages":[{"role":"user","content":"Hello"}]}'`,
    '',
    style.dim('Ctrl-C stops it.'),
    '',
  ].join('\n');
}
