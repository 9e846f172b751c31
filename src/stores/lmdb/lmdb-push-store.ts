import type { Key } from 'lmdb';
import { type Clock, invalidConfig, shownValue, systemClock } from '../../core/contracts/index.ts';
import { checkArguments, pushStoreArguments } from '../check-arguments.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import { isClaimable, type PushRecord, progressed } from '../push/push-record.ts';
import type { PushClaimOptions, PushEntry, PushKey, PushProgress, PushStore } from '../push/push-store.ts';
import { LmdbDatabase } from './lmdb-database.ts';
import { assertStorePath } from './store-path.ts';

export interface LmdbPushStoreOptions {
  /** The folder of the store, made where it is missing; on a local disk. May be that of other LMDB stores. */
  readonly path: string;
  /** Seconds that a registration is kept once there is nothing to deliver any more; null keeps it. Default 604,800, a week. */
  readonly ttl?: number | null | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const optionNames: OptionNames<LmdbPushStoreOptions> = { path: true, ttl: true, clock: true };

/**
 * Keeps registrations in an LMDB file, shared by any number of processes of one machine and still there after a restart. Those that are
 * over for longer than `ttl` go when another is over. Errors as those of `LmdbMessageStore`.
 *
 * Keys: `['push', task, id]`, `['push-due', time, task, id]` of those that are not over, and `['push-over', time, task, id]` of the others.
 */
export class LmdbPushStore implements PushStore {
  static {
    checkArguments(LmdbPushStore.prototype, pushStoreArguments);
  }

  readonly #clock: Clock;
  readonly #database: LmdbDatabase;
  readonly #ttlMs: number;

  constructor(options: LmdbPushStoreOptions) {
    assertKnownOptions('LmdbPushStore', options, optionNames);
    const { path, ttl = 604_800, clock = systemClock } = options;
    assertStorePath(path);
    if (ttl !== null && !(Number.isSafeInteger(ttl) && ttl >= 1))
      throw invalidConfig(
        `ttl of LmdbPushStore is ${shownValue(ttl)}`,
        'give a whole number of seconds from 1, or null',
      );
    this.#ttlMs = ttl === null ? Number.POSITIVE_INFINITY : ttl * 1_000;
    this.#clock = clock;
    this.#database = new LmdbDatabase(path);
  }

  async add(entry: PushEntry, most: number): Promise<boolean> {
    return this.#database.write(() => {
      const others = this.#ofTask(entry.taskId).filter((other) => other.entry.configId !== entry.configId);
      if (others.length >= most) return false;
      this.#put({ entry, dueAt: this.#clock.now() });
      return true;
    });
  }

  get(key: PushKey): PushEntry | undefined {
    return this.#database.read(() => this.#find(key)?.entry);
  }

  list(taskId: string): readonly PushEntry[] {
    return this.#database.read(() => this.#ofTask(taskId).map(({ entry }) => entry));
  }

  async delete(key: PushKey): Promise<void> {
    await this.#database.write(() => {
      const record = this.#find(key);
      if (record) this.#remove(record);
    });
  }

  async claim(options: PushClaimOptions): Promise<readonly PushEntry[]> {
    const { owner, leaseMs, limit } = options;
    const find = () => this.#claimable(options, this.#clock.now());
    // Most looks find nothing, and a write costs a sync of the disk.
    if (limit < 1 || this.#database.read(find).length === 0) return [];
    return this.#database.write(() => {
      const taken = find();
      for (const { entry } of taken) this.#put({ entry, owner, dueAt: this.#clock.now() + leaseMs });
      return taken.map(({ entry }) => entry);
    });
  }

  async update(key: PushKey, owner: string, progress: PushProgress): Promise<boolean> {
    return this.#database.write(() => {
      const record = this.#find(key);
      if (record === undefined || record.owner !== owner) return false;
      this.#put(progressed(record, progress, this.#clock.now()));
      if (progress.type === 'over') this.#forget();
      return true;
    });
  }

  /** Waits for what was sent to be written, and closes the file. Again: does nothing. */
  close(): Promise<void> {
    return this.#database.close();
  }

  #claimable(options: PushClaimOptions, now: number): readonly PushRecord[] {
    const { taskId, limit } = options;
    if (taskId !== undefined)
      return this.#ofTask(taskId)
        .filter((record) => isClaimable(record, options, now))
        .slice(0, limit);
    return this.#listed('push-due', now + 1, limit);
  }

  /** Those of an index before a time, the first first. */
  #listed(index: Index, end: number, limit: number): readonly PushRecord[] {
    return this.#database.range({ start: [index], end: [index, end], limit }).flatMap(({ key }) => {
      const [, , task, configId] = Array.isArray(key) ? key : [];
      return this.#find({ taskId: String(task), configId: String(configId) }) ?? [];
    });
  }

  /** More of them than become over at a time, so that they grow fewer. */
  #forget(): void {
    if (this.#ttlMs === Number.POSITIVE_INFINITY) return;
    for (const record of this.#listed('push-over', this.#clock.now() - this.#ttlMs, 10)) this.#remove(record);
  }

  #ofTask(taskId: string): readonly PushRecord[] {
    const all = this.#database.range({ start: ['push', taskId], end: ['push', taskId, '\uffff'] });
    return all.map(({ value }) => JSON.parse(value));
  }

  #find(key: PushKey): PushRecord | undefined {
    const text = this.#database.get(recordKey(key));
    return text === undefined ? undefined : JSON.parse(text);
  }

  #put(record: PushRecord): void {
    const before = this.#find(record.entry);
    if (before) this.#remove(before);
    this.#database.put(recordKey(record.entry), JSON.stringify(record));
    for (const key of indexKeys(record)) this.#database.put(key, '');
  }

  #remove(record: PushRecord): void {
    this.#database.remove(recordKey(record.entry));
    for (const key of indexKeys(record)) this.#database.remove(key);
  }
}

function recordKey({ taskId, configId }: PushKey): Key {
  return ['push', taskId, configId];
}

type Index = 'push-due' | 'push-over';

function indexKeys({ entry: { taskId, configId }, dueAt, overAt }: PushRecord): readonly Key[] {
  const at = (index: Index, time: number | undefined) => (time === undefined ? [] : [[index, time, taskId, configId]]);
  return [...at('push-due', dueAt), ...at('push-over', overAt)];
}
