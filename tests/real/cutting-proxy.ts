import type { Socket } from 'node:net';
import { LoopbackProxy } from '../stores/redis/loopback-proxy.ts';

/** A way to a server that breaks in the middle of an answer, as often as it is told to. */
export class CuttingProxy extends LoopbackProxy {
  /** How many connections broke. */
  cuts = 0;
  #after = Number.POSITIVE_INFINITY;
  #times = 0;

  static start(targetPort: number): Promise<CuttingProxy> {
    return new CuttingProxy(targetPort).listen();
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** The next connections break once so many bytes of answers have come through them. */
  cut({ after, times }: { readonly after: number; readonly times: number }): void {
    this.#after = after;
    this.#times = times;
    this.breakAll();
  }

  protected override join(client: Socket, server: Socket): void {
    let passed = 0;
    client.on('data', (chunk) => server.write(chunk));
    server.on('data', (chunk) => {
      passed += chunk.length;
      if (passed <= this.#after || this.#times === 0) {
        if (!client.write(chunk)) server.pause();
        return;
      }
      this.#times--;
      this.cuts++;
      client.destroy();
    });
    client.on('drain', () => server.resume());
  }
}
