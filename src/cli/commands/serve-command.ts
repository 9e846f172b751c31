import { once } from 'node:events';
import { type Command, Option } from 'commander';
import type { A2AAddress, A2AServer } from '../../a2a/server/a2a-server.ts';
import { shortestKey } from '../../a2a/server/authentication.ts';
import type { TurnQueue } from '../../fleet/index.ts';
import { httpUrl, invalidConfig, wholeNumber } from '../arguments.ts';
import type { CommandHost } from '../command-host.ts';
import {
  addQueueFlags,
  checkedQueue,
  checkQueuedAgent,
  openQueue,
  type QueueFlags,
  type QueueSettings,
} from '../queue.ts';
import {
  type AgentFlags,
  checkReach,
  checkServeFlags,
  preparedModel,
  type Served,
  withServed,
} from '../served-agent.ts';
import { pagePath, servedRoutes, toolViews } from '../served-routes.ts';
import { defaultLeaseMs } from '../session.ts';
import { type StoreFlags, type StoreSettings, storeSettings } from '../store.ts';
import { type Environment, note, type Style } from '../terminal.ts';
import type { TraceFlags } from '../trace-view.ts';
import { addLeaseFlag, addModelFlags, addOtlpFlag, addServedAgentFlags, addStoreFlag } from '../turn-flags.ts';

/** What the command line says about a server. */
interface ServeFlags extends AgentFlags, StoreFlags, QueueFlags, Pick<TraceFlags, 'otlp'> {
  readonly port: number;
  readonly host: string;
  readonly grpcPort?: number;
  /** Whether OpenAI's API is served, too. */
  readonly openai?: boolean;
  readonly openaiTools?: (typeof toolViews)[number];
  readonly publicUrl?: string;
  /** Names the variable that holds the keys of callers. */
  readonly clientKeysEnv?: string;
  readonly open?: boolean;
  readonly privateWebhooks?: boolean;
  readonly maxTurns?: number;
  readonly maxStreams?: number;
  /** Requests a minute; 0: no limit. */
  readonly rateLimit?: number;
  readonly trustedProxies?: number;
  /** MiB; 0: no limit. */
  readonly maxKept?: number;
  readonly maxHistory?: number;
  readonly maxOutstanding?: number;
  /** False: no chat page. */
  readonly page: boolean;
  readonly log?: boolean;
}

const help = `
Turns belong to the store: a server that is killed and started again resumes its turns, and so do other servers on the same
store. Ctrl-C and SIGTERM drain the turns so that they can be resumed; a second signal does not wait.

Examples:
  $ millrace serve
  $ millrace serve --agent ./agent.mjs --port 8080
  $ millrace serve --agent ./agent.mjs --store redis://localhost:6379 --queue redis://localhost:6379
  $ millrace serve --agent ./agent.mjs --openai
  $ MILLRACE_CLIENT_KEYS=alice=$(openssl rand -hex 24) millrace serve --agent ./agent.mjs --host 0.0.0.0`;

/** Adds `millrace serve`: an agent over A2A, until it is interrupted. */
export function addServeCommand(program: Command, host: CommandHost): void {
  const command = addQueueFlags(addServerFlags(program.command('serve')), 'run no turn here: workers of this queue do');
  addServedAgentFlags(addOtlpFlag(addLeaseFlag(addStoreFlag(addModelFlags(command)))))
    .option(
      '--max-outstanding <number>',
      'with --queue: turns that may wait, run or be delayed (default: any number)',
      wholeNumber(1),
    )
    .summary('serve an agent over A2A')
    .description('Serve an agent over the A2A protocol, 1.0 and 0.3, until Ctrl-C.')
    .addHelpText('after', help)
    .action((flags: ServeFlags) => serve(flags, host));
}

