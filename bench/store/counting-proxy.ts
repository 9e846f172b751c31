import type { Socket } from 'node:net';
import { LoopbackProxy } from '../../tests/stores/redis/loopback-proxy.ts';

/** Stands between a client and Redis: counts what is sent, and can make the way longer. */
export class CountingProxy extends LoopbackProxy {
  /** Bytes from clients to Redis. */
  sent = 0;
  readonly #delayMs: number;

  private constructor(targetPort: number, delayMs: number) {
    super(targetPort);
    this.#delayMs = delayMs;
  }

  /** `delayMs`: of each way. */
  static start(targetPort: number, delayMs = 0): Promise<CountingProxy> {
    return new CountingProxy(targetPort, delayMs).listen();
  }

  protected override join(client: Socket, redis: Socket): void {
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
