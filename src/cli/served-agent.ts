import type { Agent } from '../agent/agent.ts';
import { AgentLoopError, type Logger, type MessageStore } from '../core/contracts/index.ts';
import { isLoopbackHost } from '../loopback.ts';
import type { PushStore } from '../stores/push/push-store.ts';
import { invalidConfig } from './arguments.ts';
import { type CommandHost, type Interruption, newId, withInterruption } from './command-host.ts';
import { openMcp } from './mcp-servers.ts';
import { connectModel, type ModelFlags, modelSettings } from './model.ts';
import { defaultLeaseMs, toolsOf } from './session.ts';
import { type OpenStore, openStore, type StoreSettings, storeFiles, storeWarnings } from './store.ts';
import { complain, note, type Terminal } from './terminal.ts';
import { exportTrace, type TraceFlags } from './trace-view.ts';
import { loadAgent } from './user-modules.ts';

interface ServedAgent {
  readonly agent: Agent;
  /** For a person: which model answers. */
  readonly label: string | undefined;
  close(): Promise<void>;
}

/** What a server is made of. */
export interface Served extends ServedAgent {
  readonly stores: ServeStores;
  readonly logger: Logger;
  readonly interruption: Interruption;
}

export interface ServeRequest {
  readonly flags: AgentFlags & Pick<TraceFlags, 'otlp'>;
  readonly settings: StoreSettings;
  /** Whether the log is lines of JSON. */
  readonly structured: boolean;
  readonly host: CommandHost;
}

/** Opens what a server needs, as the flags say, for the time of an action. */
export async function withServed(request: ServeRequest, action: (served: Served) => Promise<void>): Promise<void> {
  const { flags, host } = request;
  await withOpened(request, async ({ traced, ...opened }) => {
    const agent = await servedAgent({ flags, ...opened, terminal: host.terminal, traced });
    try {
      await action({ ...agent, ...opened });
    } finally {
      await agent.close();
    }
  });
}

/** What agents are served with, whichever they are. */
export interface Opened extends Omit<Served, keyof ServedAgent> {
  readonly traced: boolean;
}

/** Opens the stores, the log and the export of spans for the time of an action. */
export async function withOpened(
  { flags, settings, structured, host }: Omit<ServeRequest, 'flags'> & { readonly flags: Pick<TraceFlags, 'otlp'> },
  action: (opened: Opened) => Promise<void>,
): Promise<void> {
  const { terminal } = host;
  await withInterruption(host, async (interruption) => {
    const logger = await serveLogger(terminal, structured);
    const tracing = await exportTrace(flags, terminal.env);
    const stores = await openServeStores(settings);
    try {
      for (const warning of await interruption.race(storeWarnings(stores.journals))) note(terminal, warning);
      await action({ stores, logger, interruption, traced: tracing !== undefined });
    } finally {
      await stores.close();
      const sentence = await tracing?.close();
      if (sentence !== undefined) note(terminal, sentence);
    }
  });
}

/** Loads what the model of an agent needs, so that a server fails at its start and not with each turn. Errors: `MISSING_PACKAGE`. */
export async function preparedModel({ options: { provider } }: Agent): Promise<void> {
  if (typeof provider !== 'string') await provider.prepare?.();
}

interface AgentRequest extends Omit<Served, keyof ServedAgent> {
  readonly flags: AgentFlags;
  readonly terminal: Terminal;
  readonly traced: boolean;
}

/** The agent of the file, else one of the model and the tools that the flags name. Errors: `INVALID_CONFIG`. */
async function servedAgent({
  flags,
  stores,
  terminal,
  logger,
  interruption,
  traced,
}: AgentRequest): Promise<ServedAgent> {
  const defaults = { ...agentDefaults({ stores, logger, traced }), leaseMs: flags.leaseMs ?? defaultLeaseMs };
  if (flags.agent !== undefined) {
    const agent = await interruption.race(loadAgent(flags.agent, defaults));
    return { agent, label: undefined, close: async () => {} };
  }
  const settings = modelSettings(flags, terminal.env);
  for (const warning of settings.warnings) note(terminal, warning);
  const { agent } = await import('../agent/make-agent.ts');
  const hidden = storeFiles(stores.journals.settings);
  const tools = await toolsOf(
    flags.tools,
    flags.workspace === undefined ? undefined : { root: flags.workspace, hidden },
  );
  const mcp = await openMcp({ specs: flags.mcp, terminal, interruption });
  const model = await connectModel(settings, 20).catch(async (thrown: unknown) => {
    await mcp?.close();
    throw thrown;
  });
  return {
    agent: agent({
      ...defaults,
      id: 'millrace',
      name: 'Millrace',
      description: 'Answers questions with the tools that it is offered.',
      provider: model.provider,
      toolProviders: mcp ? [tools, mcp] : [tools],
      generateId: newId,
      ...(flags.system !== undefined && { systemPrompt: flags.system }),
    }),
    label: model.label,
    close: async () => {
      await Promise.all([model.close(), mcp?.close()]);
    },
  };
}

/** What counts where the agent does not say otherwise. */
export function agentDefaults({ stores, logger, traced }: Pick<Opened, 'stores' | 'logger' | 'traced'>) {
  return {
    taskStateStore: stores.journals.store,
    messageStore: stores.messages,
    enableTracing: traced,
    logger,
    busy: 'queue' as const,
  };
}

