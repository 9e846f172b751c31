import { backgroundClock, systemClock } from '../../core/contracts/index.ts';
import { settled, Timer } from '../../core/streams/index.ts';
import { goodbyeMs, type PostgresDatabase } from './postgres-database.ts';
import { openConnection, type PgClient, type PostgresTarget } from './postgres-target.ts';

/** What a reader follows: records and deltas of a task, or its commands. */
export type Feed = 'record' | 'command';

export interface WakeUpOptions {
  readonly database: PostgresDatabase;
  /** The target of the listening connection; false for none. */
  readonly listen: PostgresTarget | false;
}

/** How long notifications of one process are collected. */
const gatherMs = 20;
/** The poll interval with and without notifications. */
const [listeningPollMs, blindPollMs] = [1_000, 250];
/** NOTIFY accepts less than 8,000 bytes. */
const maxPayload = 7_000;
/** How long a connection without readers is kept. */
const idleMs = 2_000;

interface Reader {
  readonly taskId: string;
  readonly feed: Feed;
  readonly looks: Set<() => void>;
  /** What the last poll found. */
  seen: string | undefined;
}

interface Polled {
  readonly task_id: string;
  readonly record: string;
  readonly command: string;
}

/**
 * Wakes readers to poll their task: at once after a change of this store, through NOTIFY after a change of another process, and by a poll
 * in any case, one statement for all readers, each second with a listening connection and four times a second without one. Notifications of
 * 20 ms are one statement, separate from the changes: within an append they would serialize all commits of the database. A lost notification
 * costs time only.
 */
export class WakeUps {
  readonly #options: WakeUpOptions;
  readonly #channel: string;
  readonly #readers = new Map<string, Reader>();
  readonly #rung = new Set<string>();
  readonly #ringing = new Timer(backgroundClock);
  readonly #poll = new Timer(systemClock);
  #isPolling = false;
  #listener: PgClient | undefined;
  #isListening = false;
  readonly #idle = new Timer(backgroundClock);
  #isClosed = false;

  constructor(options: WakeUpOptions) {
    this.#options = options;
    this.#channel = `${options.database.schema}_tasks`;
  }

  /** Calls `look` from now on, until the returned function is called. */
  join(taskId: string, feed: Feed, look: () => void): () => void {
    const key = keyOf(feed, taskId);
    const reader = this.#readers.get(key) ?? { taskId, feed, looks: new Set(), seen: undefined };
    this.#readers.set(key, reader);
    reader.looks.add(look);
    this.#idle.stop();
    if (!this.#listener) this.#listen();
    this.#schedule();
    return () => {
      reader.looks.delete(look);
      if (reader.looks.size > 0 || this.#readers.get(key) !== reader) return;
      this.#readers.delete(key);
      if (this.#readers.size === 0) this.#rest();
    };
  }

  /** Notifies of a change of a task. */
  ring(taskId: string, feed: Feed): void {
    const key = keyOf(feed, taskId);
    this.#wake(key);
    if (this.#isClosed) return;
    this.#rung.add(key);
    if (!this.#ringing.isSet) this.#ringing.set(gatherMs, () => void this.#notify());
  }

  /** `shut` closes the database; readers poll once more then, and find that out. */
  async close(shut: () => Promise<void>): Promise<void> {
    await this.#notify();
    this.#isClosed = true;
    const closed = shut();
    this.#wakeAll();
    this.#readers.clear();
    this.#rest();
    this.#idle.close();
    await Promise.all([closed, this.#hangUp()]);
  }

  #wake(key: string): void {
    for (const look of [...(this.#readers.get(key)?.looks ?? [])]) look();
  }

  #wakeAll(): void {
    for (const key of [...this.#readers.keys()]) this.#wake(key);
  }

  async #notify(): Promise<void> {
    this.#ringing.stop();
    const payloads = payloadsOf(this.#rung);
    this.#rung.clear();
    if (payloads.length === 0 || this.#options.database.isClosed) return;
    const text =
      "select set_config('synchronous_commit', 'off', true), pg_notify($1, payload) from unnest($2::text[]) as payload";
    await this.#options.database.query(text, [this.#channel, payloads]).catch(() => {});
  }

  #schedule(): void {
    if (this.#poll.isSet || this.#isPolling || this.#readers.size === 0) return;
    const ms = this.#isListening ? listeningPollMs : blindPollMs;
    this.#poll.set(ms, () => void this.#look());
  }

  async #look(): Promise<void> {
    this.#isPolling = true;
    try {
      await this.#compare();
    } catch {
      // The readers find out why, and error.
      this.#wakeAll();
    }
    this.#isPolling = false;
    if (!this.#isClosed) this.#schedule();
  }

  async #compare(): Promise<void> {
    const taskIds = [...new Set([...this.#readers.values()].map(({ taskId }) => taskId))];
    const rows = await this.#options.database.query<Polled>(
      `select t.task_id, t.n || ' ' || t.commands as command,
        t.n || ' ' || t.seq || ' ' || coalesce((select max(d.n) from $S.delta d where d.task_id = t.task_id), 0) as record
       from $S.task t where t.task_id = any($1)`,
      [taskIds],
    );
    const found = new Map(rows.map((row) => [row.task_id, row]));
    for (const [key, reader] of [...this.#readers]) {
      const now = found.get(reader.taskId)?.[reader.feed] ?? 'gone';
      if (reader.seen === now) continue;
      reader.seen = now;
      this.#wake(key);
    }
  }

  #listen(): void {
    const { listen } = this.#options;
    if (listen === false || this.#isClosed) return;
    const client = openConnection(listen);
    this.#listener = client;
    const lost = () => this.#lose(client);
    client.on('error', lost);
    client.on('end', lost);
    client.on('notification', ({ payload = '' }) => {
      for (const key of payload.split(' ')) this.#wake(key);
    });
    const start = async () => {
      await client.connect();
      await client.query(`listen ${this.#channel}`);
      client.unref();
      if (this.#listener !== client) return;
      this.#isListening = true;
      // Changes from before the connection listened.
      this.#wakeAll();
    };
    start().catch(lost);
  }

  /** The poll, now faster, finds changes; a new connection is tried after a while. */
  #lose(client: PgClient): void {
    if (this.#listener !== client) return;
    this.#isListening = false;
    this.#listener = undefined;
    client.end().catch(() => {});
    this.#poll.stop();
    this.#schedule();
    if (this.#readers.size === 0) return;
    this.#idle.set(blindPollMs, () => {
      if (this.#readers.size > 0 && !this.#listener) this.#listen();
    });
  }

  #rest(): void {
    this.#poll.stop();
    this.#idle.set(idleMs, () => void this.#hangUp());
  }

  async #hangUp(): Promise<void> {
    const client = this.#listener;
    this.#listener = undefined;
    this.#isListening = false;
    await settled(goodbyeMs, systemClock, client?.end());
  }
}

function keyOf(feed: Feed, taskId: string): string {
  return `${feed}:${taskId}`;
}

/** Keys contain no space. */
function payloadsOf(keys: Iterable<string>): readonly string[] {
  const payloads: string[] = [];
  let payload = '';
  for (const key of keys) {
    if (payload.length + key.length + 1 > maxPayload) {
      payloads.push(payload);
      payload = '';
    }
    payload = payload === '' ? key : `${payload} ${key}`;
  }
  return payload === '' ? payloads : [...payloads, payload];
}
