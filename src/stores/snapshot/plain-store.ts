import { AgentLoopError, type MaybePromise, messageOf } from '../../core/contracts/index.ts';
import type { PersistedLoopState } from '../../core/journal/index.ts';
import { readSnapshot, type SavedTurn, type Snapshot } from './snapshot.ts';

/** A user's own store of states: one value a task, the last one saved. */
export interface SnapshotStore {
  /** Replaces the value. Must reject if it was not stored. */
  save(taskId: string, state: Snapshot): MaybePromise<unknown>;
  /** What was saved last, whole; null or undefined where there is nothing. */
  load(taskId: string): MaybePromise<PersistedLoopState | null | undefined>;
  /** Does nothing where there is nothing. */
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

/** A user's store with its failures as ours: what it throws without a code is `UNAVAILABLE`, and may work later. */
export class PlainStore {
  readonly #store: SnapshotStore;

  constructor(store: SnapshotStore) {
    this.#store = store;
  }

  async load(taskId: string): Promise<SavedTurn | undefined> {
    const saved = await this.#ask('load', taskId, () => this.#store.load(taskId));
    return saved ? readSnapshot(taskId, saved) : undefined;
  }

  /** The records of what was saved, unchecked: none where it is no snapshot. */
  async uncheckedRecords(taskId: string): Promise<readonly unknown[]> {
    const saved: unknown = await this.#ask('load', taskId, () => this.#store.load(taskId)).catch((thrown: unknown) => {
      // The text of a damaged value is not JSON: the task can be deleted all the same.
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
