import { createServer } from 'node:net';

/** Below the range of ports that the system gives out by itself, so that nobody is given it before a server of ours listens. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 10_000);
    // A node of a Redis cluster also listens 10,000 above.
    if ((await isFree(port)) && (await isFree(port + 10_000))) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
