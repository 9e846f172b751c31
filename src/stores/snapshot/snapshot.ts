import { AgentLoopError, isSuspended, type MaybePromise, messageOf, type Under } from '../../core/contracts/index.ts';
import {
  foldRecords,
  type JournalRecord,
  journalSchema,
  type LoopState,
  type PendingToolCall,
  type PersistedLoopState,
  type Stamped,
  type ToolIntent,
  type TurnStarted,
  toPersisted,
} from '../../core/journal/index.ts';
import { newerSchema } from '../store-rules.ts';

/** A user's own store of states: one value per task, the last one saved. */
export interface SnapshotStore {
  /** Replaces the value. Must reject if it was not stored. */
  save(taskId: string, state: Snapshot): MaybePromise<unknown>;
  /** The last saved value, complete; null or undefined if there is none. */
  load(taskId: string): MaybePromise<PersistedLoopState | null | undefined>;
  /** Does nothing if there is none. */
  delete(taskId: string): MaybePromise<unknown>;
}

const methods = ['save', 'load', 'delete'] as const;

/** Errors: `INVALID_CONFIG`. */
export function assertSnapshotStore(store: SnapshotStore): void {
  const missing = methods.filter((name) => typeof store?.[name] !== 'function');
  if (missing.length === 0) return;
  throw new AgentLoopError(
    'INVALID_CONFIG',
    `The store given to snapshotStateStore has no ${missing.join(', no ')}; it needs the methods save, load and delete.`,
  );
}

/** Wraps a user's store: an exception without a code becomes a retryable `UNAVAILABLE`. */
export class PlainStore {
  readonly #store: SnapshotStore;

  constructor(store: SnapshotStore) {
    this.#store = store;
  }

  async load(taskId: string): Promise<SavedTurn | undefined> {
    const saved = await this.#ask('load', taskId, () => this.#store.load(taskId));
    return saved ? readSnapshot(taskId, saved) : undefined;
  }

  /** The saved records, unchecked: none if the value is not a snapshot. */
  async uncheckedRecords(taskId: string): Promise<readonly unknown[]> {
    const saved: unknown = await this.#ask('load', taskId, () => this.#store.load(taskId)).catch((thrown: unknown) => {
      // A damaged value is not JSON: the task can still be deleted.
      if (thrown instanceof Error && thrown.cause instanceof SyntaxError) return undefined;
      throw thrown;
    });
    if (typeof saved !== 'object' || saved === null || !('journal' in saved)) return [];
    return Array.isArray(saved.journal) ? saved.journal : [];
  }

  async save(taskId: string, snapshot: Snapshot): Promise<void> {
    await this.#ask('save', taskId, () => this.#store.save(taskId, snapshot));
  }

  async delete(taskId: string): Promise<void> {
    await this.#ask('delete', taskId, () => this.#store.delete(taskId));
  }

  async #ask<T>(method: (typeof methods)[number], taskId: string, call: () => MaybePromise<T>): Promise<T> {
    try {
      return await call();
    } catch (thrown) {
      if (AgentLoopError.isInstance(thrown)) throw thrown;
      throw new AgentLoopError('UNAVAILABLE', `The snapshot store failed at ${method}: ${messageOf(thrown)}.`, {
        taskId,
        retryable: true,
        cause: thrown,
      });
    }
  }
}

/** The saved value of a turn: its state for people and queries, and the records that a turn resumes from. Plain JSON. */
export interface Snapshot extends PersistedLoopState {
  /** The records of the state's fold, in order. `load` must return them as they were passed to `save`. */
  readonly journal: readonly JournalRecord[];
  /** The epoch of its lease; 0 before the first. An owner that finds another epoch has lost the task. */
  readonly epoch: number;
  /** True if it was saved when its owner released the task: nothing has changed since. */
  readonly released: boolean;
  /** The lease of the parent turn under which this one was last acquired; absent without one. */
  readonly under?: Under;
}

/** A validated snapshot. */
export interface SavedTurn {
  readonly started: Stamped<TurnStarted>;
  readonly records: readonly JournalRecord[];
  readonly state: LoopState;
  readonly epoch: number;
  readonly released: boolean;
  readonly under?: Under;
}

export function snapshotOf(
  state: LoopState,
  { journal, epoch, released, under }: Omit<Snapshot, keyof PersistedLoopState>,
): Snapshot {
  return { ...toPersisted(state), journal, epoch, released, ...(under && { under }) };
}

/** Errors: `SCHEMA` for a newer journal; `POISON` for a value that is not a snapshot, does not fold, or belongs to another task. */
export function readSnapshot(taskId: string, saved: object): SavedTurn {
  const journal = 'journal' in saved ? saved.journal : undefined;
  if (!Array.isArray(journal)) {
    throw unreadable(taskId, 'it has no "journal"; load must return the complete value that save received');
  }
  const records: readonly JournalRecord[] = journal;
  const [started] = records;
  if (started?.type !== 'turn.started') throw unreadable(taskId, 'its journal does not start with turn.started');
  if (started.schema > journalSchema) throw newerSchema(taskId, started.schema);
  const state = folded(taskId, records);
  if (state.turn.taskId !== taskId) throw unreadable(taskId, `it belongs to task "${state.turn.taskId}"`);
  const epoch = 'epoch' in saved && typeof saved.epoch === 'number' ? saved.epoch : state.epoch;
  const under = underIn(saved);
  return { started, records, state, epoch, released: 'released' in saved && saved.released === true, ...under };
}

function underIn(saved: object): { readonly under?: Under } {
  const under: unknown = 'under' in saved ? saved.under : undefined;
  if (typeof under !== 'object' || under === null || !('taskId' in under) || !('epoch' in under)) return {};
  const { taskId, epoch } = under;
  return typeof taskId === 'string' && typeof epoch === 'number' ? { under: { taskId, epoch } } : {};
}

function folded(taskId: string, records: readonly JournalRecord[]): LoopState {
  try {
    return foldRecords(records);
  } catch (thrown) {
    if (AgentLoopError.isInstance(thrown)) throw thrown;
    throw unreadable(taskId, messageOf(thrown));
  }
}

/**
 * The intents that a crashed owner may have written after its last snapshot: those of every call of the open batch without an intent,
 * result or open question, so that none is treated as not started. Empty if nothing can have run.
 */
export function lostIntents({ state, released }: SavedTurn): readonly Stamped<ToolIntent>[] {
  const ran = !released && !(state.outcome && (state.isComplete || isSuspended(state.outcome.state)));
  if (!ran) return [];
  const { seq, epoch, updatedAt: at } = state;
  return state.pendingToolCalls
    .filter(({ intent, question, result }) => !intent && !question && !result)
    .map((pending, index) => ({ ...intentOf(pending), seq: seq + 1 + index, epoch, at }));
}

function intentOf({ callId, call, attempts }: PendingToolCall): ToolIntent {
  return { type: 'tool.intent', callId, attempt: attempts + 1, arguments: parsed(call.function.arguments) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function unreadable(taskId: string, why: string): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `The snapshot of task "${taskId}" cannot be read: ${why}. It is kept for inspection.`,
    { taskId },
  );
}
