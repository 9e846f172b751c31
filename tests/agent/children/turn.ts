// Runs one turn of an agent in a process of its own: `whole` to its end; `unsaved` and `failing` stop where they would save what the turn
// added, and say so; `held` stops in its model call. The parent kills those.
import { agent } from 'millrace';
import { LmdbMessageStore, LmdbStateStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';

const [path = '', taskId = '', mode = 'whole'] = process.argv.slice(2);
const messageStore = new LmdbMessageStore({ path });
if (mode === 'unsaved' || mode === 'failing') {
  messageStore.append = () => {
    process.send?.('at the end');
    return new Promise(() => {});
  };
}
const steps = mode === 'failing' ? [{ error: new Error('no line') }] : [{ text: `Answer of ${taskId}.` }];
const ada = agent({
  id: 'ada',
  contextId: 'c',
  provider: scriptedLLM(mode === 'held' ? [{ text: ['Half'], never: true }] : steps),
  messageStore,
  taskStateStore: new LmdbStateStore({ path: `${path}/journal` }),
  leaseMs: 100,
  enableTracing: false,
});
ada.on('artifact-update', () => mode === 'held' && process.send?.('in its call'));
await ada.run(`Question of ${taskId}.`, { taskId });
process.send?.('done');
