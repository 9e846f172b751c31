import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** Stands between a client and a server on the loopback interface, and can lose what the server answers. */
export class TcpProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #losing: { readonly marker: string; readonly lost: () => void } | undefined;

  #targetPort: number;

  private constructor(targetPort: number) {
    this.#targetPort = targetPort;
    this.#server = createServer((client) => this.#join(client, connect(this.#targetPort, '127.0.0.1')));
  }

  static async start(targetPort: number): Promise<TcpProxy> {
    const proxy = new TcpProxy(targetPort);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get url(): string {
    const address = this.#server.address();
    return `redis://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  }

  /** The next request that holds `marker` reaches the server, but its reply does not come back: the connection breaks instead. */
  loseReplyTo(marker: string): Promise<void> {
    return new Promise((resolve) => {
      this.#losing = { marker, lost: resolve };
    });
  }

  /** Breaks the connections there are; new ones go to another server, as behind a fail-over. */
  moveTo(targetPort: number): void {
    this.#targetPort = targetPort;
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    const closed = once(this.#server, 'close');
    this.#server.close();
    await closed;
  }

  #join(client: Socket, server: Socket): void {
    let onReply: (() => void) | undefined;
    client.on('data', (request) => {
      if (this.#losing !== undefined && request.includes(this.#losing.marker)) {
        onReply = this.#losing.lost;
        this.#losing = undefined;
      }
      server.write(request);
    });
    server.on('data', (reply) => {
      if (onReply === undefined) return void client.write(reply);
      client.destroy();
      onReply();
    });
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(one);
      one.on('error', () => {});
      one.on('close', () => {
        this.#sockets.delete(one);
        other.destroy();
      });
    }
  }
}
