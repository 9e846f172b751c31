import { type Clock, systemClock } from '../../core/contracts/index.ts';
import { checkArguments, pushStoreArguments } from '../check-arguments.ts';
import { isClaimable, type PushRecord, progressed } from './push-record.ts';
import type { PushClaimOptions, PushEntry, PushKey, PushProgress, PushStore } from './push-store.ts';

const noRecords: ReadonlyMap<string, PushRecord> = new Map();

/** Keeps registrations in the memory of this process: a restart loses them. Memory: what is registered, and 1,000 that are over. */
export class InMemoryPushStore implements PushStore {
  static {
    checkArguments(InMemoryPushStore.prototype, pushStoreArguments);
  }

  readonly #clock: Clock;
  /** By task, then by id. */
  readonly #tasks = new Map<string, Map<string, PushRecord>>();
  /** Those that are over, the oldest first. */
  readonly #over = new Set<string>();

  constructor({ clock = systemClock }: { readonly clock?: Clock } = {}) {
    this.#clock = clock;
  }

  add(entry: PushEntry, most: number): boolean {
    const records = this.#tasks.get(entry.taskId) ?? new Map<string, PushRecord>();
    if (!records.has(entry.configId) && records.size >= most) return false;
    records.set(entry.configId, { entry, dueAt: this.#clock.now() });
    this.#tasks.set(entry.taskId, records);
    return true;
  }

  get(key: PushKey): PushEntry | undefined {
    return this.#find(key)?.entry;
  }

  list(taskId: string): readonly PushEntry[] {
    const entries = [...(this.#tasks.get(taskId)?.values() ?? [])].map(({ entry }) => entry);
    return entries.sort((a, b) => (a.configId < b.configId ? -1 : 1));
  }

  delete({ taskId, configId }: PushKey): void {
    const records = this.#tasks.get(taskId);
    records?.delete(configId);
    if (records?.size === 0) this.#tasks.delete(taskId);
  }

  claim(options: PushClaimOptions): readonly PushEntry[] {
    const { owner, leaseMs, limit } = options;
    const now = this.#clock.now();
    const tasks = options.taskId === undefined ? this.#tasks.values() : [this.#tasks.get(options.taskId) ?? noRecords];
    const all = [...tasks].flatMap((records) => [...records.values()]);
    const due = all.filter((record) => isClaimable(record, options, now));
    const taken = due.sort((a, b) => (a.dueAt ?? 0) - (b.dueAt ?? 0)).slice(0, limit);
    for (const { entry } of taken) this.#put({ entry, owner, dueAt: now + leaseMs });
    return taken.map(({ entry }) => entry);
  }

  update(key: PushKey, owner: string, progress: PushProgress): boolean {
    const record = this.#find(key);
    if (record === undefined || record.owner !== owner) return false;
    this.#put(progressed(record, progress, this.#clock.now()));
    if (progress.type === 'over') this.#forget(key);
    return true;
  }

  #find({ taskId, configId }: PushKey): PushRecord | undefined {
    return this.#tasks.get(taskId)?.get(configId);
  }

  #put(record: PushRecord): void {
    this.#tasks.get(record.entry.taskId)?.set(record.entry.configId, record);
  }

  #forget(key: PushKey): void {
    this.#over.add(JSON.stringify([key.taskId, key.configId]));
    for (const oldest of this.#over) {
      if (this.#over.size <= 1_000) break;
      this.#over.delete(oldest);
      const [taskId, configId] = JSON.parse(oldest);
      if (this.#find({ taskId, configId })?.dueAt === undefined) this.delete({ taskId, configId });
    }
  }
}
