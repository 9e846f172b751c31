import { stopSignal } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { uiMessageHandler } from 'millrace/ui';
import support from '../agent';

const taskStateStore = new LmdbStateStore({ path: '.millrace' });
// Next.js ends the process once no page is connected, which may be before the turns are released: the signals are handled here alone.
for (const signal of ['SIGINT', 'SIGTERM']) process.removeAllListeners(signal);
// Aborted by Ctrl-C and SIGTERM. The second time the process ends at once.
const stopping = stopSignal();
const agent = support.with({ taskStateStore, shutdown: stopping });

// Everybody is one user here: return the id of the user whose session you have verified.
export const chat = uiMessageHandler({ agent, scopeOf: () => 'demo', tools: 'full' });

// Tools get time to finish, and the next process resumes the turns.
stopping.addEventListener('abort', async () => {
  await agent.close();
  chat.close();
  await taskStateStore.close();
  process.exit();
});
