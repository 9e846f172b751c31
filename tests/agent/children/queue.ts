// Sends four messages of one conversation at once, in a process of its own. It stops where the store is told to `create` or `begin` one of them, says so once the
// others have gone as far as they can, and is killed there.
import { agent } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { RedisStateStore } from 'millrace/redis';

const [kind = '', place = '', method = '', stop = ''] = process.argv.slice(2);
const taskStateStore =
  kind === 'redis' ? new RedisStateStore({ redis: place, prefix: 'queue' }) : new LmdbStateStore({ path: place });
const messageStore = taskStateStore.messages;

async function reached(): Promise<never> {
  for (let round = 0; round < 20; round++) {
    await taskStateStore.list();
    await new Promise(setImmediate);
  }
  process.send?.(accepted);
  return new Promise(() => {});
}

const begin = messageStore.begin.bind(messageStore);
messageStore.begin = (contextId, taskId) =>
  method === 'begin' && taskId === stop ? reached() : begin(contextId, taskId);
const create = taskStateStore.create.bind(taskStateStore);
taskStateStore.create = (taskId, started) =>
  method === 'create' && taskId === stop ? reached() : create(taskId, started);

const ada = agent({
  id: 'ada',
  contextId: 'c',
  provider: { call: () => new Promise(() => {}) },
  messageStore,
  taskStateStore,
  busy: 'queue',
  leaseMs: 100,
  enableTracing: false,
});
/** Whose sender knows that they have come. */
const accepted: string[] = [];
for (const taskId of ['m-1', 'm-2', 'm-3', 'm-4'])
  ada.startTurn(taskId, { taskId, detached: true }).subscribe(({ kind: what }) => {
    if (what === 'task') accepted.push(taskId);
  });
