import type { Clock } from '../core/contracts/index.ts';
import { RecentMap } from '../recent-map.ts';
import type { Owner } from './kept-in-stores.ts';
import { limitReached } from './protocol-errors.ts';

interface KeptBytesOptions {
  readonly clock: Clock;
  /** Of one owner. */
  readonly max: number;
  /** What the stores keep for an owner; may stop at more than `most`. */
  readonly count: (owner: Owner, most: number) => Promise<number>;
  /** What the next turn of a context copies from the stores into its journal. */
  readonly history: (contextId: string) => Promise<number>;
}

/** Something that is to be kept. */
export interface ToKeep {
  readonly bytes: number;
  /** Of a message: its conversation. */
  readonly contextId?: string;
  /** Of a message that starts a turn: whether that is the first one of the conversation, or has a history. */
  readonly turn?: 'first' | 'later';
}

/** The journal has a message as it came, and as its turn or its command holds it; the conversation has it once. */
const copies = 3;
/** What the shortest turn keeps besides its message. */
const turnBytes = 1_000;

/** Something that was let in since the last count. */
interface Entry {
  readonly what: ToKeep;
  /** What it adds to the stores. */
  readonly bytes: number;
}

/** What the stores have of a conversation. */
interface History {
  readonly bytes: number;
  /** What was let in and is in them for certain. */
  readonly has: ReadonlySet<Entry>;
}

/** What is known of an owner. Times are in milliseconds since 1970. */
interface Ledger {
  /** What the stores kept when they were counted; absent before the first count. */
  stored?: number;
  /** From then on a request waits for another count. */
  until: number;
  /** From then on another count may begin. */
  soon: number;
  /** What was let in since the last count and may not be in the stores yet. */
  readonly open: LetIn;
  /** What was let in since the last count and is in the stores, or never will be. */
  readonly settled: LetIn;
  addedBytes: number;
  counting?: Promise<void> | undefined;
}

const recountMs = 30_000;
const soonMs = 2_000;
/** Counting takes at most one part in so many of the time. */
const share = 20;
/** Those who sent last. */
const maxOwners = 10_000;

/**
 * Limits what the stores keep for each owner. The stores are counted once, at the owner's first request; after that a request costs the same
 * however much there is: it adds what it lets in, at once, so that requests that come together do not pass the limit together. A message
 * counts as often as the stores hold it, and with what its turn copies of the conversation, also of messages that are on their way to that.
 *
 * What turns write, what other processes let in and what is deleted shows with the next count. It begins with a request, at the earliest 2 seconds
 * after the last one, takes at most a twentieth of the time, and is waited for only beyond the limit, or 30 seconds after the last one. So
 * an owner may exceed the limit by what models and tools write in turns that were let in (as many as `maxTurns` at a time), and by what as many
 * other processes let in, between two counts; by messages of one process not at all. A turn that is refused behind its admission (`busy`)
 * leaves its id in the conversation, some 100 bytes that are not counted, until the next turn of the context.
 *
 * Memory: 10,000 owners, and for each what was let in since the last count, and the turns of it that run.
 */
export class KeptBytes {
  readonly #options: KeptBytesOptions;
  readonly #ledgers = new RecentMap<string, Ledger>(maxOwners);

  constructor(options: KeptBytesOptions) {
    this.#options = options;
  }

  /**
   * Has something of this length written for an owner, where there is room. Errors: that of the limit; what the stores say that are counted; what
   * `write` rejects with.
   */
  async keep<T>(owner: Owner, what: ToKeep, write: () => Promise<T>): Promise<T> {
    const settle = await this.admit(owner, what);
    return write().finally(settle);
  }

  /**
   * Lets something of this length in, to be written then; the caller says when it was, or will not be: of a message that starts a turn, when
   * that is over. Errors: as `keep`, without `write`.
   */
  async admit(owner: Owner, what: ToKeep): Promise<() => void> {
    const { entry, ledger } = await this.#admit(owner, what);
    return () => {
      if (ledger.open.delete(entry)) ledger.settled.add(entry);
    };
  }

