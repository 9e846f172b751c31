import type { Hooks } from '../hooks/hook-table.ts';
import type { ModelCallDeps } from '../model-call/usage.ts';
import type { ToolSet } from '../tool-call/tool-set.ts';

/** What a run of a turn has before its tools are known. Each room declares what it needs of it: hooks, tool calls and model calls. */
export interface RunDeps extends Omit<ModelCallDeps, 'hooks' | 'tools'> {
  /** The agent that runs the turn with these. */
  readonly agentId: string;
  readonly hooks: Hooks<RunDeps>;
}

/** What the operators of one run of a turn are given. */
export interface TurnDeps extends RunDeps {
  readonly tools: ToolSet;
}
