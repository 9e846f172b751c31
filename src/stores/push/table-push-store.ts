import { type Clock, systemClock } from '../../core/contracts/index.ts';
import { checkArguments } from '../check-arguments.ts';
import {
  type Answer,
  type Body,
  MemoryTable,
  type Rows,
  type Steps,
  type Table,
  type TableKey,
  type Timing,
} from '../table/table.ts';
import {
  type PushClaimOptions,
  type PushEntry,
  type PushKey,
  type PushProgress,
  type PushStore,
  pushStoreArguments,
} from './push-store.ts';

interface TablePushOptions {
  readonly clock: Clock;
  /** How long ended registrations are kept, in milliseconds, and how many of them. Both may be infinite. */
  readonly keepMs: number;
  readonly keepMost: number;
}

/** How many registrations are removed at most when another one ends: more than one, so that their number shrinks. */
const forgetAtOnce = 10;

/**
 * Registrations in a table.
 *
 * Keys: `['push', task, id]`, `['push-due', time, task, id]` of open ones, and `['push-over', time, task, id]` of ended ones.
 */
export class TablePushStore<Read extends Timing, Write extends Timing> implements PushStore {
  readonly #table: Table<Read, Write>;
  readonly #options: TablePushOptions;

  constructor(table: Table<Read, Write>, options: TablePushOptions) {
    this.#table = table;
    this.#options = options;
  }

  add(entry: PushEntry, most: number): Answer<Write, boolean> {
    const { clock } = this.#options;
    return this.#table.write(() => (rows) => add(rows, { entry, dueAt: clock.now() }, most));
  }

  get(key: PushKey): Answer<Read, PushEntry | undefined> {
    return this.#table.read(() => (rows) => entryAt(rows, key));
  }

  list(taskId: string): Answer<Read, readonly PushEntry[]> {
    return this.#table.read(() => (rows) => entriesOf(rows, taskId));
  }

  delete(key: PushKey): Answer<Write, void> {
    return this.#table.write(() => (rows) => forget(rows, key));
  }

  claim(options: PushClaimOptions): Answer<Write, readonly PushEntry[]> {
    const { clock } = this.#options;
    return this.#table.write(() => (rows) => claim(rows, options, clock.now()));
  }

  /** Whether a claim would find something. */
  protected canClaim(options: PushClaimOptions): Answer<Read, boolean> {
    const { clock } = this.#options;
    return this.#table.read(() => hasClaimable({ ...options, limit: Math.min(options.limit, 1) }, clock.now()));
  }

  update(key: PushKey, owner: string, progress: PushProgress): Answer<Write, boolean> {
    return this.#table.write(() => (rows) => update(rows, { key, owner, progress, ...this.#options }));
  }
}

function* add(rows: Rows, record: PushRecord, most: number): Steps<boolean> {
  const { taskId, configId } = record.entry;
  const others = (yield* ofTask(rows, taskId)).filter(({ entry }) => entry.configId !== configId);
  if (others.length >= most) return false;
  yield* put(rows, record);
  return true;
}

function* entryAt(rows: Rows, key: PushKey): Steps<PushEntry | undefined> {
  return (yield* find(rows, key))?.entry;
}

function* entriesOf(rows: Rows, taskId: string): Steps<readonly PushEntry[]> {
  return (yield* ofTask(rows, taskId)).map(({ entry }) => entry);
}

function* claim(rows: Rows, options: PushClaimOptions, now: number): Steps<readonly PushEntry[]> {
  const { owner, leaseMs } = options;
  const taken = yield* claimable(rows, options, now);
  for (const { entry } of taken) yield* put(rows, { entry, owner, dueAt: now + leaseMs });
  return taken.map(({ entry }) => entry);
}

function hasClaimable(options: PushClaimOptions, now: number): Body<boolean> {
  return function* (rows) {
    return (yield* claimable(rows, options, now)).length > 0;
  };
}

interface Update extends TablePushOptions {
  readonly key: PushKey;
  readonly owner: string;
  readonly progress: PushProgress;
}

