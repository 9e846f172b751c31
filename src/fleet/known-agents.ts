import type { TaskStateStore } from '../core/contracts/index.ts';
import type { QueueConnections } from './connection.ts';
import type { SharedCounts, WorkerStatus } from './shared-counts.ts';

interface KnownAgentsDeps {
  readonly store: TaskStateStore;
  readonly connections: QueueConnections;
  readonly counts: SharedCounts;
}

/** Open turns whose agents are looked at, where no worker has them. */
const mostOpen = 100;

/** The ids of agents with a queue: those that this process or a worker knows, and those of open turns. And the workers there are. */
export async function knownAgents({ store, connections, counts }: KnownAgentsDeps): Promise<{
  readonly agentIds: ReadonlySet<string>;
  readonly workers: readonly WorkerStatus[];
}> {
  const workers = await counts.workers();
  const open = await connections.ask(async () => store.list({ runnable: true, roots: true, limit: mostOpen }));
  const known = [...connections.agentIds, ...workers.flatMap(({ agents }) => agents)];
  return { agentIds: new Set([...known, ...open.map(({ agentId }) => agentId)]), workers };
}
