import { Observable } from 'rxjs';
import type { Clock, TaskStateStore, TaskSummary } from '../contracts/index.ts';

/** By store, how many calls of this process open each turn. */
const opening = new WeakMap<TaskStateStore, Map<string, number>>();

/**
 * Marks a turn that a call of this process opens: until it has the lease, the turn looks abandoned, but only the caller has the values that are
 * never journaled. Returns a function that removes the mark, once.
 */
export function markOpening(store: TaskStateStore, taskId: string): () => void {
  const turns = opening.get(store) ?? new Map<string, number>();
  opening.set(store, turns);
  turns.set(taskId, (turns.get(taskId) ?? 0) + 1);
  let isMarked = true;
  return () => {
    if (!isMarked) return;
    isMarked = false;
    const left = (turns.get(taskId) ?? 1) - 1;
    if (left === 0) turns.delete(taskId);
    else turns.set(taskId, left);
  };
}

/** Whether a call of this process opens the turn. */
export function isMarked(store: TaskStateStore, taskId: string): boolean {
  return opening.get(store)?.has(taskId) === true;
}

/** Keeps the mark while `opening$` is subscribed to. */
export function whileOpening<T>(store: TaskStateStore, taskId: string, opening$: Observable<T>): Observable<T> {
  return new Observable((to) => {
    to.add(markOpening(store, taskId));
    opening$.subscribe(to);
  });
}

/**
 * How long a new turn without a lease still belongs to its creator, in milliseconds: from its creation on as long as a lease lasts. 0 for a
 * turn that is older, and for times that the clocks of two processes cannot explain.
 */
export function openingMs(createdAt: number, { clock, leaseMs }: { readonly clock: Clock; readonly leaseMs: number }) {
  const age = clock.now() - createdAt;
  return Math.abs(age) < leaseMs ? leaseMs - age : 0;
}

/** What says whether a turn is opened. */
interface OpeningOptions {
  readonly store: TaskStateStore;
  readonly clock: Clock;
  readonly leaseMs: number;
}

/** Whether a turn without a lease is opened by a call of this process, or was just created by any process: it is not abandoned. */
export function isOpening({ taskId, seq, createdAt }: TaskSummary, options: OpeningOptions): boolean {
  if (isMarked(options.store, taskId)) return true;
  return seq === 1 && openingMs(Date.parse(createdAt), options) > 0;
}
