import type { Agent } from '../../agent/agent.ts';
import type { Logger } from '../../core/contracts/index.ts';
import type { Interruption } from '../interruption.ts';
import { connectModel } from '../model-connection.ts';
import { modelSettings } from '../model-settings.ts';
import { newId } from '../new-id.ts';
import { note } from '../notes.ts';
import { openMcp } from '../open-mcp.ts';
import { defaultLeaseMs, toolsOf } from '../session.ts';
import { storeFiles } from '../store-settings.ts';
import type { Terminal } from '../terminal.ts';
import type { AgentFlags } from './serve-flags.ts';
import type { ServeStores } from './serve-stores.ts';

export interface ServedAgentRequest {
  readonly flags: AgentFlags;
  readonly stores: Pick<ServeStores, 'journals' | 'messages'>;
  readonly terminal: Terminal;
  readonly logger: Logger;
  /** Breaks off what takes its time to start. */
  readonly interruption: Interruption;
  readonly traced: boolean;
}

export interface ServedAgent {
  readonly agent: Agent;
  /** For a person: which model answers. */
  readonly label: string | undefined;
  close(): Promise<void>;
}

/** The agent of the file, else one of the model and the tools that the flags name. Errors: `INVALID_CONFIG`. */
export async function servedAgent({
  flags,
  stores,
  terminal,
  logger,
  interruption,
  traced,
}: ServedAgentRequest): Promise<ServedAgent> {
  const defaults = {
    taskStateStore: stores.journals.store,
    messageStore: stores.messages,
    leaseMs: flags.leaseMs ?? defaultLeaseMs,
    enableTracing: traced,
    logger,
    busy: 'queue' as const,
  };
  if (flags.agent !== undefined) {
    const { loadAgent } = await import('../load-agent.ts');
    const agent = await interruption.race(loadAgent(flags.agent, defaults));
    return { agent, label: undefined, close: async () => {} };
  }
  const settings = modelSettings(flags, terminal.env);
  for (const warning of settings.warnings) note(terminal, warning);
  const { agent } = await import('../../agent/agent.ts');
  const hidden = storeFiles(stores.journals.settings);
  const tools = await toolsOf(
    flags.tools,
    flags.workspace === undefined ? undefined : { root: flags.workspace, hidden },
  );
  const mcp = await openMcp({ specs: flags.mcp, terminal, interruption });
  const model = await connectModel(settings, { delayMs: 20 }).catch(async (thrown: unknown) => {
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
