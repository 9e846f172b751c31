import type { Cluster, Redis } from 'ioredis';
import { BlockingReader, type StreamWatch } from './blocking-reader.ts';
import { command, disconnectTimeout, isCluster, type RedisClient } from './redis-client.ts';

/** How long readers wait for Redis to come back before they receive an error. */
const patienceMs = 30_000;

/** The reader's own connection: never reconnected by ioredis, since its reads begin anew where the server may be another. */
const readingOptions = {
  lazyConnect: true,
  disconnectTimeout,
  protocol: 2,
  retryStrategy: null,
  maxRetriesPerRequest: null,
  // A blocking read has a limit of its own.
  commandTimeout: undefined,
  socketTimeout: undefined,
} as const;

/**
 * Blocking reads, each on a connection of the store's own. On one server all watches share one; in a cluster each has one to the node
 * that its task is on.
 */
export class StreamReaders {
  readonly #client: RedisClient;
  readonly #open = new Set<BlockingReader>();

  constructor(client: RedisClient) {
    this.#client = client;
    if (!isCluster(client)) this.#open.add(sharedReader(client));
  }

  /** `head` is the key of the task that the watch is about. Answers with the function that leaves. */
  watch(head: string, watch: StreamWatch): () => void {
    if (!isCluster(this.#client)) {
      const [shared] = this.#open;
      return shared?.join(watch) ?? (() => {});
    }
    const reader = nodeReader(this.#client, head);
    this.#open.add(reader);
    reader.join(watch);
    return () => {
      reader.close();
      this.#open.delete(reader);
    };
  }

  close(): void {
    for (const reader of this.#open) reader.close();
    this.#open.clear();
  }
}

function sharedReader(client: Redis): BlockingReader {
  return new BlockingReader({
    connect: async () => ({ reading: client.duplicate(readingOptions), beside: client }),
    patienceMs,
  });
}

function nodeReader(cluster: Cluster, head: string): BlockingReader {
  return new BlockingReader({
    connect: async () => {
      const node = await nodeOf(cluster, head);
      return { reading: node.duplicate(readingOptions), beside: node };
    },
    patienceMs,
  });
}

/** The primary that a key is on. Asking the key first lets the client learn where that is by now. */
async function nodeOf(cluster: Cluster, key: string): Promise<Redis> {
  await command(cluster, 'exists', key);
  const slot = Number(await command(cluster, 'cluster', 'KEYSLOT', key));
  const address = cluster.slots[slot]?.[0];
  const node = cluster.nodes('master').find(({ options: { host, port } }) => `${host}:${port}` === address);
  if (node === undefined) throw new Error(`no node of the cluster has slot ${slot}`);
  return node;
}