  async #admit(owner: Owner, what: ToKeep): Promise<{ readonly entry: Entry; readonly ledger: Ledger }> {
    const { clock, max } = this.#options;
    const ledger = this.#ledgerOf(owner);
    let history = await this.#historyOf(what, ledger);
    const bytes = () => keptOf(what, history, ledger);
    const isOver = () => (ledger.stored ?? 0) + ledger.addedBytes + bytes() > max;
    const now = clock.now();
    if (ledger.stored === undefined || now >= (isOver() ? ledger.soon : ledger.until)) {
      await this.#count(owner, ledger);
      history = await this.#historyOf(what, ledger);
    }
    // The next request awaits it if necessary, and fails with its error.
    else if (now >= ledger.soon) this.#count(owner, ledger).catch(() => {});
    if (isOver()) throw this.#full(ledger, bytes());
    const entry: Entry = { what, bytes: bytes() };
    ledger.open.add(entry);
    ledger.addedBytes += entry.bytes;
    return { entry, ledger };
  }

  async #historyOf({ contextId, turn }: ToKeep, { settled }: Ledger): Promise<History> {
    if (contextId === undefined || turn !== 'later') return { bytes: 0, has: new Set() };
    const has = new Set(settled.of(contextId));
    return { bytes: await this.#options.history(contextId), has };
  }

  #ledgerOf({ group, isAnonymous }: Owner): Ledger {
    const key = isAnonymous ? '' : group;
    const ledger = this.#ledgers.get(key) ?? newLedger();
    this.#ledgers.set(key, ledger);
    return ledger;
  }

  #count(owner: Owner, ledger: Ledger): Promise<void> {
    ledger.counting ??= this.#recount(owner, ledger).finally(() => {
      ledger.counting = undefined;
    });
    return ledger.counting;
  }

  async #recount(owner: Owner, ledger: Ledger): Promise<void> {
    const { clock, max, count } = this.#options;
    const begun = clock.now();
    // What is on its way now may be in the count or not, and counts besides until the next one.
    const settled = [...ledger.settled];
    ledger.stored = await count(owner, max);
    for (const entry of settled) {
      ledger.settled.delete(entry);
      ledger.addedBytes -= entry.bytes;
    }
    const at = clock.now();
    const rest = share * (at - begun);
    ledger.until = at + Math.max(recountMs, rest);
    ledger.soon = at + Math.max(soonMs, rest);
  }

  #full({ soon }: Ledger, bytes: number): Error {
    const { max, clock } = this.#options;
    return limitReached({
      reason: 'KEPT_LIMIT',
      message: `What is kept for you would exceed maxKeptBytes (${max} bytes); have tasks and conversations deleted.`,
      metadata: { limit: 'maxKeptBytes', max: String(max), bytes: String(bytes) },
      retryAfterMs: Math.max(1_000, soon - clock.now()),
    });
  }
}

function newLedger(): Ledger {
  return { until: 0, soon: 0, open: new LetIn(), settled: new LetIn(), addedBytes: 0 };
}

/** What was let in, in its order, also by conversation: an owner may have thousands of turns that run. */
class LetIn {
  readonly #all = new Set<Entry>();
  readonly #contexts = new Map<string, Set<Entry>>();

  [Symbol.iterator](): Iterator<Entry> {
    return this.#all.values();
  }

  of(contextId: string): Iterable<Entry> {
    return this.#contexts.get(contextId) ?? [];
  }

  add(entry: Entry): void {
    this.#all.add(entry);
    const { contextId } = entry.what;
    if (contextId === undefined) return;
    const entries = this.#contexts.get(contextId) ?? new Set<Entry>();
    this.#contexts.set(contextId, entries.add(entry));
  }

  /** Returns whether it was there. */
  delete(entry: Entry): boolean {
    const { contextId } = entry.what;
    const entries = contextId === undefined ? undefined : this.#contexts.get(contextId);
    if (contextId !== undefined && entries?.delete(entry) && entries.size === 0) this.#contexts.delete(contextId);
    return this.#all.delete(entry);
  }
}

/** What something adds to the stores. */
function keptOf({ bytes, contextId, turn }: ToKeep, history: History, { open, settled }: Ledger): number {
  if (contextId === undefined) return bytes;
  let kept = bytes * copies + (turn ? turnBytes : 0) + history.bytes;
  if (turn !== 'later') return kept;
  for (const added of [open, settled])
    for (const entry of added.of(contextId)) if (!history.has.has(entry)) kept += entry.what.bytes;
  return kept;
}