function addServerFlags(command: Command): Command {
  const port = wholeNumber(0, 65_535);
  return command
    .option('--agent <file>', 'an ES module whose default export is an agent, or the options of one')
    .option('--port <number>', 'where to listen; 0 takes a free port', port, 4100)
    .option('--host <name>', 'the address to listen on', '127.0.0.1')
    .option('--grpc-port <number>', 'offers gRPC there too; 0 takes a free port', port)
    .option('--openai', "serves OpenAI's API there too, at /v1: chat completions, responses, models")
    .addOption(
      new Option('--openai-tools <view>', 'what --openai shows of tool calls (default: names)').choices(toolViews),
    )
    .option(
      '--public-url <url>',
      'where clients reach the server, if that is not where it listens',
      httpUrl('https://agents.example.com'),
    )
    .option(
      '--client-keys-env <variable>',
      'the environment variable that holds the keys of callers, alice=KEY,bob=KEY (default: MILLRACE_CLIENT_KEYS)',
    )
    .option('--open', 'allow other machines to connect without keys')
    .option('--private-webhooks', 'allow webhooks on private addresses and over plain http')
    .option('--max-turns <number>', 'turns of one caller that may run or be queued (default: 100)', wholeNumber(1))
    .option('--max-streams <number>', 'streams that one caller may have open (default: 100)', wholeNumber(1))
    .option('--max-history <number>', 'messages that one task may have (default: 10000)', wholeNumber(1))
    .option('--max-kept <MiB>', 'data stored for one caller; 0: no limit (default: 1024)', wholeNumber(0))
    .option('--rate-limit <number>', 'requests a minute of one caller; 0: no limit (default: 600)', wholeNumber(0))
    .option(
      '--trusted-proxies <number>',
      'number of proxies whose X-Forwarded-For is trusted (default: 0)',
      wholeNumber(0, 100),
    )
    .option('--no-page', 'serve no chat page; there is none with client keys, --open or --queue either')
    .option('--log', 'write a log as lines of JSON to stderr (needs pino)');
}

async function serve(flags: ServeFlags, host: CommandHost): Promise<void> {
  const { terminal } = host;
  checkServeFlags(flags);
  const keys = clientKeys(flags, terminal.env);
  const cure = 'set MILLRACE_CLIENT_KEYS, or add --open if a proxy authenticates callers';
  checkReach(flags.host, keys.length > 0 || flags.open === true, cure);
  const settings = storeSettings(flags, terminal.env);
  const jobs = servedQueue(flags, settings);
  await withServed({ flags, settings, structured: flags.log === true, host }, async (served) => {
    // A gateway asks no model.
    if (!jobs) await served.interruption.race(preparedModel(served.agent));
    const queue = jobs && (await openGateway(served, flags, jobs));
    // For whoever reaches the server: only where nobody else does.
    const hasPage = flags.page && keys.length === 0 && flags.open !== true && jobs === undefined;
    const server = await newServer(served, { flags, keys, queue, hasPage });
    try {
      const { interruption } = served;
      const address = await interruption.race(server.listen({ port: flags.port, host: flags.host }));
      void terminal.stdout.write(
        howToUse(address, { ...served, jobs, openai: flags.openai === true, hasPage }, terminal.style),
      );
      if (!interruption.signal.aborted) await once(interruption.signal, 'abort');
      note(terminal, 'shutting down; a second signal does not wait');
    } finally {
      await server.close();
      await queue?.close();
    }
  });
}

interface ServerParts {
  readonly flags: ServeFlags;
  readonly keys: readonly ClientKey[];
  readonly queue: TurnQueue | undefined;
  readonly hasPage: boolean;
}

async function newServer(
  { agent, stores, logger }: Served,
  { flags, keys, queue, hasPage }: ServerParts,
): Promise<A2AServer> {
  const { a2aServer, apiKeyAuth } = await import('../../a2a/index.ts');
  const { publicUrl, grpcPort, open = false, privateWebhooks = false, openai = false } = flags;
  const recoverEveryMs = Math.ceil((flags.leaseMs ?? defaultLeaseMs) / 2);
  const routes = await servedRoutes({ openai, page: hasPage, tools: flags.openaiTools }, recoverEveryMs);
  const { maxTurns, maxStreams, rateLimit, trustedProxies, maxHistory, maxKept } = flags;
  return a2aServer({
    agent,
    logger,
    open,
    ...(queue && { queue }),
    toolEvents: true,
    recoverEveryMs,
    routes,
    push: { store: stores.push, allowPrivateTargets: privateWebhooks, allowHttp: privateWebhooks },
    ...(keys.length > 0 && { auth: apiKeyAuth({ keys }) }),
    limits: {
      maxHistory,
      maxKeptBytes: maxKept === 0 ? Number.POSITIVE_INFINITY : maxKept && maxKept * 2 ** 20,
    },
    ...(maxTurns !== undefined && { maxTurns }),
    ...(maxStreams !== undefined && { maxStreams }),
    ...(rateLimit !== undefined && { rateLimit: rateLimit === 0 ? null : { requests: rateLimit, perMs: 60_000 } }),
    ...(trustedProxies !== undefined && { trustedProxies }),
    ...(publicUrl !== undefined && { publicUrl }),
    ...(grpcPort !== undefined && { grpc: { port: grpcPort } }),
  });
}

