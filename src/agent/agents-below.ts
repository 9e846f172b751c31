import type { ToolProvider } from '../tools/interfaces.ts';
import type { Agent } from './agent.ts';

/** The agent behind a tool of that name. */
export type AgentOfTool = (toolName: string) => Agent | undefined;

const agents = new WeakMap<ToolProvider, AgentOfTool>();

/** Marks the provider as one whose tools are agents, for `agentBelow`. */
export function withAgents<T extends ToolProvider>(provider: T, agentOf: AgentOfTool): T {
  agents.set(provider, agentOf);
  return provider;
}

/** The agent whose turn a call of this tool is, if it is one. */
export function agentBelow(providers: readonly ToolProvider[], toolName: string): Agent | undefined {
  for (const provider of providers) {
    const found = agents.get(provider)?.(toolName);
    if (found) return found;
  }
  return undefined;
}
