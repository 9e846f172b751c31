import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, createServer as createListener, type Server, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from '@jest/globals';
import { httpTransport, loadClientSdk } from 'millrace/internals';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/**
 * A server whose connections end, once `endIdle` was called, with the first byte of their next request: it has closed them before it could know of the request. Notes
 * the methods that it was asked. `all`: new connections end so, too.
 */
async function endingServer() {
  const asked: string[] = [];
  const server = createServer(async (request, response) => {
    const { id, method } = JSON.parse(await text(request));
    asked.push(method);
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result: {} }));
  });
  const port = await portOf(server);
  const sockets = new Set<Socket>();
  const ending = new Set<Socket>();
  let ended = 0;
  let isAll = false;
  const front = createListener((socket) => {
    sockets.add(socket);
    if (isAll) ending.add(socket);
    const behind = connect(port, '127.0.0.1');
    behind.on('error', () => {}).pipe(socket);
    socket.on('error', () => {}).once('close', () => behind.destroy());
    socket.on('data', (bytes) => {
      if (!ending.has(socket)) return behind.write(bytes);
      ended++;
      return socket.resetAndDestroy();
    });
  });
  const url = `http://127.0.0.1:${await portOf(front)}/mcp`;
  closing.push(async () => {
    for (const socket of sockets) socket.destroy();
    front.close();
    server.closeAllConnections();
    server.close();
    await Promise.all([once(front, 'close'), once(server, 'close')]);
  });
  const endIdle = ({ all = false } = {}) => {
    for (const socket of sockets) ending.add(socket);
    isAll = all;
  };
  return { url, asked, endIdle, ended: () => ended };
}

type EndingServer = Awaited<ReturnType<typeof endingServer>>;

/** A function that sends requests to a server, over a connection that has brought one. */
async function senderTo({ url }: EndingServer): Promise<(method: string) => Promise<void>> {
  const ignore = () => {};
  const transport = httpTransport({
    sdk: await loadClientSdk(),
    server: { url },
    onHeaders: ignore,
    onFlaw: ignore,
    onStreamEnd: ignore,
  });
  await transport.start();
  closing.push(() => transport.close());
  let id = 0;
  const send = (method: string) => transport.send({ jsonrpc: '2.0', id: ++id, method, params: { name: 'any' } });
  await send('ping');
  // The connection is free for another request in the next round of the event loop.
  await new Promise(setImmediate);
  return send;
}

describe('a connection that the server closes as a request leaves', () => {
  it.each(['tools/list', 'server/discover', 'ping', 'resources/list', 'resources/templates/list', 'prompts/list'])(
    'is replaced by another one for %s, which changes nothing',
    async (method) => {
      const server = await endingServer();
      const send = await senderTo(server);
      server.endIdle();
      await send(method);
      expect(server.asked).toEqual(['ping', method]);
      expect(server.ended()).toBe(1);
    },
  );

  it.each(['tools/call', 'initialize'])('fails %s, which may have been read', async (method) => {
    const server = await endingServer();
    const send = await senderTo(server);
    server.endIdle();
    await expect(send(method)).rejects.toMatchObject({ message: 'fetch failed' });
    expect(server.asked).toEqual(['ping']);
    expect(server.ended()).toBe(1);
  });

  it('is replaced once only', async () => {
    const server = await endingServer();
    const send = await senderTo(server);
    server.endIdle({ all: true });
    await expect(send('tools/list')).rejects.toMatchObject({ message: 'fetch failed' });
    expect(server.ended()).toBe(2);
  });
});
