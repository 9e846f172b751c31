import { RecentMap } from '../../../core/journal/index.ts';
import type { PushKey } from '../../../stores/push/push-store.ts';

/** The most registrations that are counted; the one that failed first is forgotten first. */
const mostCounted = 10_000;

/** Counts the tries of a notification that failed here in a row, also where its delivery begins anew. Memory: 10,000 registrations. */
export class FailureCounter {
  readonly #counts = new RecentMap<string, number>(mostCounted);

  /** Counts one more, and gives how many there are. */
  add(key: PushKey): number {
    const name = nameOf(key);
    const count = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, count);
    return count;
  }

  forget(key: PushKey): void {
    this.#counts.delete(nameOf(key));
  }
}

function nameOf({ taskId, configId }: PushKey): string {
  return JSON.stringify([taskId, configId]);
}
