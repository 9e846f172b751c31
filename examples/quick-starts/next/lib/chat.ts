import { LmdbStateStore } from 'millrace/lmdb';
import { uiMessageHandler } from 'millrace/ui';
import support from '../agent';

const taskStateStore = new LmdbStateStore({ path: '.millrace' });
const stopping = new AbortController();
const agent = support.with({ taskStateStore, shutdown: stopping.signal });

// Everybody is one user here: return the id of the user whose session you have verified.
export const chat = uiMessageHandler({ agent, scopeOf: () => 'demo', tools: 'full' });

// The next process resumes the turns; Next.js ends this one.
process.once('SIGTERM', () => stopping.abort());
