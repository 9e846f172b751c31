// Starts or resumes a turn of a context whose first turn waits for an answer, in a process of its own, and says so once the turn is queued. The
// parent kills it there. `behind`: a turn that never ends runs first, in the same process.
import { agent } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';

const [path = '', taskId = '', mode = 'start'] = process.argv.slice(2);
const nothing = () => {};
const ada = agent({
  id: 'ada',
  contextId: 'c',
  provider: { call: () => new Promise(() => {}) },
  taskStateStore: new LmdbStateStore({ path }),
  busy: 'queue',
  leaseMs: 100,
  enableTracing: false,
  logger: {
    debug: nothing,
    warn: nothing,
    error: nothing,
    info: (line) => void (line === 'turn queued' && process.send?.('queued')),
  },
});
if (mode === 'behind') ada.startTurn('First.', { taskId: 'first', detached: true });
if (mode !== 'resume') ada.startTurn('And now?', { taskId, detached: true });
else ada.resume(taskId, { onBusy: 'wait', detached: true });
