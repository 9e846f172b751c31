import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { LmdbStateStore } from 'millrace/lmdb';
import { uiMessageHandler } from 'millrace/ui';
import support from './agent.ts';

const store = new LmdbStateStore({ path: '.millrace' });
const stopping = new AbortController();
const agent = support.with({ taskStateStore: store, shutdown: stopping.signal });

// Everybody is one user here: return the id of the user whose session you have verified.
const chat = uiMessageHandler({ agent, scopeOf: () => 'demo', tools: 'full' });
const page = readFileSync(new URL('page.html', import.meta.url));

const answerChat = getRequestListener(chat);
const server = createServer((request, response) => {
  if (request.url?.startsWith('/api/chat')) return answerChat(request, response);
  if (request.url === '/') return response.setHeader('content-type', 'text/html').end(page);
  response.writeHead(404).end();
});
const port = Number(process.env['PORT'] ?? 3000);
// Others may ask only once scopeOf tells users apart.
server.listen(port, '127.0.0.1', () => console.log(`Open http://localhost:${port}`));

// Tools get time to finish, and the next process resumes the turns.
process.once('SIGTERM', async () => {
  stopping.abort();
  chat.close();
  server.close();
  await agent.close();
  server.closeAllConnections();
  await store.close();
});
