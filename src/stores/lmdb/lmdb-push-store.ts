import type { Key } from 'lmdb';
import { type Clock, systemClock } from '../../core/clock.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import { isClaimable, type PushRecord, progressed } from '../push/push-record.ts';
import type { PushClaimOptions, PushEntry, PushKey, PushProgress, PushStore } from '../push/push-store.ts';
import { LmdbDatabase } from './lmdb-database.ts';
import { assertStorePath } from './store-path.ts';

export interface LmdbPushStoreOptions {
  /** The folder of the store, made where it is missing; on a local disk. May be that of other LMDB stores. */
  readonly path: string;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock;
}

const optionNames: OptionNames<LmdbPushStoreOptions> = { path: true, clock: true };

/**
 * Keeps registrations in an LMDB file, shared by any number of processes of one machine and still there after a restart. They stay until
 * they are deleted, as journals do. Errors as those of `LmdbMessageStore`.
 *
 * Keys: `['push', task, id]`, and `['push-due', time, task, id]` of those that are not over.
 */
export class LmdbPushStore implements PushStore {
  readonly #clock: Clock;
  readonly #database: LmdbDatabase;

  constructor(options: LmdbPushStoreOptions) {
    assertKnownOptions('LmdbPushStore', options, optionNames);
    const { path, clock = systemClock } = options;
    assertStorePath(path);
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
      if (record === undefined) return;
      this.#removeDue(record);
      this.#database.remove(recordKey(key));
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
    const due = this.#database.range({ start: ['push-due'], end: ['push-due', now + 1], limit });
    return due.flatMap(({ key }) => {
      const [, , task, configId] = Array.isArray(key) ? key : [];
      const record = this.#find({ taskId: String(task), configId: String(configId) });
      return record === undefined ? [] : [record];
    });
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
    if (before) this.#removeDue(before);
    this.#database.put(recordKey(record.entry), JSON.stringify(record));
    if (record.dueAt !== undefined) this.#database.put(dueKey(record.entry, record.dueAt), '');
  }

  #removeDue({ entry, dueAt }: PushRecord): void {
    if (dueAt !== undefined) this.#database.remove(dueKey(entry, dueAt));
  }
}

function recordKey({ taskId, configId }: PushKey): Key {
  return ['push', taskId, configId];
}

function dueKey({ taskId, configId }: PushKey, dueAt: number): Key {
  return ['push-due', dueAt, taskId, configId];
}
