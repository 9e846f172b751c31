import type { Cluster, Redis } from 'ioredis';
import { type AgentLoopError, backgroundClock, systemClock } from '../../core/contracts/index.ts';
import { after, Backoff, pause, Timer } from '../../core/streams/index.ts';
import { entriesOf, listOf, type StreamEntry } from './lua-scripts.ts';
import { command, disconnectTimeout, isCluster, type RedisClient, redisError } from './redis-connection.ts';

/** How long readers wait for Redis to come back before they receive an error. */
const patienceMs = 30_000;

/** The reader's own connection: never reconnected by ioredis, since its reads start over if the server is another one. */
const readingOptions = {
  lazyConnect: true,
  disconnectTimeout,
  protocol: 2,
  retryStrategy: null,
  maxRetriesPerRequest: null,
  // A blocking read has its own limit.
  commandTimeout: undefined,
  socketTimeout: undefined,
} as const;

/**
 * Blocking reads on separate connections. On one server all watches share one; in a cluster each has one to the node
 * of its task.
 */
export class StreamReaders {
  readonly #client: RedisClient;
  readonly #open = new Set<BlockingReader>();

  constructor(client: RedisClient) {
    this.#client = client;
    if (!isCluster(client)) this.#open.add(sharedReader(client));
  }

  /** `head`: the key of the watched task's head. Returns a function that ends the watch. */
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

/** The primary of a key. A command for the key first lets the client learn its current node. */
async function nodeOf(cluster: Cluster, key: string): Promise<Redis> {
  await command(cluster, 'exists', key);
  const slot = Number(await command(cluster, 'cluster', 'KEYSLOT', key));
  const address = cluster.slots[slot]?.[0];
  const node = cluster.nodes('master').find(({ options: { host, port } }) => `${host}:${port}` === address);
  if (node === undefined) throw new Error(`no node of the cluster has slot ${slot}`);
  return node;
}

/** A reader that waits for new entries of streams. Its methods must not throw. */
export interface StreamWatch {
  /** At least one stream, each with the id after which to read. Called before every read. */
  positions(): readonly (readonly [key: string, id: string])[];
  /** New entries by stream, from one read, so consistent. May include known ones. */
  take(entries: ReadonlyMap<string, readonly StreamEntry[]>): void;
  /** Called every other second, and after a loss of the connection: checks that the emitted entries still exist. */
  verify(): void;
  /** Redis has not responded for `patienceMs`. The watch continues until it is closed. */
  lost(error: AgentLoopError): void;
}

interface BlockingReaderOptions {
  /** Opens the connection for the blocking reads, and names a client that reaches the same server. */
  connect(): Promise<{ readonly reading: Redis; readonly beside: Redis }>;
  readonly patienceMs: number;
}

const blockMs = 2_000;

/** A read that takes longer than this has lost its connection. */
const deadMs = 10_000;
const batchSize = 500;
const lingerMs = 1_000;
const firstPauseMs = 50;
const lastPauseMs = 1_000;

interface Connection {
  readonly reading: Redis;
  readonly beside: Redis;
  readonly clientId: number;
}

/**
 * Waits for new entries of many streams with one blocking read on its own connection. The connection is opened for the first
 * watch, and closed a second after the last. A lost one is reopened while there are watches.
 */
class BlockingReader {
  readonly #options: BlockingReaderOptions;
  readonly #watches = new Set<StreamWatch>();
  /** The client of the blocking reads, also while it connects. */
  #reading: Redis | undefined;
  #connection: Connection | undefined;
  #running = false;
  #closed = false;
  /** Counts the blocking reads; which one is waiting, if any. */
  #reads = 0;
  #waiting = false;
  #interrupted = 0;
  #verifiedAt = performance.now();
  #reconnected = false;
  #answeredAt = performance.now();
  readonly #pauses = new Backoff(firstPauseMs, lastPauseMs);
  #pausing: AbortController | undefined;
  readonly #linger = new Timer(backgroundClock);

  constructor(options: BlockingReaderOptions) {
    this.#options = options;
  }

