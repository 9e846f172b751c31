import { createServer, type Server } from 'node:http';
import type { Command } from 'commander';
import { bind, shownHost, unbind } from '../../a2a/server/listening.ts';
import type { Agent } from '../../agent/agent.ts';
import { unlessAborted } from '../../core/streams/index.ts';
import type { QueuedTurn, TurnQueue, TurnWorker, WorkerOptions } from '../../fleet/index.ts';
import { collect, invalidConfig, wholeNumber } from '../arguments.ts';
import type { CommandHost } from '../command-host.ts';
import { addQueueFlags, checkedQueue, checkQueuedAgent, openQueue, type QueueFlags } from '../queue.ts';
import { agentDefaults, type Opened, preparedModel, withOpened } from '../served-agent.ts';
import { type StoreFlags, storeSettings } from '../store.ts';
import { note } from '../terminal.ts';
import type { TraceFlags } from '../trace-view.ts';
import { addLeaseFlag, addOtlpFlag, addStoreFlag } from '../turn-flags.ts';
import { loadAgent } from '../user-modules.ts';

interface WorkerFlags extends StoreFlags, QueueFlags, Pick<TraceFlags, 'otlp'>, Timing {
  readonly agent: readonly string[];
  readonly concurrency?: number;
  readonly healthPort?: number;
  readonly host?: string;
  readonly log?: boolean;
}

interface Timing {
  readonly leaseMs?: number;
  readonly lockMs?: number;
  readonly stalledCheckMs?: number;
  readonly drainMs?: number;
  readonly sweepEveryMs?: number;
}

const help = `
SIGTERM and Ctrl-C drain the worker: it takes no more turns, and leaves those that run to other workers. A second signal does not wait.

Examples:
  $ millrace worker --agent ./agent.mjs --store redis://localhost:6379
  $ millrace worker --agent ./desk.mjs --agent ./mail.mjs --store postgres://db/millrace --queue redis://redis:6379 --health-port 8080`;

/** Adds `millrace worker`: runs turns of a queue until it is interrupted. */
export function addWorkerCommand(program: Command, host: CommandHost): void {
  const milliseconds = wholeNumber(1);
  const command = program
    .command('worker')
    .requiredOption(
      '--agent <file>',
      'an ES module whose default export is an agent, or the options of one; repeatable',
      collect,
    )
    .option('--concurrency <number>', 'turns of each agent that run at the same time (default: 50)', wholeNumber(1))
    .option(
      '--health-port <number>',
      'serves /healthz, /readyz and /metrics there; 0 takes a free port (default: none)',
      wholeNumber(0, 65_535),
    )
    .option('--host <name>', 'the address of the health port (default: 127.0.0.1)')
    .option(
      '--lock-ms <number>',
      'how long a job is reserved without a renewal; longer than --lease-ms and --stalled-check-ms together (default: 30000)',
      milliseconds,
    )
    .option(
      '--stalled-check-ms <number>',
      'interval of the check for jobs of dead workers (default: 5000)',
      milliseconds,
    )
    .option('--drain-ms <number>', 'the time limit of a drain (default: 20000)', milliseconds)
    .option('--sweep-every-ms <number>', 'interval of the sweep for turns without a job (default: 10000)', milliseconds)
    .option('--log', 'write a log as lines of JSON to stderr, with a line for each run of a turn (needs pino)');
  addOtlpFlag(addLeaseFlag(addStoreFlag(addQueueFlags(command, 'where turns wait (default: the Redis of the store)'))))
    .summary('run turns of a queue')
    .description('Run the turns that wait in a queue, those of these agents, until Ctrl-C.')
    .addHelpText('after', help)
    .action((flags: WorkerFlags) => work(flags, host));
}

async function work(flags: WorkerFlags, host: CommandHost): Promise<void> {
  const { terminal } = host;
  const settings = storeSettings(flags, terminal.env);
  const jobs = checkedQueue(flags, settings);
  if (flags.host !== undefined && flags.healthPort === undefined)
    throw invalidConfig('--host needs --health-port; add --health-port, or leave it out');
  await withOpened({ flags, settings, structured: flags.log === true, host }, async (opened) => {
    const { stores, interruption } = opened;
    const agents: Agent[] = [];
    for (const file of flags.agent) agents.push(await interruption.race(workingAgent(file, opened)));
    const queue = await openQueue(jobs, { store: stores.journals.store, messageStore: stores.messages });
    try {
      await withWorker({ queue, agents, flags, opened }, async (working, healthUrl) => {
        await interruption.race(queue.health());
        const { style, stdout } = terminal;
        void stdout.write(
          [
            `${style.bold(`Runs turns of ${agents.map(({ id }) => id).join(', ')}`)} from ${style.cyan(jobs.place)}`,
            ...(healthUrl === undefined ? [] : [`health ${healthUrl}`]),
            style.dim('Ctrl-C drains it.'),
            '',
          ].join('\n'),
        );
        const over = working.run();
        const { signal } = interruption;
        await unlessAborted(signal, over).catch((error: unknown) => {
          if (!signal.aborted) throw error;
        });
        note(terminal, 'draining; a second signal does not wait');
      });
    } finally {
      await queue.close();
    }
  });
}

async function workingAgent(file: string, opened: Opened): Promise<Agent> {
  const agent = await loadAgent(file, agentDefaults(opened));
  const { Agent: Own } = await import('../../agent/agent.ts');
  if (agent instanceof Own) {
    checkQueuedAgent(agent, file);
    await preparedModel(agent);
    return agent;
  }
  throw invalidConfig(
    `the agent of ${file} is made with another copy of millrace than this command; run the command that is installed beside the file: npx millrace worker`,
  );
}

interface WorkRequest {
  readonly queue: TurnQueue;
  readonly agents: readonly Agent[];
  readonly flags: WorkerFlags;
  readonly opened: Opened;
}

/** Has a worker for the time of an action, with its health port where the flags say so; drains it then. */
async function withWorker(
  { queue, agents, flags, opened }: WorkRequest,
  action: (working: TurnWorker, healthUrl: string | undefined) => Promise<void>,
): Promise<void> {
  const { worker, healthHandler } = await import('../../fleet/index.ts');
  const { queuedCaller } = await import('../../a2a/queued-turns.ts');
  const turnOptions = ({ metadata }: QueuedTurn) => {
    const authContext = queuedCaller(metadata);
    return authContext ? { authContext } : {};
  };
  const working = worker({ queue, agents, turnOptions, logger: opened.logger, ...workerOptions(flags) });
  const { healthPort, host = '127.0.0.1' } = flags;
  let server: Server | undefined;
  try {
    if (healthPort !== undefined) server = createServer(healthHandler(working));
    const bound = server && (await bind(server, healthPort ?? 0, host));
    await action(working, bound && `http://${shownHost(host)}:${bound.port}`);
  } finally {
    await working.drain();
    server?.closeAllConnections();
    if (server?.listening) await unbind(server);
  }
}

function workerOptions(flags: WorkerFlags): Partial<WorkerOptions> {
  const { concurrency, lockMs, leaseMs, stalledCheckMs, drainMs, sweepEveryMs } = flags;
  return { concurrency, lockMs, leaseMs, stalledCheckMs, drainMs, sweepEveryMs };
}
