import type { Agent } from '../agent/agent.ts';
import { type OpenTurn, settleTurnsAhead } from '../agent/open-turns.ts';
import type { Logger, TaskStateStore, ToolDefinition, ToolProvider } from '../core/contracts/index.ts';
import type { McpTools } from '../mcp/mcp-tools.ts';
import { invalidConfig } from './arguments.ts';
import { type CommandHost, type Interruption, newId, withInterruption } from './command-host.ts';
import { openMcp } from './mcp-servers.ts';
import { connectModel, type ModelSettings, modelSettings } from './model.ts';
import { type TaskPlace, whyOpen } from './next-commands.ts';
import {
  anyLastingStore,
  lastingStore,
  type OpenStore,
  openStore,
  type StoreSettings,
  storeFiles,
  storeWarnings,
  turnStore,
} from './store.ts';
import { note, type Terminal } from './terminal.ts';
import type { WorkspaceOptions } from './tools/workspace.ts';
import { openTrace, type TraceView, wantsExport } from './trace-view.ts';
import type { TurnFlags } from './turn-flags.ts';
import { loadAgent, loadTools } from './user-modules.ts';

/** All that turns of the command line need, ready to run. */
export interface Session {
  /** Runs the turns, and remembers what was said in each conversation where the store keeps the journals. */
  readonly agent: Agent;
  readonly store: OpenStore;
  /** What the model may call. Errors: those of the providers of tools. */
  tools(): Promise<readonly ToolDefinition['function'][]>;
  readonly modelLabel: string;
  readonly modelUrl: string;
  /** Absent where nobody asked for spans. */
  readonly trace: TraceView | undefined;
  /** Stops what was started, and says where spans went. */
  close(): Promise<void>;
}

interface SessionOptions {
  readonly model: ModelSettings;
  readonly store: StoreSettings;
  readonly flags: TurnFlags;
  readonly terminal: Terminal;
  /** Whether spans are recorded, whatever the flags say. */
  readonly traced: boolean;
  /** Of the demo model, before each chunk. */
  readonly standInDelayMs: number;
  /** In place of those that the flags name. */
  readonly tools?: ToolProvider;
  /** Breaks off what takes its time to start. */
  readonly interruption?: Interruption;
  /** Drains the turns when it is aborted. */
  readonly shutdown?: AbortSignal;
}

/**
 * Loads the tools and starts what the settings need.
 * @throws AgentLoopError `INVALID_CONFIG` for settings that cannot work; those of the store.
 */
export async function openSession(options: SessionOptions): Promise<Session> {
  const { flags, terminal, traced } = options;
  if (flags.agent !== undefined) return sessionOf(flags.agent, options);
  const ownTools =
    options.tools ?? (await toolsOf(flags.tools, { root: process.cwd(), hidden: storeFiles(options.store) }));
  const { agent } = await import('../agent/make-agent.ts');
  const trace = traced ? await openTrace(flags, terminal.env) : undefined;
  const store = await openStore(options.store);
  const model = await connectModel(options.model, options.standInDelayMs);
  let mcp: McpTools | undefined;
  let runs: Agent | undefined;
  const close = async () => {
    await runs?.close();
    await Promise.all([model.close(), store.close(), mcp?.close()]);
    const sentence = await trace?.close();
    if (sentence !== undefined) note(terminal, sentence);
  };
  try {
    for (const warning of [...options.model.warnings, ...(await storeWarnings(store))]) note(terminal, warning);
    mcp = await openMcp({ specs: flags.mcp, terminal, interruption: options.interruption });
    const toolProviders = mcp ? [ownTools, mcp] : [ownTools];
    runs = agent({
      id: 'millrace',
      provider: model.provider,
      toolProviders,
      taskStateStore: store.store,
      leaseMs: flags.leaseMs ?? defaultLeaseMs,
      enableTracing: traced,
      generateId: newId,
      busy: 'queue',
      logger: queueLogger(terminal, { store: options.store, flags }),
      retry: null,
      ...(options.shutdown && { shutdown: options.shutdown }),
    });
    return {
      agent: runs,
      store,
      tools: () => offeredBy(toolProviders),
      modelLabel: model.label,
      modelUrl: model.baseUrl,
      trace,
      close,
    };
  } catch (thrown) {
    await close();
    throw thrown;
  }
}

