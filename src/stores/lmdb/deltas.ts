import type { Clock, Delta } from '../../core/contracts/index.ts';
import { DeltaLog, type DeltaView, type LoggedDelta, type ReadableDeltas } from './delta-log.ts';
import type { LmdbDatabase } from './lmdb-database.ts';
import type { TaskHead } from './task-head.ts';
import type { TaskTable } from './task-table.ts';

interface DeltaBufferOptions {
  readonly database: LmdbDatabase;
  readonly tasks: TaskTable;
  /** The id of this store among those that have the file open. */
  readonly source: string;
  readonly clock: Clock;
  readonly pollMs: number;
}

interface OpenLog {
  log: DeltaLog;
  saved: Saved;
  /** The version of the log in the file. */
  savedView: DeltaLog['view'] | undefined;
  isSaving: boolean;
}

interface Readers {
  count: number;
  renewAt: number;
}

const nothingSaved: Saved = { generation: -1, length: 0 };

/** Milliseconds after its last heartbeat that a reader counts as alive. */
const readerMs = 10_000;

/**
 * Collects the deltas published through this store, emits them to its readers at once, and writes them to the file, at most every `pollMs`,
 * and only while another store reads that task.
 */
export class DeltaBuffer {
  readonly #options: DeltaBufferOptions;
  readonly #stored: StoredDeltas;
  readonly #logs = new Map<string, OpenLog>();
  readonly #readers = new Map<string, Readers>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: DeltaBufferOptions) {
    this.#options = options;
    this.#stored = new StoredDeltas(options.database);
  }

  /** Returns false if readers must not receive it. */
  publish(taskId: string, delta: Delta): boolean {
    const { database, tasks, source } = this.#options;
    const head = database.read(() => tasks.findHead(taskId));
    if (head === undefined || head.hasEnded || delta.epoch !== head.epoch) return false;
    let open = this.#logs.get(taskId);
    if (!open?.log.belongsTo(head)) {
      open = { log: new DeltaLog(source, head), saved: nothingSaved, savedView: undefined, isSaving: false };
      this.#logs.set(taskId, open);
      this.#start();
    }
    return open.log.accept(delta, head);
  }

  /** The deltas of the task's lease. Call it within a `read`. */
  find(head: TaskHead): ReadableDeltas | undefined {
    const own = this.#logs.get(head.taskId)?.log;
    if (own?.belongsTo(head)) return own;
    const stored = this.#stored.find(head.taskId);
    return stored?.view.epoch === head.epoch && stored.view.born === head.born ? stored : undefined;
  }

  /** Makes other stores write their deltas of a task, until the returned function is called. */
  watch(taskId: string): () => void {
    const readers = this.#readers.get(taskId) ?? { count: 0, renewAt: 0 };
    this.#readers.set(taskId, readers);
    readers.count++;
    this.#renewReader(taskId, readers);
    this.#start();
    return () => {
      if (--readers.count > 0) return;
      this.#readers.delete(taskId);
      this.#write(() => this.#stored.removeReader(taskId, this.#options.source));
      this.#stopIfIdle();
    };
  }

  /** Called after this store's appends. */
  settle(head: TaskHead): void {
    if (head.hasEnded) this.forget(head.taskId);
    else this.#logs.get(head.taskId)?.log.settle(head);
  }

  /** This store no longer owns the task. */
  forget(taskId: string): void {
    this.#logs.delete(taskId);
    this.#stopIfIdle();
  }

  /** Call it within a `write`. */
  remove(taskId: string): void {
    this.#stored.remove(taskId);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#logs.clear();
  }

  #start(): void {
    this.#timer ??= setInterval(() => this.#look(), this.#options.pollMs).unref();
  }

  #stopIfIdle(): void {
    if (this.#logs.size > 0 || this.#readers.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    for (const [taskId, readers] of this.#readers) this.#renewReader(taskId, readers);
    for (const [taskId, open] of this.#logs) {
      if (open.isSaving || open.savedView === open.log.view) continue;
      if (this.#isRead(taskId)) this.#save(taskId, open);
    }
  }

  #isRead(taskId: string): boolean {
    const { database, source, clock } = this.#options;
    try {
      return database.read(() => this.#stored.hasReaders(taskId, source, clock.now()));
    } catch {
      return false;
    }
  }

  #save(taskId: string, open: OpenLog): void {
    open.isSaving = true;
    const save = () => {
      const { view } = open.log;
      const head = this.#options.tasks.findHead(taskId);
      if (!head || head.hasEnded || !open.log.belongsTo(head)) return undefined;
      return { view, saved: this.#stored.save(taskId, open.log, open.saved) };
    };
    const finish = (done: ReturnType<typeof save>) => {
      open.isSaving = false;
      if (done) Object.assign(open, { saved: done.saved, savedView: done.view });
      else if (this.#logs.get(taskId) === open) this.forget(taskId);
    };
    const retry = () => {
      open.isSaving = false;
    };
    this.#options.database.write(save).then(finish, retry);
  }

  #renewReader(taskId: string, readers: Readers): void {
    const { tasks, source, clock } = this.#options;
    const now = clock.now();
    if (now < readers.renewAt) return;
    readers.renewAt = now + readerMs / 2;
    this.#write(() => {
      const head = tasks.findHead(taskId);
      if (head && !head.hasEnded) this.#stored.putReader(taskId, source, now + readerMs);
    });
  }

  /** If a reader's registration is lost, the reader gets the text a little later, or with the record. */
  #write(action: () => void): void {
    this.#options.database.write(action).catch(() => {});
  }
}

