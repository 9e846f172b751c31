import type { Context } from '@opentelemetry/api';
import { startStintSpan } from '../../observability/spans/stint-span.ts';
import { silentSpanBelow, type TracedSpan, turnTracing } from '../../observability/spans/tracing-options.ts';
import type { AgentLoopConfig, AgentSetup } from '../contracts/config.ts';
import { AgentLoopError } from '../contracts/errors.ts';
import { hookLists } from '../hooks/hooks.ts';
import type { LoopState } from '../journal/state.ts';
import { type ResolvedConfig, resolveConfig } from '../options/resolve-config.ts';
import type { RunDeps } from './turn-deps.ts';

/**
 * What the current agent of a turn runs it with: its own provider, call settings, prompt, tools and limits, its extensions behind those of
 * the configuration, and everything else of the turn. Errors: `MISSING_AGENT` where `agents` does not know it, retryable.
 */
export function stintDeps(deps: RunDeps, state: LoopState): RunDeps {
  const { agentId, turn, agentChanges } = state;
  const isOwn = agentChanges === 0 && agentId === deps.config.agentId;
  const setup = isOwn ? undefined : deps.config.agents?.(agentId);
  if (!setup && agentId !== deps.config.agentId) throw missingAgent(deps, agentId);
  const config = setup ? setupConfig(deps.config, agentId, setup) : againConfig(deps.config, agentChanges);
  const metadata = { ...setup?.metadata, ...turn.metadata };
  // What the caller gave for the turn stands in for the prompt of the agent that was chosen first.
  const given = agentChanges <= 1 ? turn.settings.systemPrompt : undefined;
  return {
    ...deps,
    config,
    agentId,
    turn: { ...turn, agentId, metadata },
    tracing: agentChanges === 0 ? deps.tracing : turnTracing(config, { ...turn, agentId }),
    systemPrompt: given ?? config.systemPrompt,
    maxIterations: turn.settings.maxIterations ?? config.maxIterations,
    provider: config.llmProvider,
  };
}

/** The span of the part of a turn that an agent runs, which was changed to. */
export function stintSpan({ tracing, config, agentId }: RunDeps, state: LoopState, parent: Context): TracedSpan {
  if (state.agentChanges === 0) return silentSpanBelow(parent);
  const { name = agentId } = config.agents?.(agentId) ?? {};
  return startStintSpan(tracing, { agentName: name, reason: state.stint.reason, from: state.stint.from }, parent);
}

type TurnOption = Exclude<keyof AgentLoopConfig, keyof AgentSetup | 'agentId' | 'extensions'>;

/** What stays the turn's, with any agent. */
const turnOptions: Readonly<Record<TurnOption, true>> = {
  agents: true,
  maxHandOffs: true,
  argumentChecks: true,
  taskStateStore: true,
  abortGraceMs: true,
  leaseMs: true,
  maxResumes: true,
  retryPlan: true,
  subAgentEvents: true,
  shutdown: true,
  storeDeadlineMs: true,
  enableTracing: true,
  captureContent: true,
  redact: true,
  spanNames: true,
  logger: true,
  clock: true,
  generateId: true,
};

/** Only the extensions of the agent itself are asked before its first iteration: the others were when the turn began. */
function setupConfig(config: ResolvedConfig, agentId: string, setup: AgentSetup): ResolvedConfig {
  const { name: _, metadata: __, extensions = [], ...own } = setup;
  const ofTurn = Object.fromEntries(Object.entries(config).filter(([option]) => Object.hasOwn(turnOptions, option)));
  const resolved = resolveConfig({ ...ofTurn, ...own, agentId, extensions: [...config.extensions, ...extensions] });
  const { beforeTurn } = hookLists(extensions);
  return Object.assign(resolved, { logger: config.logger, hooks: { ...resolved.hooks, beforeTurn } });
}

/** The agent that the turn began with has it back. */
function againConfig(config: ResolvedConfig, agentChanges: number): ResolvedConfig {
  return agentChanges === 0 ? config : Object.assign({}, config, { hooks: { ...config.hooks, beforeTurn: [] } });
}

function missingAgent({ turn }: RunDeps, agentId: string): AgentLoopError {
  const message = `Turn "${turn.taskId}" is at the agent "${agentId}", which this process does not know; add it to agents of the configuration (or to the team: registerAgent), and resume the turn.`;
  return new AgentLoopError('MISSING_AGENT', message, { taskId: turn.taskId, retryable: true });
}