/** Runs turns of the agent of a file, with its own model and tools. */
async function sessionOf(
  file: string,
  { flags, terminal, traced, store: settings, shutdown }: SessionOptions,
): Promise<Session> {
  const trace = traced ? await openTrace(flags, terminal.env) : undefined;
  const store = await openStore(settings);
  let agent: Agent | undefined;
  const close = async () => {
    await agent?.close();
    await store.close();
    const sentence = await trace?.close();
    if (sentence !== undefined) note(terminal, sentence);
  };
  try {
    for (const warning of await storeWarnings(store)) note(terminal, warning);
    const { leaseMs = defaultLeaseMs } = flags;
    const loaded = await loadAgent(file, {
      taskStateStore: store.store,
      leaseMs,
      enableTracing: traced,
      logger: queueLogger(terminal, { store: settings, flags }),
    });
    agent = shutdown ? loaded.with({ shutdown }) : loaded;
    const tools = () => offeredBy(loaded.toolProviders);
    return { agent, store, tools, modelLabel: loaded.name, modelUrl: '', trace, close };
  } catch (thrown) {
    await close();
    throw thrown;
  }
}

/** So short that a turn whose process died can be resumed after a breath, so long that a busy machine keeps it. */
export const defaultLeaseMs = 10_000;

/** The caller of a list of tools outside of any turn. */
const nobody = { taskId: '', agentId: 'millrace', contextId: '', metadata: {}, authContext: undefined };

async function offeredBy(providers: readonly ToolProvider[]): Promise<readonly ToolDefinition['function'][]> {
  const definitions = await Promise.all(providers.map((each) => each.getTools(nobody)));
  return definitions.flat().map((definition) => definition.function);
}

/** Those of the file, else the built-in ones: those for files only where there is a workspace. */
export async function toolsOf(file: string | undefined, workspace?: WorkspaceOptions): Promise<ToolProvider> {
  if (file === undefined) {
    const { builtInTools } = await import('./tools/built-in-tools.ts');
    return builtInTools({ ...(workspace && { workspace }) });
  }
  return loadTools(file);
}

export interface OpenedSession {
  readonly session: Session;
  readonly interruption: Interruption;
  /** Cancels a turn: aborted by Ctrl-C, when stdout is closed, and by SIGTERM if no process could resume the turn. */
  readonly signal: AbortSignal;
}

interface SessionRequest {
  readonly flags: TurnFlags;
  readonly host: CommandHost;
  /** Whether the store has to be there already. Default: it is made. */
  readonly existing?: boolean;
}

/** Opens what a turn needs, as the flags say, for the time of an action. SIGTERM drains the turns of a store that outlives the process. */
export async function withSession(
  { flags, host, existing = false }: SessionRequest,
  action: (opened: OpenedSession) => Promise<void>,
): Promise<void> {
  const { terminal } = host;
  const model = modelSettings(flags, terminal.env);
  const store = existing ? lastingStore(flags, terminal.env) : turnStore(flags, terminal.env);
  await withInterruption(host, async (interruption) => {
    const traced = flags.trace === true || wantsExport(flags, terminal.env);
    const drains = store.kind !== 'memory';
    const session = await openSession({
      model,
      store,
      flags,
      terminal,
      traced,
      standInDelayMs: 0,
      interruption,
      ...(drains && { shutdown: interruption.byOrder }),
    });
    try {
      const signal = AbortSignal.any([drains ? interruption.byKey : interruption.signal, terminal.stdout.closed]);
      await action({ session, interruption, signal });
    } finally {
      await session.close();
    }
  });
}

/** The first turn of a conversation that has not ended; none in a new conversation. Errors: those of the store. */
export async function openTurnOf(store: TaskStateStore, contextId: string): Promise<OpenTurn | undefined> {
  return settleTurnsAhead({ messageStore: messagesIn(store), journal: store }, contextId, '');
}

/** How many messages a conversation has. Errors: those of the store. */
export async function lengthOf(store: TaskStateStore, contextId: string): Promise<number> {
  return (await messagesIn(store).load(contextId, { limit: 0 })).total;
}

function messagesIn({ messages }: TaskStateStore): NonNullable<TaskStateStore['messages']> {
  if (messages) return messages;
  throw invalidConfig(`this store does not keep conversations; use --store ${anyLastingStore}`);
}

/** Tells, while a turn is queued, that the turn before it waits for somebody now, or was abandoned by its process. */
export function queueLogger(terminal: Terminal, place: Omit<TaskPlace, 'taskId'>): Logger {
  const silent = () => {};
  const tell = (message: string, { behind, status }: Readonly<Record<string, unknown>> = {}) => {
    if (message !== 'turn queued' || typeof behind !== 'string') return;
    if (status !== 'suspended' && status !== 'dead') return;
    note(terminal, `turn ${behind} of this conversation ${whyOpen(status, { ...place, taskId: behind })}`);
  };
  return { debug: silent, info: tell, warn: tell, error: silent };
}