/** Characters of text under one key. The last block is written again as it grows. */
const blockLength = 4096;
const maxRecentCharacters = 65_536;
const last = '~';

/** How much of a log is in the file. */
interface Saved {
  readonly generation: number;
  readonly length: number;
}

/**
 * The side stream of deltas in the file, for readers of other processes, and the registrations of these readers. Call every method within a
 * `read` or `write` of the database.
 *
 * Keys: `['delta', task]`: the view; `['delta-text', task, block]`; `['reader', task, store]`: until when that store reads.
 */
class StoredDeltas {
  readonly #db: LmdbDatabase;

  constructor(db: LmdbDatabase) {
    this.#db = db;
  }

  find(taskId: string): ReadableDeltas | undefined {
    const text = this.#db.get(['delta', taskId]);
    if (text === undefined) return undefined;
    const view: DeltaView = JSON.parse(text);
    return { view, text: (from, to) => this.#text(taskId, from, to) };
  }

  /** Writes the changes of a log since `saved`, and returns how much of it is in the file now. */
  save(taskId: string, log: DeltaLog, saved: Saved): Saved {
    const { view } = log;
    const { generation, length } = view;
    const first = saved.generation === generation ? Math.floor(saved.length / blockLength) : 0;
    for (let block = first; block * blockLength < length; block++) {
      const piece = log.text(block * blockLength, (block + 1) * blockLength);
      // As JSON: a block may end in the middle of a surrogate pair.
      this.#db.put(['delta-text', taskId, block], JSON.stringify(piece));
    }
    const stored: DeltaView = { ...view, recent: newestWithin(view.recent, maxRecentCharacters) };
    this.#db.put(['delta', taskId], JSON.stringify(stored));
    return { generation, length };
  }

  remove(taskId: string): void {
    this.#db.remove(['delta', taskId]);
    for (const kind of ['delta-text', 'reader']) this.#db.removeRange([kind, taskId], [kind, taskId, last]);
  }

  /** Registers a store as a reader of a task's deltas until a time. */
  putReader(taskId: string, store: string, until: number): void {
    this.#db.put(['reader', taskId, store], String(until));
  }

  removeReader(taskId: string, store: string): void {
    this.#db.remove(['reader', taskId, store]);
  }

  /** Whether any store but this one reads them. */
  hasReaders(taskId: string, except: string, now: number): boolean {
    const readers = this.#db.range({ start: ['reader', taskId], end: ['reader', taskId, last] });
    return readers.some(({ key, value }) => Array.isArray(key) && key.at(-1) !== except && Number(value) > now);
  }

  #text(taskId: string, from: number, to: number): string {
    const first = Math.floor(from / blockLength);
    const range = { start: ['delta-text', taskId, first], end: ['delta-text', taskId, Math.ceil(to / blockLength)] };
    const blocks = this.#db.range(range).map(({ value }): string => JSON.parse(value));
    return blocks.join('').slice(from - first * blockLength, to - first * blockLength);
  }
}

/** The newest deltas of `recent` that fit into `maxCharacters` of JSON. */
function newestWithin(recent: readonly LoggedDelta[], maxCharacters: number): readonly LoggedDelta[] {
  let room = maxCharacters;
  const tooOld = recent.findLastIndex((logged) => {
    room -= JSON.stringify(logged.delta).length;
    return room < 0;
  });
  return recent.slice(tooOld + 1);
}
