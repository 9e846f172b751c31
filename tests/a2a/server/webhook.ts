import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A receiver of notifications on the loopback. */
export class Webhook {
  readonly received: Received[] = [];
  /** What it answers; the next of them each time, then 200. */
  readonly answers: { status: number; headers?: Record<string, string> }[] = [];
  /** What it waits for before it answers. */
  before: (() => Promise<void>) | undefined;
  readonly #server: Server;
  #changed: (() => void) | undefined;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<Webhook> {
    const server = createServer();
    const hook = new Webhook(server);
    server.on('request', async (request, response) => {
      const body = await text(request);
      await hook.before?.();
      const { status, headers } = hook.answers.shift() ?? { status: 200 };
      response.writeHead(status, headers).end();
      hook.received.push({ headers: request.headers, body });
      hook.#changed?.();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return hook;
  }

  get url(): string {
    const address = this.#server.address();
    return `http://127.0.0.1:${isAddress(address) ? address.port : 0}/hook`;
  }

  /** Resolves once what was received is so. */
  async until(isSo: (received: readonly Received[]) => boolean): Promise<void> {
    while (!isSo(this.received)) {
      await new Promise<void>((resolve) => {
        this.#changed = resolve;
      });
    }
  }

  async close(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

function isAddress(address: unknown): address is AddressInfo {
  return typeof address === 'object' && address !== null;
}
