import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** Stands between clients and a server on the loopback interface. How bytes pass is said by the class that extends it. */
export abstract class LoopbackProxy {
  protected targetPort: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  protected constructor(targetPort: number) {
    this.targetPort = targetPort;
    this.#server = createServer({ noDelay: true }, (client) => this.#accept(client));
  }

  /** Joins two connections that break together. */
  protected abstract join(client: Socket, server: Socket): void;

  /** Takes connections from now on, on a free port. */
  protected async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  get url(): string {
    const address = this.#server.address();
    return `redis://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  }

  /** Breaks the connections there are. */
  protected breakAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.breakAll();
    const closed = once(this.#server, 'close');
    this.#server.close();
    await closed;
  }

  #accept(client: Socket): void {
    const server = connect({ port: this.targetPort, host: '127.0.0.1', noDelay: true });
    this.#track(client, server);
    this.#track(server, client);
    this.join(client, server);
  }

  #track(socket: Socket, other: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#sockets.delete(socket);
      other.destroy();
    });
  }
}
