import { readFileSync } from 'node:fs';
import process from 'node:process';
import { LmdbStateStore } from 'millrace/lmdb';
import { uiMessageHandler } from 'millrace/ui';
import support from './agent.ts';

const store = new LmdbStateStore({ path: '.millrace' });
const stopping = new AbortController();
const agent = support.with({ taskStateStore: store, shutdown: stopping.signal });

// Everybody is one user here: return the id of the user whose session you have verified.
const chat = uiMessageHandler({ agent, scopeOf: () => 'demo', tools: 'full' });
const page = readFileSync(new URL('page.html', import.meta.url));

const port = Number(process.env['PORT'] ?? 3000);
// Others may ask only once scopeOf tells users apart.
Deno.serve({ port, hostname: '127.0.0.1' }, (request) => {
  const { pathname } = new URL(request.url);
  if (pathname.startsWith('/api/chat')) return chat(request);
  if (pathname === '/') return new Response(page, { headers: { 'content-type': 'text/html' } });
  return new Response(null, { status: 404 });
});

// Tools get time to finish, and the next process resumes the turns.
Deno.addSignalListener('SIGTERM', async () => {
  stopping.abort();
  chat.close();
  await agent.close();
  await store.close();
  Deno.exit();
});
