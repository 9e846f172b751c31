import { getRequestListener } from '@hono/node-server';
import express from 'express';
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

const app = express();
// Before express.json(): it reads the body itself.
app.all('/api/chat{/*path}', getRequestListener(chat));
app.get('/', getRequestListener(page));
const port = Number(process.env['PORT'] ?? 3000);
// Others may ask only once scopeOf tells users apart.
const server = app.listen(port, '127.0.0.1', () => console.log(`Open http://localhost:${port}`));

// Tools get time to finish, and the next process resumes the turns.
stopping.addEventListener('abort', async () => {
  chat.close();
  server.close();
  await agent.close();
  server.closeAllConnections();
  await store.close();
});
