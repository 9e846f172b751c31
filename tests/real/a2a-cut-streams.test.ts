import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, it } from '@jest/globals';
import { remoteAgent } from 'millrace/a2a';
import { type Json, pageOf, wireStatus, wireSubmitted, wireTask, wireText } from '../a2a/client/wire-server.ts';
import { textsOf, watch } from '../core/watch-events.ts';

const updates = [
  wireSubmitted,
  wireStatus('WORKING'),
  wireText('Öne ', false),
  wireText('two.'),
  wireStatus('COMPLETED'),
];
const eventsOf = (id: unknown) =>
  Buffer.from(updates.map((result) => `data: ${JSON.stringify({ jsonrpc: '2.0', id, result })}\n\n`).join(''));

/** How a turn ends whose stream is cut after so many bytes. */
async function endOf(cut: number): Promise<Json> {
  let sent = 0;
  const server = createServer(async (request, response) => {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const answer = (json: object) => response.setHeader('content-type', 'application/json').end(JSON.stringify(json));
    const supportedInterfaces = [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }];
    const card = { name: 'Wire', description: 'Cuts.', version: '1', supportedInterfaces };
    if (request.method === 'GET') return answer({ ...card, capabilities: { streaming: true } });
    const { id, method } = JSON.parse(await text(request));
    const results: Json = { ListTasks: pageOf(), GetTask: wireTask('COMPLETED', ['Öne two.']) };
    if (method !== 'SendStreamingMessage') return answer({ jsonrpc: '2.0', id, result: results[method] });
    sent++;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(eventsOf(1).subarray(0, cut), () => setImmediate(() => request.socket.destroy()));
    return undefined;
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const far = await remoteAgent({ url, name: 'far', description: 'Far.', silenceMs: 100 });
    const turn = far.startTurn('Go.');
    const reader = watch(turn);
    const result = await turn.result().catch(({ code }) => ({ text: code }));
    return { text: result.text, shown: Object.values(textsOf(reader.events)), sent };
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

it('a stream that is cut at any byte gives the whole text once, or no text', async () => {
  const whole = { text: 'Öne two.', shown: ['Öne two.'], sent: 1 };
  // Nobody knows the task before the first event is there, and the server does not know its message.
  const none = { text: 'PROVIDER_STREAM_CLOSED', shown: [], sent: 1 };
  const { length } = eventsOf(1);
  const known = eventsOf(1).indexOf('\n\n') + 2;
  for (let from = 0; from <= length; from += 32) {
    const cuts = Array.from({ length: Math.min(32, length + 1 - from) }, (_, index) => from + index);
    const ends = await Promise.all(cuts.map(endOf));
    expect(cuts.map((cut, index) => [cut, ends[index]])).toEqual(cuts.map((cut) => [cut, cut < known ? none : whole]));
  }
});