  /** Returns a function that ends the watch. */
  join(watch: StreamWatch): () => void {
    this.#watches.add(watch);
    this.#linger.stop();
    if (!this.#running) void this.#run();
    else if (this.#waiting) void this.#interrupt();
    return () => this.#leave(watch);
  }

  /** Closes the connection, which ends the blocking read. */
  close(): void {
    this.#closed = true;
    this.#watches.clear();
    this.#linger.close();
    this.#pausing?.abort();
    this.#drop();
  }

  #leave(watch: StreamWatch): void {
    this.#watches.delete(watch);
    if (this.#watches.size > 0 || this.#closed) return;
    this.#pausing?.abort();
    this.#linger.set(lingerMs, () => this.#drop());
  }

  async #run(): Promise<void> {
    this.#running = true;
    this.#answeredAt = performance.now();
    while (this.#watches.size > 0) {
      try {
        await this.#read();
        this.#pauses.reset();
      } catch (error) {
        this.#drop();
        if (this.#watches.size > 0) await this.#pause(error);
      }
    }
    this.#running = false;
  }

  async #read(): Promise<void> {
    this.#connection ??= await this.#open();
    const { reading } = this.#connection;
    if (this.#reconnected) this.#verify();
    const asking = [...this.#watches];
    const positions = positionsOf(asking);
    const from = [...positions.keys(), ...positions.values()];
    const stop = after(deadMs, backgroundClock, () => reading.disconnect());
    this.#reads++;
    this.#waiting = true;
    try {
      const reply = await reading.call('xread', 'COUNT', batchSize, 'BLOCK', blockMs, 'STREAMS', ...from);
      this.#answeredAt = performance.now();
      this.#show(asking, reply);
    } finally {
      this.#waiting = false;
      stop();
    }
  }

  /** A watch that joined after the read began needs other ids, and gets nothing from it. */
  #show(asking: readonly StreamWatch[], reply: unknown): void {
    const entries = new Map(
      listOf(reply).map((stream): [string, readonly StreamEntry[]] => {
        const [key, found] = listOf(stream);
        return [String(key), entriesOf(found)];
      }),
    );
    if (entries.size > 0) for (const watch of asking) if (this.#watches.has(watch)) watch.take(entries);
    if (performance.now() - this.#verifiedAt >= blockMs) this.#verify();
  }

  #verify(): void {
    this.#reconnected = false;
    this.#verifiedAt = performance.now();
    for (const watch of this.#watches) watch.verify();
  }

  async #open(): Promise<Connection> {
    const { reading, beside } = await this.#options.connect();
    reading.on('error', () => {});
    this.#reading = reading;
    if (this.#watches.size === 0) throw new Error('nobody waits any more');
    await reading.connect();
    return { reading, beside, clientId: await reading.client('ID') };
  }

  /** Ends a blocking read without the newest watch, as soon as Redis has received it. */
  async #interrupt(): Promise<void> {
    const read = this.#reads;
    if (this.#interrupted === read) return;
    this.#interrupted = read;
    while (this.#waiting && this.#reads === read && this.#connection !== undefined) {
      const { beside, clientId } = this.#connection;
      // Refused to this user, or not reached: the read ends by itself soon.
      const woken = await beside.client('UNBLOCK', clientId).catch(() => 1);
      if (Number(woken) === 1) return;
      await pause(1, systemClock);
    }
  }

  async #pause(error: unknown): Promise<void> {
    const failure = redisError(error);
    if (performance.now() - this.#answeredAt >= this.#options.patienceMs) {
      for (const watch of this.#watches) watch.lost(failure);
    }
    this.#pausing = new AbortController();
    await pause(this.#pauses.next(), systemClock, this.#pausing.signal);
    // Emitted entries may be lost with their server.
    this.#reconnected = true;
  }

  #drop(): void {
    this.#reading?.disconnect();
    this.#reading = undefined;
    this.#connection = undefined;
  }
}

/** If several watches read one stream, the smallest id counts. */
function positionsOf(watches: readonly StreamWatch[]): ReadonlyMap<string, string> {
  const positions = new Map<string, string>();
  for (const [key, id] of watches.flatMap((watch) => watch.positions())) {
    const other = positions.get(key);
    if (other === undefined || comesBefore(id, other)) positions.set(key, id);
  }
  return positions;
}

/** Whether one id of a stream precedes another. */
export function comesBefore(one: string, other: string): boolean {
  const [oneFirst = 0, oneSecond = 0] = one.split('-').map(Number);
  const [otherFirst = 0, otherSecond = 0] = other.split('-').map(Number);
  return oneFirst === otherFirst ? oneSecond < otherSecond : oneFirst < otherFirst;
}
