import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** Stands between a client and Redis: counts what is sent, and can make the way longer. */
export class CountingProxy {
  /** Bytes from clients to Redis. */
  sent = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #delayMs: number;

  private constructor(targetPort: number, delayMs: number) {
    this.#delayMs = delayMs;
    this.#server = createServer((client) => this.#join(client, connect(targetPort, '127.0.0.1')));
  }

  /** `delayMs`: of each way. */
  static async start(targetPort: number, delayMs = 0): Promise<CountingProxy> {
    const proxy = new CountingProxy(targetPort, delayMs);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get url(): string {
    const address = this.#server.address();
    return `redis://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #join(client: Socket, redis: Socket): void {
    for (const socket of [client, redis]) {
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('close', () => {
        client.destroy();
        redis.destroy();
      });
      this.#sockets.add(socket);
    }
    client.on('data', (bytes) => {
      this.sent += bytes.length;
      this.#pass(redis, bytes);
    });
    redis.on('data', (bytes) => this.#pass(client, bytes));
  }

  #pass(to: Socket, bytes: Buffer): void {
    if (this.#delayMs === 0) to.write(bytes);
    else setTimeout(() => to.writable && to.write(bytes), this.#delayMs);
  }
}
