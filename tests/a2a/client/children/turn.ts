// Runs one turn of a remote agent in a process of its own, which says when the first text is there. The parent kills it.
import { remoteAgent } from 'millrace/a2a';
import { LmdbStateStore } from 'millrace/lmdb';

const [url = '', path = '', said = 'Go.'] = process.argv.slice(2);
const far = await remoteAgent({
  url,
  id: 'far',
  contextId: 'c',
  taskStateStore: new LmdbStateStore({ path }),
  leaseMs: 100,
  enableTracing: false,
});
far.on('artifact-update', () => process.send?.('text'));
await far.run(said, { taskId: 't' });
