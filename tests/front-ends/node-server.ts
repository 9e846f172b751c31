import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

/** Answers a request of `node:http` with a `fetch` handler, as frameworks do: what the client leaves is cancelled. */
export async function answer(
  handler: (request: Request) => Response | Promise<Response>,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const { method = 'GET', url = '/', headers } = incoming;
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk);
  const body = chunks.length > 0 ? { body: Buffer.concat(chunks) } : {};
  const given = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    typeof value === 'string' ? [[name, value]] : [],
  );
  const response = await handler(new Request(new URL(url, 'http://127.0.0.1'), { method, headers: given, ...body }));
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.flushHeaders();
  const reader = response.body?.getReader();
  outgoing.once('close', () => void reader?.cancel().catch(() => {}));
  for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
    if (!outgoing.write(next.value)) await Promise.race([once(outgoing, 'drain'), once(outgoing, 'close')]);
  }
  outgoing.end();
}

export async function listening(server: Server, port = 0): Promise<string> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('The server has no address.');
  return `http://127.0.0.1:${address.port}`;
}

export function serverOf(handler: (request: Request) => Response | Promise<Response>): Server {
  return createServer((incoming, outgoing) => {
    answer(handler, incoming, outgoing).catch(() => outgoing.destroy());
  });
}
