import { readFileSync } from 'node:fs';
import { getRequestListener } from '@hono/node-server';
import fastify from 'fastify';
import { LmdbStateStore } from 'millrace/lmdb';
import { uiMessageHandler } from 'millrace/ui';
import support from './agent.ts';

const store = new LmdbStateStore({ path: '.millrace' });
const stopping = new AbortController();
const agent = support.with({ taskStateStore: store, shutdown: stopping.signal });

// Everybody is one user here: return the id of the user whose session you have verified.
const chat = uiMessageHandler({ agent, scopeOf: () => 'demo', tools: 'full' });
const page = readFileSync(new URL('page.html', import.meta.url));

const app = fastify({ forceCloseConnections: true });
app.register(async (scope) => {
  const answerChat = getRequestListener(chat);
  // It reads the body itself.
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('*', (_request, _body, done) => done(null));
  for (const path of ['/api/chat', '/api/chat/*'])
    scope.all(path, (request, reply) => {
      reply.hijack();
      return answerChat(request.raw, reply.raw);
    });
});
app.get('/', (_request, reply) => reply.type('text/html').send(page));
const port = Number(process.env['PORT'] ?? 3000);
// Others may ask only once scopeOf tells users apart.
console.log(`Open ${await app.listen({ port, host: '127.0.0.1' })}`);

// Tools get time to finish, and the next process resumes the turns.
process.once('SIGTERM', async () => {
  stopping.abort();
  chat.close();
  await agent.close();
  await app.close();
  await store.close();
});
