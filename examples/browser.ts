import { once } from 'node:events';
import { createServer } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { agent, InMemoryStateStore } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { startModelServer } from 'millrace/testing';
import { respondWithSSE } from 'millrace/ui';

const model = await startModelServer();
const assistant = agent({
  id: 'assistant',
  provider: new LiteLLMProvider({ baseUrl: model.baseUrl, model: 'demo' }),
  taskStateStore: new InMemoryStateStore(),
});

// What an EventSource reads: it sends the id of the last event that it has when it reconnects.
const server = createServer(async ({ headers: asked }, response) => {
  const from = asked['last-event-id'];
  try {
    const open = () =>
      typeof from === 'string'
        ? assistant.observe('task-1', { from, recover: {} })
        : assistant.startTurn('Hello', { taskId: 'task-1', detached: true });
    const { status, headers, body } = await respondWithSSE(open, typeof from === 'string' ? { from } : {});
    response.writeHead(status, Object.fromEntries(headers));
    await pipeline(body ?? [], response);
  } catch {
    // A client that left in the middle has its headers.
    if (!response.headersSent) response.writeHead(500).end();
  }
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const address = server.address();
const url = typeof address === 'object' ? `http://127.0.0.1:${address?.port}/` : '';

const first = await (await fetch(url)).text();
console.log(first);
const [, id = ''] = /^id: (.*)$/m.exec(first) ?? [];
const again = await (await fetch(url, { headers: { 'last-event-id': id } })).text();
console.log(`after ${id}: ${again.split('\n\n').length - 1} of ${first.split('\n\n').length - 1} events`);

server.close();
await model.close();
