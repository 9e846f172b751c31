import type { AgentLoop } from '../core/agent-loop.ts';
import type { ToolDefinition, ToolProvider } from '../tools/interfaces.ts';
import { connectModel } from './model-connection.ts';
import type { ModelFlags, ModelSettings } from './model-settings.ts';
import { note } from './notes.ts';
import type { Terminal } from './terminal.ts';
import { openTrace, type TraceView } from './trace-view.ts';
import type { TurnFlags } from './turn-flags.ts';

/** All that turns of the command line need, ready to run. */
export interface Session {
  readonly loop: AgentLoop;
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
  readonly flags: Omit<TurnFlags, keyof ModelFlags>;
  readonly terminal: Terminal;
  /** Whether spans are recorded, whatever the flags say. */
  readonly traced: boolean;
  /** Of the stand-in, before each chunk. */
  readonly standInDelayMs: number;
}

/**
 * Loads the tools and starts what the settings need.
 * @throws AgentLoopError `INVALID_CONFIG` for settings that cannot work.
 */
export async function openSession(options: SessionOptions): Promise<Session> {
  const { flags, terminal, traced } = options;
  const toolProvider = await toolsOf(flags.tools);
  const { AgentLoop } = await import('../core/agent-loop.ts');
  const trace = traced ? await openTrace(flags, terminal.env) : undefined;
  const model = await connectModel(options.model, { delayMs: options.standInDelayMs });
  for (const warning of options.model.warnings) note(terminal, warning);
  const definitions = await toolProvider.getTools(nobody);
  return {
    loop: new AgentLoop({
      agentId: 'millrace',
      llmProvider: model.provider,
      toolProviders: [toolProvider],
      enableTracing: traced,
      ...(flags.system !== undefined && { systemPrompt: flags.system }),
      ...(flags.maxIterations !== undefined && { maxIterations: flags.maxIterations }),
    }),
    tools: definitions.map((definition) => definition.function),
    modelLabel: model.label,
    modelUrl: model.baseUrl,
    trace,
    async close() {
      await model.close();
      const sentence = await trace?.close();
      if (sentence !== undefined) note(terminal, sentence);
    },
  };
}

/** Whoever asks for the list of tools outside of any turn. */
const nobody = { taskId: '', agentId: 'millrace', contextId: '', metadata: {}, authContext: undefined };

async function toolsOf(file: string | undefined): Promise<ToolProvider> {
  if (file === undefined) {
    const { workspaceTools } = await import('./tools/workspace-tools.ts');
    return workspaceTools({ root: process.cwd() });
  }
  const { loadTools } = await import('./load-tools.ts');
  return loadTools(file);
}
