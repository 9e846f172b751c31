import { getRequestListener } from '@hono/node-server';
import fastify from 'fastify';
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

const app = fastify({ forceCloseConnections: true });
app.register(async (scope) => {
  // They read the body themselves.
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('*', (_request, _body, done) => done(null));
  for (const [path, handler] of Object.entries({ '/': page, '/api/chat': chat, '/api/chat/*': chat })) {
    const answer = getRequestListener(handler);
    scope.all(path, (request, reply) => {
      reply.hijack();
      return answer(request.raw, reply.raw);
    });
  }
});
const port = Number(process.env['PORT'] ?? 3000);
// Others may ask only once scopeOf tells users apart.
console.log(`Open ${await app.listen({ port, host: '127.0.0.1' })}`);

// Tools get time to finish, and the next process resumes the turns.
stopping.addEventListener('abort', async () => {
  chat.close();
  await agent.close();
  await app.close();
  await store.close();
});
