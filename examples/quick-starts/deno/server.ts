import process from 'node:process';
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

const port = Number(process.env['PORT'] ?? 3000);
// Others may ask only once scopeOf tells users apart.
Deno.serve({ port, hostname: '127.0.0.1' }, (request) => {
  const { pathname } = new URL(request.url);
  if (pathname.startsWith('/api/chat')) return chat(request);
  return pathname === '/' ? page(request) : new Response(null, { status: 404 });
});

// Tools get time to finish, and the next process resumes the turns.
stopping.addEventListener('abort', async () => {
  chat.close();
  await agent.close();
  await store.close();
  Deno.exit();
});
