import { assertRedisTarget } from './check-options.ts';
import {
  closeClient,
  type OpenClient,
  type OpenOptions,
  openClient,
  type RedisClient,
  type RedisTarget,
} from './redis-client.ts';
import { storeClosed } from './redis-errors.ts';

/** What a store is connected by, until it is closed. */
export class StoreConnection {
  readonly #store: string;
  readonly #open: OpenClient;
  #closed = false;

  /** `store` is its name, for errors. Errors: `INVALID_CONFIG`. */
  constructor(store: string, target: RedisTarget, options?: OpenOptions) {
    assertRedisTarget(target);
    this.#store = store;
    this.#open = openClient(target, options);
  }

  get client(): RedisClient {
    return this.#open.client;
  }

  /** Errors: `UNAVAILABLE` after `close`. */
  assertOpen(): void {
    if (this.#closed) throw storeClosed(this.#store);
  }

  /** Ends the connection that the store made. Again: does nothing. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await closeClient(this.#open);
  }
}
