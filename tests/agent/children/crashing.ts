// Runs the turn `top`, whose `part` kills the process each time it runs. Prints how the turn ended.
import { agent } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';

const [path = '', part = 'model'] = process.argv.slice(2);
const crash = (): never => {
  process.kill(process.pid, 'SIGKILL');
  throw new Error('unreachable');
};
const ada = agent({
  id: 'ada',
  maxResumes: 2,
  leaseMs: 100,
  enableTracing: false,
  taskStateStore: new LmdbStateStore({ path }),
  provider: { call: crash },
  ...(part === 'hook' && { extensions: [{ name: 'crash', beforeTurn: crash }] }),
});
const ended = await ada
  .startTurn('Crash.', { taskId: 'top' })
  .result()
  .then(({ text }) => text, String);
process.send?.(ended);
process.disconnect?.();
