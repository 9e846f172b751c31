import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { LoopbackProxy } from '../../stores/redis/loopback-proxy.ts';
import type { Random } from '../random.ts';

export interface Delays {
  readonly random: Random;
  /** The longest way, each. Milliseconds. */
  readonly delayMs: number;
  /** How likely the connection breaks in place of a reply. */
  readonly loss: number;
}

/** A slow road between one client and a server: what is sent first arrives first, some milliseconds later. */
export class DelayProxy extends LoopbackProxy {
  readonly #delays: Delays;

  private constructor(targetPort: number, delays: Delays) {
    super(targetPort);
    this.#delays = delays;
  }

  static start(targetPort: number, delays: Delays): Promise<DelayProxy> {
    return new DelayProxy(targetPort, delays).listen();
  }

  protected override join(client: Socket, server: Socket): void {
    const { random, loss } = this.#delays;
    this.#lead(client, server, () => true);
    this.#lead(server, client, () => !random.chance(loss));
  }

  #lead(from: Socket, to: Socket, mayPass: () => boolean): void {
    const { random, delayMs } = this.#delays;
    // Timers of different lengths do not keep their order, so each chunk waits for the one before it.
    let before = Promise.resolve();
    from.on('data', (chunk) => {
      if (!mayPass()) return void from.destroy();
      const own = sleep(random.int(0, delayMs));
      before = Promise.all([before, own]).then(() => {
        if (to.writable) to.write(chunk);
      });
    });
  }
}
