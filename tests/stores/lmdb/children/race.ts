// Tries to take the lease of a task as soon as it is told to, and says how that went.
import { AgentLoopError } from '../../../../src/core/contracts/errors.ts';
import { LmdbStateStore } from '../../../../src/stores/lmdb/lmdb-state-store.ts';

const [path = ''] = process.argv.slice(2);
const store = new LmdbStateStore({ path });
process.on('message', async (taskId: string) => {
  const outcome = await store.acquire(taskId, String(process.pid), 60_000).then(
    () => 'won',
    (error: unknown) => (AgentLoopError.isInstance(error) ? error.code : 'unknown'),
  );
  process.send?.(outcome);
});
process.send?.('ready');
