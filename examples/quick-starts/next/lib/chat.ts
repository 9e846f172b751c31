import { stopSignal } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { uiMessageHandler } from 'millrace/ui';
import support from '../agent';

const taskStateStore = new LmdbStateStore({ path: '.millrace' });
// Aborted by Ctrl-C and SIGTERM: the next process resumes the turns. Next.js ends this one.
const agent = support.with({ taskStateStore, shutdown: stopSignal() });

// Everybody is one user here: return the id of the user whose session you have verified.
export const chat = uiMessageHandler({ agent, scopeOf: () => 'demo', tools: 'full' });
