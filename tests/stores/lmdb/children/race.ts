// Tries to take the lease of a task as soon as it is told to, and says how that went.
import { AgentLoopError } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';

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