/** The queue of a gateway; `undefined` where turns run here. Errors: `INVALID_CONFIG`. */
function servedQueue(flags: ServeFlags, store: StoreSettings): QueueSettings | undefined {
  if (flags.queue !== undefined && flags.agent === undefined)
    throw invalidConfig('--queue needs --agent, the file that the workers have, too');
  if (flags.queue !== undefined && flags.openai === true)
    throw invalidConfig('--openai runs its turns here, and --queue leaves turns to workers; leave one of them out');
  if (flags.openaiTools !== undefined && flags.openai !== true)
    throw invalidConfig('--openai-tools needs --openai; add --openai, or leave it out');
  if (flags.queue !== undefined) return checkedQueue(flags, store);
  const unread =
    flags.name !== undefined ? '--name' : flags.maxOutstanding !== undefined ? '--max-outstanding' : undefined;
  if (unread !== undefined) throw invalidConfig(`${unread} needs --queue; add --queue, or leave it out`);
  return undefined;
}

async function openGateway(
  { agent, stores }: Served,
  { maxOutstanding, agent: file = '' }: ServeFlags,
  jobs: QueueSettings,
): Promise<TurnQueue> {
  checkQueuedAgent(agent, file);
  if (agent.options.taskStateStore !== stores.journals.store)
    throw invalidConfig('with --queue the turns are in the --store; leave taskStateStore out of the agent');
  return openQueue(jobs, { store: stores.journals.store, messageStore: stores.messages, maxOutstanding });
}

interface Shown extends Pick<Served, 'agent' | 'label'> {
  readonly jobs: QueueSettings | undefined;
  readonly openai: boolean;
  readonly hasPage: boolean;
}

function howToUse(
  { url, cardUrl, grpcAddress }: A2AAddress,
  { agent, label, jobs, openai, hasPage }: Shown,
  style: Style,
): string {
  const model = label === undefined ? '' : ` (${label})`;
  return [
    `${style.bold(`${agent.name} listens at`)} ${style.cyan(url)}${style.dim(model)}`,
    `card  ${cardUrl}`,
    ...(hasPage ? [`page  ${url}${pagePath}`] : []),
    ...(openai ? [`OpenAI ${url}/v1, model ${agent.id}`] : []),
    ...(grpcAddress === undefined ? [] : [`gRPC  ${grpcAddress}`]),
    ...(jobs === undefined ? [] : [`queue ${jobs.place}; start workers with millrace worker`]),
    style.dim('Ctrl-C stops it.'),
    '',
  ].join('\n');
}

/** A caller and what it shows. */
interface ClientKey {
  readonly id: string;
  readonly key: string;
}

const variable = 'MILLRACE_CLIENT_KEYS';

/**
 * The keys of callers, from the variable that the flag names, else from `MILLRACE_CLIENT_KEYS`: `alice=KEY,bob=KEY`, or one `KEY`.
 * Errors: `INVALID_CONFIG`, without the keys.
 */
function clientKeys({ clientKeysEnv }: Pick<ServeFlags, 'clientKeysEnv'>, env: Environment): readonly ClientKey[] {
  if (clientKeysEnv !== undefined && !/^[A-Za-z_]\w*$/.test(clientKeysEnv)) {
    throw invalidConfig('--client-keys-env takes the name of an environment variable, never the keys themselves');
  }
  const text = env[clientKeysEnv ?? variable]?.trim() ?? '';
  if (text === '' && clientKeysEnv === undefined) return [];
  if (text === '') throw invalidConfig(`the environment variable ${clientKeysEnv} of --client-keys-env is not set`);
  const keys = text.split(',').map(clientKey);
  const isTwice = keys.some(({ id }, index) => keys.findIndex((other) => other.id === id) !== index);
  if (isTwice) throw invalidConfig(`${clientKeysEnv ?? variable} names a caller twice; write alice=KEY,bob=KEY`);
  const short = keys.find(({ key }) => key.length < shortestKey);
  if (short)
    throw invalidConfig(
      `the key of ${short.id} in ${clientKeysEnv ?? variable} is too short; use a random one of at least ${shortestKey} characters, e.g. of openssl rand -hex 24`,
    );
  return keys;
}

function clientKey(text: string): ClientKey {
  const [, id = 'client', key = ''] = /^(?:([\w.@-]+)=)?(.*)$/.exec(text.trim()) ?? [];
  return { id, key };
}
