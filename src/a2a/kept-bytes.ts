import type { Clock } from '../core/clock.ts';
import { AgentLoopError } from '../core/errors.ts';
import type { MaybePromise, TaskStateStore, TaskSummary } from '../stores/interfaces.ts';

export interface KeptBytesOptions {
  readonly store: TaskStateStore;
  readonly clock: Clock;
  /** Of one owner. */
  readonly max: number;
  /** One answer of the store. Errors: `UNAVAILABLE` where it does not come in time. */
  readonly ready: <T>(ask: () => MaybePromise<T>) => Promise<T>;
}

/** What is known of an owner. Times are in milliseconds since 1970. */
interface Count {
  /** What the store kept when it was counted, and what was let in since. */
  bytes: number;
  /** When it is to be counted again. */
  readonly until: number;
  /** The same where the owner is beyond its limit. */
  readonly soon: number;
}

/** Of a task in a store that does not count bytes, at a seq. */
interface Measured {
  readonly seq: number;
  readonly bytes: number;
}

const pageSize = 200;
const recountMs = 30_000;
/** Counting takes at most this share of the time. */
const share = 20;
/** Beyond its limit an owner is counted again this soon, as far as `share` allows: it may have deleted something. */
const soonMs = 2_000;
/** Those who sent last. */
const maxOwners = 1_000;
const maxMeasured = 10_000;

/**
 * How much the store keeps for each owner, in journals and commands. Counted in the store, so processes that share it agree; in between this
 * process adds the messages that it lets in. An owner may exceed the limit by what its running turns write until the next count, 30 seconds later.
 *
 * A count costs one entry of a list for each task; in a store that does not count bytes itself also its journal, again once that has grown.
 * Memory: 1,000 owners, and 10,000 tasks of such a store.
 */
export class KeptBytes {
  readonly #options: KeptBytesOptions;
  readonly #counts = new Map<string, Promise<Count>>();
  readonly #measured = new Map<string, Measured>();

  constructor(options: KeptBytesOptions) {
    this.#options = options;
  }

  /** Whether an owner, by its group of contexts, may have a message of this length kept. Rejects with what the store says. */
  async admit(group: string, bytes: number): Promise<boolean> {
    const { clock, max } = this.#options;
    const counting = this.#counts.get(group) ?? this.#begin(group);
    let count = await counting;
    const isOver = count.bytes + bytes > max;
    if (clock.now() >= (isOver ? count.soon : count.until)) {
      const newer = this.#counts.get(group);
      // Another message may have begun the next count by now: all that come together share one.
      count = await (newer && newer !== counting ? newer : this.#begin(group));
    }
    if (count.bytes + bytes > max) return false;
    count.bytes += bytes;
    return true;
  }

  #begin(group: string): Promise<Count> {
    const counting = this.#count(group);
    keepNewest(this.#counts, group, counting, maxOwners);
    counting.catch(() => {
      if (this.#counts.get(group) === counting) this.#counts.delete(group);
    });
    return counting;
  }

  async #count(group: string): Promise<Count> {
    const { store, clock, ready } = this.#options;
    const begun = clock.now();
    let bytes = 0;
    for (let behind: TaskSummary | undefined; ; ) {
      const query = { contextGroup: group, limit: pageSize, ...(behind && { behind }) };
      const page = await ready(() => store.list(query));
      for (const task of page) bytes += task.bytes ?? (await this.#measure(task));
      behind = page.at(-1);
      if (page.length < pageSize) break;
    }
    const at = clock.now();
    const rest = share * (at - begun);
    return { bytes, until: at + Math.max(recountMs, rest), soon: at + Math.max(soonMs, rest) };
  }

  async #measure({ taskId, seq }: TaskSummary): Promise<number> {
    const known = this.#measured.get(taskId);
    if (known?.seq === seq) return known.bytes;
    const { store, ready } = this.#options;
    try {
      const from = known && known.seq < seq ? known.seq + 1 : 1;
      const records = await ready(() => store.read(taskId, { from }));
      const grown = records.reduce((sum, record) => sum + Buffer.byteLength(JSON.stringify(record)), 0);
      const bytes = grown + (from > 1 ? (known?.bytes ?? 0) : 0);
      keepNewest(this.#measured, taskId, { seq: records.at(-1)?.seq ?? seq, bytes }, maxMeasured);
      return bytes;
    } catch (error) {
      // Deleted meanwhile.
      if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return 0;
      throw error;
    }
  }
}

/** Puts an entry last, and takes out those that stand first where there are too many. */
function keepNewest<V>(map: Map<string, V>, key: string, value: V, most: number): void {
  map.delete(key);
  map.set(key, value);
  for (const [oldest] of map) {
    if (map.size <= most) break;
    map.delete(oldest);
  }
}
