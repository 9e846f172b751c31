import type { Context } from '@opentelemetry/api';
import { mergeMap, Observable, type Subscriber, type Subscription } from 'rxjs';
import type { LoopState, PendingToolCall, ToolResultRecord } from '../journal/index.ts';
import { DirectSubscriber } from '../streams/index.ts';
import { CallChecks, Deadlines } from './call-limits.ts';
import type { RunningTool, ToolSignal } from './running-tool.ts';
import { decideCall, isSequential, type PlannedRecord } from './tool-plan.ts';
import type { ToolCallDeps } from './tool-results.ts';

/** A call that occupies one of the `toolConcurrency` slots of `mergeMap`. */
export interface SlotHolder {
  readonly callId: string;
  readonly index: number;
  /** Completes when the call has its result or asks. */
  readonly slot: Subscriber<ToolSignal>;
  /** Set when its tool is called. */
  running: RunningTool | undefined;
}

export const noStarts: readonly SlotHolder[] = [];

/** The batch whose calls a pipe runs. */
export interface PipedBatch {
  /** A call received its slot. */
  onSlot(index: number, slot: Subscriber<ToolSignal>): void;
  onSignal(signal: ToolSignal): void;
  onError(error: unknown): void;
  /** The check of a call has ended; the call is decided again. */
  decideAgain(callId: string): void;
  /** The check of a call timed out. */
  settle(refused: ToolResultRecord): void;
}

/**
 * `calls$.pipe(mergeMap(runCall, toolConcurrency))`, shared by the batches of a loop, one after another: a pipe for each batch would cost more
 * than a call. Tracks the calls that hold a slot: waiting for the next append, busy, or running alone. Holds no resource between batches.
 */
export class CallPipe {
  /** Calls that run, are being checked, or are in doubt. The value is undefined for a check or a doubt that started without a slot. */
  readonly busy = new Map<string, SlotHolder | undefined>();
  /** The id of the `sequential` call that runs, if one does. */
  alone: string | undefined;
  /** Time limits of the calls that run or are being checked. */
  readonly deadlines: Deadlines;
  readonly #deps: ToolCallDeps;
  #batch: PipedBatch | undefined;
  #signals$: Observable<ToolSignal> | undefined;
  #calls: Subscriber<number> | undefined;
  #running: Subscription | undefined;
  /** The length of `mergeMap`'s buffer, which cannot be read. */
  #buffered = 0;
  /** Calls that hold a slot and are not busy, in call order. */
  #waiting: SlotHolder[] = [];
  /** Running checks. A cancel does not wait for them. */
  #checks: CallChecks | undefined;

  constructor(deps: ToolCallDeps) {
    this.#deps = deps;
    this.deadlines = new Deadlines(deps.segment.config.clock);
  }

  begin(batch: PipedBatch): void {
    this.#batch = batch;
    if (this.#running) return;
    this.#signals$ ??= this.#pipe();
    const signals = new DirectSubscriber<ToolSignal>({
      next: (signal) => this.#batch?.onSignal(signal),
      error: (error) => this.#batch?.onError(error),
      complete: () => {},
    });
    this.#running = this.#signals$.subscribe(signals);
  }

  #pipe(): Observable<ToolSignal> {
    const calls$ = new Observable<number>((calls) => {
      this.#calls = calls;
    });
    const runCall = (index: number) =>
      new Observable<ToolSignal>((slot) => {
        this.#buffered--;
        this.#batch?.onSlot(index, slot);
      });
    return calls$.pipe(mergeMap(runCall, this.#deps.segment.config.toolConcurrency));
  }

  /** Requests a slot for a call of the batch. */
  add(index: number): void {
    this.#buffered++;
    this.#calls?.next(index);
  }

  /** Whether all open calls are busy: then there is nothing to decide. */
  areAllBusy(openCalls: number): boolean {
    return this.#waiting.length === 0 && this.busy.size === openCalls;
  }

  /** Inserts a call into the waiting ones, in call order. */
  addWaiting(holder: SlotHolder): void {
    const waiting = this.#waiting;
    const last = waiting.at(-1);
    if (!last || last.index <= holder.index) waiting.push(holder);
    else
      waiting.splice(
        waiting.findIndex(({ index }) => index > holder.index),
        0,
        holder,
      );
  }

  /** Ends a busy call: `mergeMap` gives its slot to the next one. */
  free(callId: string): void {
    const holder = this.busy.get(callId);
    this.busy.delete(callId);
    if (this.alone === callId) this.alone = undefined;
    holder?.slot.complete();
  }

  /**
   * Decides waiting calls in call order, appends their records to `planned`, and returns the calls that start. A `sequential` call, and all
   * after it, wait until no other call is busy.
   */
  decideWaiting(state: LoopState, traceContext: Context, planned: PlannedRecord[]): readonly SlotHolder[] {
    const starts: SlotHolder[] = [];
    for (let holder = this.#waiting[0]; holder && this.alone === undefined; holder = this.#waiting[0]) {
      const pending = state.calls.at(holder.index);
      const isOver = !pending || pending.result !== undefined || pending.question !== undefined;
      if (isOver || this.busy.has(holder.callId)) {
        this.#waiting.shift();
        this.#skip(holder, isOver);
        continue;
      }
      const decided = decideCall(this.#deps, { pending, state, traceContext });
      const isStart = decided !== undefined && 'type' in decided && decided.type === 'tool.intent';
      const isAlone = isStart && isSequential(this.#deps, pending.call);
      if (isAlone && this.busy.size > 0) break;
      this.#waiting.shift();
      if (isStart) {
        this.busy.set(holder.callId, holder);
        if (isAlone) this.alone = holder.callId;
        planned.push(decided);
        starts.push(holder);
      } else if (decided instanceof Promise) this.awaitCheck(pending, decided, holder);
      else {
        if (decided) planned.push(decided);
        holder.slot.complete();
      }
    }
    return starts;
  }

  /** The call is busy until its check has ended. `holder`: set if it holds a slot. */
  awaitCheck(pending: PendingToolCall, done: Promise<unknown>, holder?: SlotHolder): void {
    const { callId } = pending;
    this.busy.set(callId, holder);
    this.#checks ??= new CallChecks(this.#deps, this.deadlines, (refused) => this.#batch?.settle(refused));
    const checks = this.#checks;
    checks.add(pending);
    void done.then(() => {
      if (!checks.has(callId)) return;
      checks.end(callId);
      this.#batch?.decideAgain(callId);
    });
  }

  /** Abandons all running checks. */
  abandonChecks(reason: unknown): void {
    for (const callId of this.#checks?.abandon(reason) ?? []) this.busy.delete(callId);
  }

  /** Ends the batch. If calls still hold or await a slot, stops them and unsubscribes; the next batch subscribes anew. */
  end(): void {
    this.#batch = undefined;
    this.deadlines.stop();
    const isEmpty = this.busy.size === 0 && this.#waiting.length === 0 && this.#buffered === 0;
    if (isEmpty && this.#running?.closed === false) return;
    this.#running?.unsubscribe();
    this.#running = undefined;
    for (const holder of this.busy.values()) holder?.running?.stop();
    this.busy.clear();
    this.alone = undefined;
    this.#waiting = [];
    this.#buffered = 0;
    this.#checks = undefined;
  }

  /** Frees the slot of a call that needs none; a call that became busy without a slot keeps it. */
  #skip(holder: SlotHolder, isOver: boolean): void {
    if (isOver || this.busy.get(holder.callId)) holder.slot.complete();
    else this.busy.set(holder.callId, holder);
  }
}