function* update(rows: Rows, { key, owner, progress, clock, keepMs, keepMost }: Update): Steps<boolean> {
  const record = yield* find(rows, key);
  if (record === undefined || record.owner !== owner) return false;
  const now = clock.now();
  yield* put(rows, progressed(record, progress, now));
  if (progress.type !== 'over') return true;
  const old = keepMs === Number.POSITIVE_INFINITY ? [] : yield* listed(rows, 'push-over', now - keepMs, forgetAtOnce);
  const all = keepMost === Number.POSITIVE_INFINITY ? [] : yield* listed(rows, 'push-over', undefined);
  for (const { entry } of [...old, ...all.slice(0, Math.max(0, all.length - keepMost))]) yield* forget(rows, entry);
  return true;
}

function* claimable(rows: Rows, options: PushClaimOptions, now: number): Steps<readonly PushRecord[]> {
  const { taskId, limit } = options;
  if (limit < 1) return [];
  if (taskId === undefined) return yield* listed(rows, 'push-due', now + 1, limit);
  return (yield* ofTask(rows, taskId)).filter((record) => isClaimable(record, options, now)).slice(0, limit);
}

type Index = 'push-due' | 'push-over';

/** The entries of an index before a time, the earliest first. */
function* listed(rows: Rows, index: Index, to: number | undefined, limit?: number): Steps<readonly PushRecord[]> {
  const records: PushRecord[] = [];
  for (const { key } of yield* rows.range([index], { to, limit })) {
    const [, , taskId, configId] = key;
    const record = yield* find(rows, { taskId: String(taskId), configId: String(configId) });
    if (record) records.push(record);
  }
  return records;
}

function* ofTask(rows: Rows, taskId: string): Steps<readonly PushRecord[]> {
  return (yield* rows.range(['push', taskId])).map(({ value }) => JSON.parse(value));
}

function* find(rows: Rows, key: PushKey): Steps<PushRecord | undefined> {
  const text = yield* rows.get(recordKey(key));
  return text === undefined ? undefined : JSON.parse(text);
}

function* put(rows: Rows, record: PushRecord): Steps<void> {
  yield* forget(rows, record.entry);
  rows.put(recordKey(record.entry), JSON.stringify(record));
  for (const key of indexKeys(record)) rows.put(key, '');
}

function* forget(rows: Rows, key: PushKey): Steps<void> {
  const record = yield* find(rows, key);
  if (record === undefined) return;
  rows.remove(recordKey(key));
  for (const each of indexKeys(record)) rows.remove(each);
}

function recordKey({ taskId, configId }: PushKey): TableKey {
  return ['push', taskId, configId];
}

function indexKeys({ entry: { taskId, configId }, dueAt, overAt }: PushRecord): readonly TableKey[] {
  const at = (index: Index, time: number | undefined) => (time === undefined ? [] : [[index, time, taskId, configId]]);
  return [...at('push-due', dueAt), ...at('push-over', overAt)];
}

/** The stored form of a registration. */
interface PushRecord {
  readonly entry: PushEntry;
  /** The process that delivers it; absent: none. */
  readonly owner?: string;
  /** When it may be claimed, milliseconds since 1970; absent: it has ended. */
  readonly dueAt?: number;
  /** When it ended. */
  readonly overAt?: number;
}

/** Whether a claim matches it. */
function isClaimable({ entry, owner, dueAt }: PushRecord, { taskId }: PushClaimOptions, now: number): boolean {
  if (dueAt === undefined || (taskId !== undefined && entry.taskId !== taskId)) return false;
  return dueAt <= now || (taskId !== undefined && owner === undefined);
}

/** The record after a report of its owner. */
function progressed({ entry: before, owner }: PushRecord, progress: PushProgress, now: number): PushRecord {
  const { cursor = before.cursor } = progress;
  const entry = { ...before, ...(cursor !== undefined && { cursor }) };
  switch (progress.type) {
    case 'held':
      return { entry, ...(owner !== undefined && { owner }), dueAt: now + progress.leaseMs };
    case 'parked':
      return { entry, dueAt: now + progress.afterMs };
    case 'over':
      return { entry, overAt: now };
  }
}

/**
 * Stores registrations in the memory of this process: a restart loses them. Every method answers synchronously. Memory: the registrations, and
 * 1,000 ended ones.
 */
export class InMemoryPushStore extends TablePushStore<'now', 'now'> {
  static {
    checkArguments(InMemoryPushStore.prototype, pushStoreArguments);
  }

  constructor({ clock = systemClock }: { readonly clock?: Clock } = {}) {
    super(new MemoryTable(), { clock, keepMs: Number.POSITIVE_INFINITY, keepMost: 1_000 });
  }
}
