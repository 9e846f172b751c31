import { AgentLoopError, type Clock, shownValue } from '../../core/contracts/index.ts';
import { ShelvedArtifactStore } from '../artifacts/shelved-artifact-store.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import { assertPrefix, assertTimeToLive } from './check-options.ts';
import { RedisArtifactShelf, type RedisVersion } from './redis-artifact-shelf.ts';
import type { RedisTarget } from './redis-client.ts';
import type { RedisDraft } from './redis-draft.ts';
import { StoreConnection } from './store-connection.ts';

export interface RedisArtifactStoreOptions {
  /** A URL, options of ioredis, or a client, which stays the caller's: as in `RedisStateStoreOptions`. */
  readonly redis: RedisTarget;
  /** Seconds that an artifact is kept, all versions alike, after it was changed last; null keeps it. Default 86,400. */
  readonly ttl?: number | null | undefined;
  /** What all keys begin with. Default `millrace`. May be that of other Redis stores. */
  readonly prefix?: string | undefined;
  /** How many bytes one content may have. Default 64 MiB. */
  readonly maxBytes?: number | undefined;
  /** How many versions of an artifact are kept; the oldest go first. Default 10. */
  readonly keepVersions?: number | undefined;
  /** Of `createdAt` and `updatedAt`; replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const optionNames: OptionNames<RedisArtifactStoreOptions> = {
  redis: true,
  ttl: true,
  prefix: true,
  maxBytes: true,
  keepVersions: true,
  clock: true,
};

/**
 * Keeps artifacts in Redis 7 or newer: one server, Sentinel's primary, or a cluster. For what fits into its memory; large ones belong
 * into a folder or S3.
 *
 * A content is written in chunks of 256 KiB under a key of its own, then one script names it as a version: whole or not at all, and once
 * also where the connection breaks and the client sends it again. `read` compares content and hash. Nothing is connected before the first
 * call. The lists of artifacts are indexes that are repaired, not atomic with them. A draft that nobody writes to expires after a day.
 *
 * Errors besides the contract's: `INVALID_CONFIG` at construction; `UNAVAILABLE` and `FULL` as in `RedisMessageStore`, and `FULL` for a
 * content beyond `maxBytes`.
 *
 * Memory in this process: a chunk a draft and a reader; contents only in `get`, `create` and `update`.
 */
export class RedisArtifactStore extends ShelvedArtifactStore<RedisVersion, RedisDraft> {
  readonly #connection: StoreConnection;

  constructor(options: RedisArtifactStoreOptions) {
    assertKnownOptions('RedisArtifactStore', options, optionNames);
    const { redis, ttl = 86_400, prefix = 'millrace', maxBytes = 64 * 1024 * 1024 } = options;
    assertTimeToLive('ttl', ttl);
    assertPrefix(prefix);
    if (!(maxBytes >= 1)) {
      const message = `maxBytes is ${shownValue(maxBytes)}; give a number of bytes from 1, or leave it out.`;
      throw new AgentLoopError('INVALID_CONFIG', message);
    }
    const connection = new StoreConnection('RedisArtifactStore', redis);
    super(new RedisArtifactShelf(connection, { prefix, seconds: ttl ?? -1, maxBytes }), options);
    this.#connection = connection;
  }

  /** Ends the connection that this store made, and refuses further calls. Again: does nothing. */
  async close(): Promise<void> {
    await this.#connection.close();
  }
}
