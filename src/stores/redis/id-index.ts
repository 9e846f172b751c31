import { listOf } from './lua-scripts.ts';
import { type RedisClient, sendCommand } from './redis-connection.ts';

const sampleEvery = 32;
const sampleSize = 128;

/**
 * Which contexts or artifacts there are, in the order of their ids: one sorted set, not atomic with them. Those whose time ran out are
 * removed when a list meets them, and by a sample now and then, so that dead entries stay a fraction.
 */
export class IdIndex {
  readonly #client: RedisClient;
  readonly #key: string;
  #made = 0;

  constructor(client: RedisClient, key: string) {
    this.#client = client;
    this.#key = key;
  }

  async add(id: string): Promise<void> {
    await this.#send('zadd', 0, id);
  }

  async remove(id: string): Promise<void> {
    await this.#send('zrem', id);
  }

  /** The ids behind one, at most `size`. */
  async page(after: string, size: number): Promise<readonly string[]> {
    const start = after === '' ? '-' : `(${after}`;
    return listOf(await this.#send('zrangebylex', start, '+', 'LIMIT', 0, size)).map(String);
  }

  /** Called once for each new one: every 32nd time some ids by chance, to see whether they are still there; else none. */
  async sample(): Promise<readonly string[]> {
    if (++this.#made % sampleEvery !== 0) return [];
    return listOf(await this.#send('zrandmember', sampleSize)).map(String);
  }

  #send(name: string, ...args: readonly (string | number)[]): Promise<unknown> {
    return sendCommand(this.#client, name, this.#key, ...args);
  }
}
