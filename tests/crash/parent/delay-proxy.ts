import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../random.ts';

export interface Delays {
  readonly random: Random;
  /** The longest way, each. Milliseconds. */
  readonly delayMs: number;
  /** How likely the connection breaks in place of a reply. */
  readonly loss: number;
}

/** A slow road between one client and a server on the loopback interface: what is sent first arrives first, some milliseconds later. */
export class DelayProxy {
  readonly #server: Server;
  readonly #delays: Delays;
  readonly #sockets = new Set<Socket>();

  private constructor(targetPort: number, delays: Delays) {
    this.#delays = delays;
    this.#server = createServer({ noDelay: true }, (client) =>
      this.#join(client, connect({ port: targetPort, host: '127.0.0.1', noDelay: true })),
    );
  }

  static async start(targetPort: number, delays: Delays): Promise<DelayProxy> {
    const proxy = new DelayProxy(targetPort, delays);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get url(): string {
    const address = this.#server.address();
    return `redis://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    const closed = once(this.#server, 'close');
    this.#server.close();
    await closed;
  }

  #join(client: Socket, server: Socket): void {
    const { random, loss } = this.#delays;
    this.#lead(client, server, () => true);
    this.#lead(server, client, () => !random.chance(loss));
  }

  #lead(from: Socket, to: Socket, mayPass: () => boolean): void {
    const { random, delayMs } = this.#delays;
    this.#sockets.add(from);
    // Timers of different lengths do not keep their order, so each chunk waits for the one before it.
    let before = Promise.resolve();
    from.on('data', (chunk) => {
      if (!mayPass()) return void from.destroy();
      const own = sleep(random.int(0, delayMs));
      before = Promise.all([before, own]).then(() => {
        if (to.writable) to.write(chunk);
      });
    });
    from.on('error', () => {});
    from.on('close', () => {
      this.#sockets.delete(from);
      to.destroy();
    });
  }
}
