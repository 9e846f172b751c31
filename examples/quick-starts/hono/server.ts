import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { stopSignal } from 'millrace';
import { chatPage } from 'millrace/chat';
import { LmdbStateStore } from 'millrace/lmdb';
import { uiMessageHandler } from 'millrace/ui';
import support from './agent.ts';

const store = new LmdbStateStore({ path: '.millrace' });
// Aborted by Ctrl-C and SIGTERM. The second time the process ends at once.
const stopping = stopSignal();
const agent = support.with({ taskStateStore: store, shutdown: stopping });

// Everybody is one user here: return the id of the user whose session you have verified.
const chat = uiMessageHandler({ agent, scopeOf: () => 'demo', tools: 'full' });
const page = chatPage({ title: 'Support', suggestions: ['Refund order A-2, please.'] });

const app = new Hono();
app.all('/api/chat/*', ({ req }) => chat(req.raw));
app.get('/', ({ req }) => page(req.raw));
const port = Number(process.env['PORT'] ?? 3000);
// Others may ask only once scopeOf tells users apart.
const server = serve({ fetch: app.fetch, port, hostname: '127.0.0.1' });
console.log(`Open http://localhost:${port}`);

// Tools get time to finish, and the next process resumes the turns.
stopping.addEventListener('abort', async () => {
  chat.close();
  server.close();
  await agent.close();
  if ('closeAllConnections' in server) server.closeAllConnections();
  await store.close();
});
