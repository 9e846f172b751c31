import type { Agent } from '../agent/agent.ts';
import type { ToolDefinition, ToolProvider } from '../core/contracts/index.ts';
import type { McpTools } from '../mcp/mcp-tools.ts';
import type { Interruption } from './interruption.ts';
import { connectModel } from './model-connection.ts';
import type { ModelSettings } from './model-settings.ts';
import { newId } from './new-id.ts';
import { note } from './notes.ts';
import { openMcp } from './open-mcp.ts';
import { type OpenStore, openStore, storeWarnings } from './open-store.ts';
import { queueLogger } from './queue-logger.ts';
import { type StoreSettings, storeFiles } from './store-settings.ts';
import type { Terminal } from './terminal.ts';
import type { WorkspaceOptions } from './tools/workspace.ts';
import { openTrace, type TraceView } from './trace-view.ts';
import type { TurnFlags } from './turn-flags.ts';

/** All that turns of the command line need, ready to run. */
export interface Session {
  /** Runs the turns, and remembers what was said in each conversation where the store keeps the journals. */
  readonly agent: Agent;
  readonly store: OpenStore;
  readonly tools: readonly ToolDefinition['function'][];
  readonly modelLabel: string;
  readonly modelUrl: string;
  /** Absent where nobody asked for spans. */
  readonly trace: TraceView | undefined;
  /** Stops what was started, and says where spans went. */
  close(): Promise<void>;
}

export interface SessionOptions {
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
  const ownTools =
    options.tools ?? (await toolsOf(flags.tools, { root: process.cwd(), hidden: storeFiles(options.store) }));
  const { agent } = await import('../agent/agent.ts');
  const trace = traced ? await openTrace(flags, terminal.env) : undefined;
  const store = await openStore(options.store);
  const model = await connectModel(options.model, { delayMs: options.standInDelayMs });
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
    const definitions = (await Promise.all(toolProviders.map((each) => each.getTools(nobody)))).flat();
    return {
      agent: runs,
      store,
      tools: definitions.map((definition) => definition.function),
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

/** So short that a turn whose process died can be resumed after a breath, so long that a busy machine keeps it. */
export const defaultLeaseMs = 10_000;

/** The caller of a list of tools outside of any turn. */
const nobody = { taskId: '', agentId: 'millrace', contextId: '', metadata: {}, authContext: undefined };

/** Those of the file, else the built-in ones: those for files only where there is a workspace. */
export async function toolsOf(file: string | undefined, workspace?: WorkspaceOptions): Promise<ToolProvider> {
  if (file === undefined) {
    const { builtInTools } = await import('./tools/built-in-tools.ts');
    return builtInTools({ ...(workspace && { workspace }) });
  }
  const { loadTools } = await import('./load-tools.ts');
  return loadTools(file);
}
