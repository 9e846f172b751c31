import { resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { Observable, type Subscriber } from 'rxjs';
import { AgentLoopError, type Clock, invalidConfig, lessUsage, systemClock } from '../core/contracts/index.ts';
import { onAbort } from '../core/streams/index.ts';
import { ItemCheck, type PlacedItem, taskIdOf } from './batch-item.ts';
import {
  type BatchItem,
  type BatchOptions,
  checkBatchOptions,
  type ResolvedLimits,
  resolveLimits,
} from './batch-options.ts';
import type { BatchProgress } from './batch-progress.ts';
import { addSpent, type BatchRow, nothingSpent, type Spent } from './batch-row.ts';
import { agentRunner, type BatchRunner, type BatchTurns } from './batch-runner.ts';
import { type KnownRow, ResultsFile, spentInRows } from './results-file.ts';
import { runItem } from './run-item.ts';

/**
 * Runs many prompts, one turn each: a batch. Items are strings or objects, from an array or from any, also asynchronous, iterable. An item that
 * ends becomes a row, which is written to `out` and emitted, in the order in which they end; before it the first progress, after it the last.
 *
 * The task of an item is named by a hash of the batch's `id` and the item's `key`. Started again with the same `id`, `out` and store, after any end
 * of the process, the batch continues: items with a row are skipped, turns that the store has are continued or give their result. Rows of items
 * that are suspended are replaced once they have their answers.
 *
 * Completes after the last progress, also where items failed. Errors: `INVALID_CONFIG`; `INVALID_INPUT` for a bad item and for two of one key;
 * `CONFLICT` for another prompt under the key of a row, and while another run writes `out`; those of the source, of the file and of the store. Before it errors, and before it
 * completes because of the budget or of `maxFailures`, turns that run come to their end. Unsubscribing, and `signal`, stop them at once, so that they can be continued
 * where there is a store.
 *
 * At most `concurrency` turns run, and at most `window` items are read ahead. Memory: these, and for each item its key; for each row of an earlier
 * start a few numbers.
 */
export function runBatch<T = unknown, C = unknown>(
  items: BatchSource,
  options: BatchOptions<T, C>,
): Observable<BatchProgress<T>> {
  checkBatchOptions(options);
  const { out } = options;
  const id = options.id ?? (out === undefined ? crypto.randomUUID() : resolve(out));
  return new Observable((subscriber) => {
    const run = new BatchRun({ ...options, id }, subscriber);
    void run.run(items);
    return () => run.stop();
  });
}

/** The items of a batch: an array, a generator or an async iterable; a string is a prompt. Read one by one, as runners become free. */
export type BatchSource = Iterable<BatchItem | string> | AsyncIterable<BatchItem | string>;
type Step = IteratorResult<BatchItem | string, unknown>;
interface Reader {
  next(): Step | Promise<Step>;
  return?(): unknown;
}

export type BatchRunOptions<T, C> = BatchOptions<T, C> & { readonly id: string };

/** Why no more items are started. */
type Ending =
  | { readonly state: 'budget' | 'failures' | 'stopped' }
  | { readonly state: 'failed'; readonly cause: unknown };

/** After so many items that have their row the event loop gets its turn. */
const skippedAtOnce = 1_000;

/** One start of a batch. */
export class BatchRun<T, C> {
  readonly #options: BatchRunOptions<T, C>;
  readonly #subscriber: Subscriber<BatchProgress<T>>;
  readonly #clock: Clock;
  readonly #limits: ResolvedLimits;
  readonly #turns: BatchTurns<T>;
  readonly #stop = new AbortController();
  readonly #check = new ItemCheck();
  #results: ResultsFile | undefined;
  /** Read and not started; those that another process runs come last. */
  readonly #waiting: PlacedItem[] = [];
  readonly #held: PlacedItem[] = [];
  /** Whether the store may have turns of this batch that others hold. */
  #continues = true;
  #sourceEnded = false;
  #ending: Ending | undefined;
  readonly #counts = { completed: 0, failed: 0, suspended: 0, earlier: 0, fresh: 0, freshFailed: 0, running: 0 };
  #spent: Spent = nothingSpent;
  #startedAt = 0;
  /** What the source was asked for and has not given. */
  #asked: Promise<Step> | undefined;
  /** Wakes the reader: there is room for an item, or no more are wanted. */
  #wakeReader = () => {};
  #finish = () => {};

  /** Errors: `INVALID_CONFIG`. */
  constructor(options: BatchRunOptions<T, C>, subscriber: Subscriber<BatchProgress<T>>) {
    const { agent, clock = systemClock, turn } = options;
    this.#options = options;
    this.#subscriber = subscriber;
    this.#clock = clock;
    const runner: BatchRunner<T> = 'open' in agent ? agent : agentRunner(agent, turn);
    this.#limits = resolveLimits(options, runner.concurrency);
    this.#turns = runner.open(this.#stop.signal);
  }

  /** Resolves once nothing of it runs any more. Never rejects. */
  async run(source: BatchSource): Promise<void> {
    const { signal, out } = this.#options;
    const leave = signal && onAbort(signal, () => this.stop());
    if (signal?.aborted) this.stop();
    try {
      this.#results = await ResultsFile.open(out);
      this.#countEarlier(this.#results.known);
      this.#startedAt = this.#now();
      this.#emit();
      const over = new Promise<void>((resolve) => {
        this.#finish = resolve;
      });
      void this.#read(source, this.#results);
      await over;
    } catch (error) {
      this.#fail(error);
    } finally {
      leave?.();
    }
    await this.#results?.close().catch((error: unknown) => this.#fail(error));
    if (this.#ending?.state === 'failed') return this.#subscriber.error(this.#ending.cause);
    this.#emit({ state: this.#ending?.state ?? 'completed' });
    this.#subscriber.complete();
  }

  /** Stops the turns that run, so that they can be continued. */
  stop(): void {
    this.#ending ??= { state: 'stopped' };
    this.#stop.abort();
    this.#settle();
  }

  /** Starts no more; what runs comes to its end. */
  #fail(cause: unknown): void {
    if (this.#ending?.state !== 'failed') this.#ending = { state: 'failed', cause };
    this.#settle();
  }

  #countEarlier(known: ReadonlyMap<string, KnownRow>): void {
    for (const row of known.values()) {
      if (this.#runsAgain(row)) continue;
      this.#counts.earlier += 1;
      this.#counts[row.status === 'completed' ? 'completed' : 'failed'] += 1;
    }
    this.#spent = spentInRows(known);
    this.#checkBudget();
  }

  #runsAgain({ status }: KnownRow): boolean {
    return status === 'suspended' || (status !== 'completed' && this.#options.retryFailed === true);
  }

  async #read(source: BatchSource, results: ResultsFile): Promise<void> {
    try {
      const reader: Reader =
        Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
      while (!this.#ending) {
        const step = await this.#next(reader);
        if (step === undefined) continue;
        this.#asked = undefined;
        this.#sourceEnded = step.done === true;
        if (step.done) break;
        await this.#take(step.value, results);
      }
      // One that is asked for an item may never give it: nobody waits.
      if (!this.#sourceEnded) void Promise.resolve(reader.return?.()).catch(() => {});
    } catch (error) {
      this.#fail(error);
    }
    this.#settle();
  }

  /** `undefined` where something changed before the source gave an item: the item that it was asked for is still to come. */
  #next(reader: Reader): Promise<Step | undefined> {
    return new Promise((resolve, reject) => {
      this.#wakeReader = () => resolve(undefined);
      if (this.#open < this.#limits.window) this.#asked ??= Promise.resolve(reader.next());
      this.#asked?.then(resolve, reject);
    });
  }

  /** Errors: `INVALID_INPUT`, `CONFLICT`, those of the store. */
  async #take(given: BatchItem | string, { known: rows }: ResultsFile): Promise<void> {
    const item = this.#check.place(given);
    const known = rows.get(item.key);
    if (known && known.input !== item.input)
      throw new AgentLoopError(
        'CONFLICT',
        `${item.place}: the results have a row of the key "${item.key}" with another prompt; use another key, or another file and id.`,
      );
    if (known && !this.#runsAgain(known)) {
      if (this.#check.count % skippedAtOnce === 0) await setImmediate();
      return;
    }
    ((await this.#isHeld(item, rows.size > 0)) ? this.#held : this.#waiting).push(item);
    this.#startWaiting();
  }

  /** Items are started in order: where the store does not have the first one, and there are no rows, it has none. */
  async #isHeld({ key }: PlacedItem, hasRows: boolean): Promise<boolean> {
    if (!this.#turns.look || !this.#continues) return false;
    const found = await this.#turns.look(taskIdOf(this.#options.id, key));
    if (found === 'new' && !hasRows) this.#continues = false;
    return found === 'held';
  }

  /** How many are read and have no row. */
  get #open(): number {
    return this.#waiting.length + this.#held.length + this.#counts.running;
  }

  /** After each change. */
  #settle(): void {
    this.#startWaiting();
    if (this.#ending || this.#open < this.#limits.window) this.#wakeReader();
    const isDone = this.#sourceEnded && this.#open === 0;
    if (this.#counts.running === 0 && (this.#ending || isDone)) this.#finish();
  }

  #startWaiting(): void {
    while (!this.#ending && this.#counts.running < this.#limits.concurrency) {
      const heldIsDue = this.#sourceEnded || this.#open >= this.#limits.window;
      const item = this.#waiting.shift() ?? (heldIsDue ? this.#held.shift() : undefined);
      if (!item) return;
      this.#counts.running += 1;
      void this.#start(item);
    }
  }

  async #start(item: PlacedItem): Promise<void> {
    try {
      const known = this.#results?.known.get(item.key);
      const { retry } = this.#limits;
      const { id: batchId, prices } = this.#options;
      const failed = known?.status === 'suspended' ? undefined : known;
      const stop = this.#stop.signal;
      const run = { batchId, turns: this.#turns, retry, failed, prices, clock: this.#clock, stop };
      const row = await runItem(item, run);
      await this.#results?.append(row);
      this.#counts.running -= 1;
      this.#count(row, known);
    } catch (error) {
      this.#counts.running -= 1;
      if (!this.#stop.signal.aborted) this.#fail(error);
    }
    this.#settle();
  }

  #count(row: BatchRow<T>, known: KnownRow | undefined): void {
    this.#counts.fresh += 1;
    this.#counts[row.status === 'canceled' ? 'failed' : row.status] += 1;
    if (row.status === 'failed') this.#counts.freshFailed += 1;
    const { usage, cost } = row;
    this.#spent = addSpent(known ? without(this.#spent, known.spent) : this.#spent, { usage, cost });
    const { budget } = this.#limits;
    if (cost === undefined && budget.cost !== undefined) this.#fail(costUnknown(row.key));
    if (cost === undefined && usage.totalTokens === 0 && budget.tokens !== undefined) this.#fail(usageUnknown(row.key));
    this.#checkBudget();
    if (this.#counts.freshFailed >= this.#limits.maxFailures) this.#ending ??= { state: 'failures' };
    this.#emit({ row });
  }

  #checkBudget(): void {
    const { cost = Number.POSITIVE_INFINITY, tokens = Number.POSITIVE_INFINITY } = this.#limits.budget;
    const isUsedUp = (this.#spent.cost ?? 0) >= cost || this.#spent.usage.totalTokens >= tokens;
    if (isUsedUp) this.#ending ??= { state: 'budget' };
  }

  #emit({ state = 'running', row }: Partial<Pick<BatchProgress<T>, 'state' | 'row'>> = {}): void {
    const { completed, failed, suspended, earlier, fresh, running } = this.#counts;
    const total = this.#sourceEnded ? this.#check.count : this.#options.total;
    const seconds = (this.#now() - this.#startedAt) / 1_000;
    const perSecond = fresh === 0 || seconds <= 0 ? 0 : fresh / seconds;
    const left = total === undefined ? undefined : Math.max(0, total - completed - failed - suspended);
    this.#subscriber.next({
      id: this.#options.id,
      state,
      ...(total !== undefined && { total }),
      completed,
      failed,
      suspended,
      earlier,
      running,
      waiting: this.#waiting.length + this.#held.length,
      usage: this.#spent.usage,
      ...(this.#spent.cost !== undefined && { cost: this.#spent.cost }),
      perSecond,
      ...(left !== undefined && perSecond > 0 && { etaMs: (left / perSecond) * 1_000 }),
      ...(row && { row }),
    });
  }

  #now(): number {
    return this.#clock.elapsed?.() ?? this.#clock.now();
  }
}

/** A row takes the place of an earlier one, which it includes. */
function without(sum: Spent, part: Spent): Spent {
  const cost = sum.cost === undefined || part.cost === undefined ? undefined : sum.cost - part.cost;
  return { usage: lessUsage(sum.usage, part.usage), cost };
}

function usageUnknown(key: string): AgentLoopError {
  return invalidConfig(
    `budget.tokens needs a model that reports its usage; item "${key}" has none`,
    'give the agent the extension limits({ maxTokens }), which estimates it',
  );
}

function costUnknown(key: string): AgentLoopError {
  return invalidConfig(
    `budget.cost needs a model whose cost is known; the usage of item "${key}" has none`,
    'give prices, such as a ModelRegistry, or use budget.tokens',
  );
}
