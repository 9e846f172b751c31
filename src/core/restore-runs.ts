import { type RestoreOptions, restoreSpans } from '../observability/spans/restore-spans.ts';
import { turnTracing } from '../observability/spans/tracing-options.ts';
import type { Lease, TaskStateStore } from '../stores/interfaces.ts';
import { type EarlierRuns, earlierRuns } from './lost-runs.ts';
import { replayOf } from './observe-turn.ts';
import type { ResolvedConfig } from './resolve-config.ts';
import type { LoopState } from './state.ts';

/** Writes the spans that were lost with the processes of earlier runs. Whether the last of these runs has its spans then. */
export function restoreRuns(config: ResolvedConfig, { turn }: LoopState, earlier: EarlierRuns): boolean {
  const setupOf = (agentId: string) => (agentId === config.agentId ? config : config.agents?.(agentId));
  return restoreEach(earlier, {
    tracingOf: (agentId) => turnTracing(config, { ...turn, agentId }),
    maxIterations: turn.settings.maxIterations ?? config.maxIterations,
    infoOf: (agentId) => setupOf(agentId)?.llmProvider.info,
    agentNameOf: (agentId) => config.agents?.(agentId)?.name ?? agentId,
    enableTracing: config.enableTracing !== false,
  });
}

/**
 * The same for a turn that nobody continues: its end is written without its configuration. What only that knows is not on the spans, and neither
 * are texts, which its `redact` has not seen.
 */
export async function restoreEnded(store: TaskStateStore, { turn }: LoopState, lease: Lease): Promise<void> {
  if (lease.abandonedAt == null) return;
  const past = replayOf((await store.read(lease.taskId)).filter(({ seq }) => seq <= lease.seq));
  const options = { captureContent: false, redact: () => '[not shown]' };
  restoreEach(earlierRuns(past, lease.abandonedAt), {
    tracingOf: (agentId) => turnTracing(options, { ...turn, agentId }),
    maxIterations: turn.settings.maxIterations,
    infoOf: () => undefined,
    agentNameOf: (agentId) => agentId,
    enableTracing: true,
  });
}

function restoreEach({ lost, lostAt }: EarlierRuns, options: RestoreOptions): boolean {
  let isThere = lostAt === undefined;
  for (const run of lost) isThere = restoreSpans(run, options);
  return isThere;
}
