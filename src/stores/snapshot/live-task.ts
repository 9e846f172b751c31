import type { Lease, Under } from '../../core/contracts/index.ts';
import {
  applyRecord,
  isTerminal,
  type JournalRecord,
  type LoopState,
  type Stamped,
  type TurnStarted,
  taskState,
} from '../../core/journal/index.ts';
import { MemoryTask } from '../memory/memory-task.ts';
import { checkAppend, fenced, notFound } from '../store-rules.ts';
import { statusTimeIn } from '../task-summary.ts';
import { lostIntents, type PlainStore, type SavedTurn, snapshotOf } from './snapshot.ts';

/** A task without an owner. `state` is the fold of the records. */
export function taskOf(started: Stamped<TurnStarted>, records: readonly JournalRecord[], state: LoopState): MemoryTask {
  const task = new MemoryTask(started);
  for (const record of records.slice(1)) task.records.push(record);
  task.status = taskState(state);
  task.statusAt = statusTimeIn(records) ?? started.at;
  return task;
}

/**
 * A task whose lease is held in this process. Accepts records at once, and emits them to followers after the snapshot that they require is
 * saved. Saves of a task never overlap. Memory: the records of the turn.
 */
export class LiveTask {
  /** The task as followers see it. */
  readonly shown: MemoryTask;
  readonly #plain: PlainStore;
  readonly #lease: Lease;
  readonly #now: () => number;
  /** Accepted records that are not emitted yet. */
  #tail: JournalRecord[] = [];
  #hasEnded: boolean;
  #state: LoopState;
  /** The versions that this owner wrote: the last that was saved, and the last attempt, which may have failed. */
  #saved: string;
  #attempted: string;
  #saving: Promise<void> = Promise.resolve();
  #dropped = false;
  readonly #wasReleased: boolean;

  /** `epoch` must be greater than that of every record. */
  constructor(saved: SavedTurn, holder: Holder) {
    const { plain, now, taskId, owner, epoch, leaseMs, under = saved.under } = holder;
    const lost = lostIntents(saved);
    const records = [...saved.records, ...lost];
    this.#plain = plain;
    this.#now = now;
    this.#saved = versionOf(saved.state.seq, saved.epoch);
    this.#attempted = this.#saved;
    this.#wasReleased = saved.released;
    this.#hasEnded = saved.state.isComplete;
    this.#state = lost.reduce<LoopState>(applyRecord, saved.state);
    this.#lease = { taskId, owner, epoch, seq: records.length, leaseMs };
    this.shown = taskOf(saved.started, records, this.#state);
    this.shown.under = under;
    this.shown.grant(this.#lease, now());
  }

  get lease(): Lease {
    return this.#lease;
  }

  get state(): LoopState {
    return this.#state;
  }

  /** Saves that the task is acquired, so that its previous owner is fenced off. */
  claim(): Promise<void> {
    return this.#inTurn(() => this.#save(this.#state, this.shown.records.slice(), this.#wasReleased));
  }

  isOwnedBy(lease: Lease): boolean {
    return this.shown.isOwnedBy(lease);
  }

  /** Accepts records at once; resolves when they are emitted, after the snapshot that they require. */
  append(lease: Lease, records: readonly JournalRecord[]): Promise<void> {
    if (!this.isOwnedBy(lease)) throw fenced(lease);
    const seq = this.shown.records.length + this.#tail.length;
    if (checkAppend({ seq, hasEnded: this.#hasEnded }, lease, records)) {
      this.#tail.push(...records);
      this.#hasEnded = records.some(isTerminal);
    }
    const last = records.at(-1)?.seq ?? 0;
    return this.#inTurn(() => this.#show(last));
  }

  /** Drops the task if another owner has it. */
  async verify(): Promise<void> {
    await this.#inTurn(() => this.#checkOwner()).catch((error: unknown) => {
      if (!this.#dropped) throw error;
    });
  }

  /** Renews the lease, if the snapshot is still this owner's. */
  async renew(): Promise<void> {
    await this.#inTurn(() => this.#checkOwner());
    this.shown.expiresAt = this.#now() + this.#lease.leaseMs;
  }

  /** Saves unsaved records, and releases the lease. Does nothing if another owner has the task. */
  async release(): Promise<void> {
    try {
      if (!this.#state.outcome) await this.#inTurn(() => this.#saveAll());
    } catch (error) {
      if (!this.#dropped) throw error;
    }
    this.shown.owner = undefined;
  }

  /** Whether this process has lost the task. */
  get isDropped(): boolean {
    return this.#dropped;
  }

  /** Errors its followers, which then read snapshots; nothing is saved any more. */
  drop(): void {
    if (this.#dropped) return;
    this.#dropped = true;
    this.shown.owner = undefined;
    this.shown.drop();
  }

  #inTurn(job: () => Promise<void>): Promise<void> {
    const done = this.#saving.then(job);
    this.#saving = done.catch(() => {});
    return done;
  }

  async #show(upTo: number): Promise<void> {
    const records = this.#tail.slice(0, Math.max(0, upTo - this.shown.records.length));
    if (records.length === 0) return;
    const after = records.reduce<LoopState>(applyRecord, this.#state);
    if (requireSave(records, after)) await this.#save(after, [...this.shown.records, ...records], false);
    this.#tail.splice(0, records.length);
    this.#state = after;
    this.shown.append(this.#lease, records, { status: taskState(after), barrier: true }, this.#now());
  }

  async #saveAll(): Promise<void> {
    await this.#show(this.shown.records.length + this.#tail.length);
    if (!this.#state.outcome) await this.#save(this.#state, this.shown.records.slice(), true);
  }

  /** Checks before it saves, so that another owner's snapshot is not overwritten. */
  async #save(state: LoopState, records: readonly JournalRecord[], released: boolean): Promise<void> {
    await this.#checkOwner();
    const { taskId, epoch } = this.#lease;
    this.#attempted = versionOf(state.seq, epoch);
    const { under } = this.shown;
    await this.#plain.save(taskId, snapshotOf(state, { journal: records, epoch, released, ...(under && { under }) }));
    this.#saved = this.#attempted;
  }

  /** Throws, and drops the task, if its snapshot is not of this owner. */
  async #checkOwner(): Promise<void> {
    if (this.#dropped) throw fenced(this.#lease);
    const { taskId } = this.#lease;
    const found = await this.#plain.load(taskId);
    const version = found && versionOf(found.state.seq, found.epoch);
    if (version === this.#saved || version === this.#attempted) return;
    this.drop();
    throw found ? fenced(this.#lease) : notFound(taskId);
  }
}

export interface Holder {
  readonly plain: PlainStore;
  readonly now: () => number;
  readonly taskId: string;
  readonly owner: string;
  readonly epoch: number;
  readonly leaseMs: number;
  readonly under?: Under | undefined;
}

function versionOf(seq: number, epoch: number): string {
  return `${seq}-${epoch}`;
}

/**
 * Whether records are emitted only after a save: all but those inside an iteration, which are `llm.start`, the intent of a call without a child
 * turn, and a result while other calls are open.
 */
function requireSave(records: readonly JournalRecord[], after: LoopState): boolean {
  return records.some((record) => {
    if (record.type === 'tool.result') return after.openCalls === 0;
    // A delete or a cancel finds a child turn by this link.
    if (record.type === 'tool.intent') return record.child !== undefined;
    return record.type !== 'llm.start';
  });
}