/** What the command line says about an agent that is served. */
export interface AgentFlags extends ModelFlags {
  /** A module whose default export is an agent; else the model and the tools of the flags are one. */
  readonly agent?: string;
  readonly tools?: string;
  readonly mcp?: readonly string[];
  readonly system?: string;
  readonly leaseMs?: number;
  /** The folder that the built-in file tools read; without it there are none. */
  readonly workspace?: string;
}

/** Refuses flags that nothing would read. Errors: `INVALID_CONFIG`. */
export function checkServeFlags(flags: AgentFlags): void {
  checkAgentFlag(flags);
  if (flags.tools !== undefined && flags.workspace !== undefined) {
    throw invalidConfig('--tools replaces the built-in tools, so --workspace has no effect; leave one of them out');
  }
}

/** Refuses flags beside `--agent` that it replaces. Errors: `INVALID_CONFIG`. */
export function checkAgentFlag(flags: AgentFlags): void {
  const ofModel = (['baseUrl', 'model', 'apiKeyEnv', 'tools', 'mcp', 'system', 'workspace'] as const).filter(
    (name) => flags[name] !== undefined,
  );
  if (flags.agent !== undefined && ofModel.length > 0) {
    throw invalidConfig(
      '--agent includes the model, the tools and the prompt; remove --base-url, --model, --api-key-env, --tools, --mcp, --system and --workspace',
    );
  }
}

/** Refuses to be reached from elsewhere by callers whom nobody asks who they are; `cure` says what to do. Errors: `INVALID_CONFIG`. */
export function checkReach(host: string, isGuarded: boolean, cure: string): void {
  if (!isGuarded && !isLoopbackHost(host)) throw invalidConfig(`--host ${host} lets others reach the server; ${cure}`);
}

/** What a server keeps, all in one place. */
interface ServeStores {
  readonly journals: OpenStore;
  readonly messages: MessageStore;
  readonly push: PushStore;
  close(): Promise<void>;
}

/** Opens the stores; loads their package. Errors as `openStore`. */
async function openServeStores(settings: StoreSettings): Promise<ServeStores> {
  const journals = await openStore(settings);
  const { messages, push, close } = await besides(settings);
  return { journals, messages, push, close: async () => void (await Promise.all([journals.close(), close()])) };
}

async function besides(settings: StoreSettings): Promise<Omit<ServeStores, 'journals'>> {
  switch (settings.kind) {
    case 'memory': {
      const { InMemoryMessageStore } = await import('../stores/messages/table-message-store.ts');
      const { InMemoryPushStore } = await import('../stores/push/table-push-store.ts');
      return { messages: new InMemoryMessageStore(), push: new InMemoryPushStore(), close: async () => {} };
    }
    case 'lmdb': {
      const { LmdbMessageStore, LmdbPushStore } = await import('../stores/lmdb/index.ts');
      return closing(new LmdbMessageStore({ path: settings.path }), new LmdbPushStore({ path: settings.path }));
    }
    case 'postgres': {
      const { PostgresMessageStore, PostgresPushStore } = await import('../stores/postgres/index.ts');
      const postgres = settings.url;
      return closing(new PostgresMessageStore({ postgres }), new PostgresPushStore({ postgres }));
    }
    case 'redis': {
      const { RedisMessageStore, RedisPushStore } = await import('../stores/redis/index.ts');
      return closing(new RedisMessageStore({ redis: settings.url }), new RedisPushStore({ redis: settings.url }));
    }
  }
}

interface Closable {
  close(): Promise<void>;
}

function closing(messages: MessageStore & Closable, push: PushStore & Closable): Omit<ServeStores, 'journals'> {
  return { messages, push, close: async () => void (await Promise.all([messages.close(), push.close()])) };
}

/**
 * What a server logs, on stderr: by pino as lines of JSON where that is asked for, else only what somebody should look at, as sentences.
 * Errors: `MISSING_PACKAGE`.
 */
export async function serveLogger(terminal: Terminal, structured: boolean): Promise<Logger> {
  if (structured) return jsonLogger(terminal);
  return {
    debug() {},
    info() {},
    warn: (message, fields) => note(terminal, sentence(message, fields)),
    error: (message, fields) => complain(terminal, sentence(message, fields)),
  };
}

async function jsonLogger({ stderr }: Terminal): Promise<Logger> {
  const { pinoLogger } = await import('../a2a/server/a2a-server.ts');
  try {
    const { pino } = await import('pino');
    return pinoLogger(pino({ name: 'millrace' }, { write: (line: string) => void stderr.write(line) }));
  } catch (cause) {
    const message = 'The package "pino" cannot be loaded; run `npm install pino`, or leave --log out.';
    throw new AgentLoopError('MISSING_PACKAGE', message, { cause });
  }
}

function sentence(message: string, fields: Readonly<Record<string, unknown>> = {}): string {
  const pairs = Object.entries(fields).map(([name, value]) => `${name} ${shown(value)}`);
  return pairs.length === 0 ? message : `${message} (${pairs.join(', ')})`;
}

/** Of an error its class and its message; its stack is for the structured log. */
function shown(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value);
  if ('type' in value && 'message' in value) return `${value.type}: ${value.message}`;
  return JSON.stringify(value);
}
