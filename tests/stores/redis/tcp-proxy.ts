import type { Socket } from 'node:net';
import { LoopbackProxy } from './loopback-proxy.ts';

/** A way to a server that can lose what the server answers, and can lead to another one. */
export class TcpProxy extends LoopbackProxy {
  readonly #open = new Set<Socket>();
  readonly #silent = new WeakSet<Socket>();
  #losing: { readonly marker: string; readonly lost: () => void } | undefined;

  static start(targetPort: number): Promise<TcpProxy> {
    return new TcpProxy(targetPort).listen();
  }

  /** The next request that holds `marker` reaches the server, but its reply does not come back: the connection breaks instead. */
  loseReplyTo(marker: string): Promise<void> {
    return new Promise((resolve) => {
      this.#losing = { marker, lost: resolve };
    });
  }

  /** Breaks the connections there are; new ones go to another server, as behind a fail-over. */
  moveTo(targetPort: number): void {
    this.targetPort = targetPort;
    this.breakAll();
  }

  /** The connections there are stay open, and nothing comes through them any more; new ones work. */
  fallSilent(): void {
    for (const socket of this.#open) this.#silent.add(socket);
  }

  protected override join(client: Socket, server: Socket): void {
    this.#open.add(client);
    client.once('close', () => this.#open.delete(client));
    let onReply: (() => void) | undefined;
    client.on('data', (request) => {
      if (this.#silent.has(client)) return;
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
  }
}
