import type { Agent, TaskStateStore } from 'millrace';
import { a2aServer, apiKeyAuth, remoteAgent } from 'millrace/a2a';
import { callerId, type Workload } from './tree.ts';

const key = 'a-key-of-sixteen-and-more';

/** The remote agent of a workload, as the processes have it that call it. */
export function callRemote(
  { leases, storeDeadlineMs }: Workload,
  id: string,
  { port, store: taskStateStore }: { readonly port: number; readonly store: TaskStateStore },
): Promise<Agent> {
  const url = `http://127.0.0.1:${port}`;
  const description = `Asks ${id}.`;
  const local = { taskStateStore, leaseMs: leases.below, storeDeadlineMs, enableTracing: false };
  return remoteAgent({ url, auth: { bearer: key }, id, name: id, description, ...local });
}

/** Serves the remote agent until its process is killed. */
export async function serveRemote(agent: Agent, port: number): Promise<void> {
  const auth = apiKeyAuth({ keys: [{ id: callerId, key }] });
  const server = await a2aServer({ agent, auth, recoverEveryMs: 50, rateLimit: null });
  await server.listen({ port });
}
