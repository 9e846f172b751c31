import { once } from 'node:events';
import type { Command } from 'commander';
import type { Agent } from '../../agent/agent.ts';
import { wholeNumber } from '../arguments.ts';
import { type CommandHost, withInterruption } from '../command-host.ts';
import { serveInspector } from '../inspect-server.ts';
import type { StoreFlags } from '../store.ts';
import { note, type Style } from '../terminal.ts';
import { addStoreFlag } from '../turn-flags.ts';
import { loadAgent } from '../user-modules.ts';
import { withStore } from '../with-store.ts';

interface InspectFlags extends StoreFlags {
  readonly port: number;
  readonly write?: boolean;
  readonly agent?: string;
  readonly raw?: boolean;
}

const help = `
The address contains a key that is made at each start; only this machine reaches the page. It shows what any process wrote.

Examples:
  $ millrace inspect
  $ millrace inspect --store redis://localhost:6379 --write
  $ millrace inspect --agent ./agent.mjs --write`;

/** Adds `millrace inspect`: a page over the turns of a store, until it is interrupted. */
export function addInspectCommand(program: Command, host: CommandHost): void {
  addStoreFlag(program.command('inspect'))
    .option('--port <number>', 'where to listen on 127.0.0.1; 0 takes a free port', wholeNumber(0, 65_535), 0)
    .option('--write', 'allow turns to be cancelled, answered, steered, forked and retried')
    .option(
      '--agent <file>',
      'an ES module whose default export is an agent, or the options of one: replays its turns, and with --write runs them',
    )
    .option('--raw', 'show strings that look like a key, a token or a password, instead of [redacted]')
    .summary('show the turns of a store in a browser')
    .description('Serve a page that shows the turns of a store, until Ctrl-C.')
    .addHelpText('after', help)
    .action((flags: InspectFlags) => inspect(flags, host));
}

async function inspect(flags: InspectFlags, host: CommandHost): Promise<void> {
  const { terminal } = host;
  await withStore({ flags, host }, async (store, { place }) => {
    await withInterruption(host, async (interruption) => {
      const { write = false, raw = false, port } = flags;
      // A turn that runs here is given back, so that another process can resume it at once.
      const defaults = { taskStateStore: store, shutdown: interruption.signal };
      const agent = flags.agent === undefined ? undefined : await interruption.race(loadAgent(flags.agent, defaults));
      const server = await serveInspector({ store, write, raw, ...(agent && { agent }) }, port);
      try {
        void terminal.stdout.write(howToUse(server.url, place, terminal.style));
        if (!interruption.signal.aborted) await once(interruption.signal, 'abort');
      } finally {
        await server.close();
        await drained(agent);
      }
      note(terminal, 'the inspector is closed');
      host.exitCode = interruption.exitCode ?? 0;
    });
  });
}

/** Waits for the turns that are given back. */
async function drained(agent: Agent | undefined): Promise<void> {
  await Promise.allSettled((agent?.runningTurns ?? []).map(({ settled }) => settled));
}

function howToUse(url: string, place: string, style: Style): string {
  return [`${style.bold('inspect')} ${style.cyan(url)}`, style.dim(`It shows ${place}. Ctrl-C stops it.`), ''].join(
    '\n',
  );
}
