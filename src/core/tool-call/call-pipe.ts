import type { Context } from '@opentelemetry/api';
import { mergeMap, Observable, type Subscriber, type Subscription } from 'rxjs';
import type { LoopState, PendingToolCall, Signal, ToolResultRecord } from '../journal/index.ts';
import { DirectSubscriber } from '../streams/index.ts';
import { CallChecks, Deadlines } from './call-limits.ts';
import type { RunningTool, ToolSignal } from './running-tool.ts';
import { decideCall, isSequential, type PlannedRecord } from './tool-plan.ts';
import type { ToolCallDeps } from './tool-results.ts';

/** A call that has a place of `mergeMap`. */
export interface PlacedCall {
  readonly callId: string;
  readonly index: number;
  /** Completes when the call has its result or asks. */
  readonly place: Subscriber<ToolSignal>;
  /** Once its tool is called. */
  running: RunningTool | undefined;
}

export const noStarts: readonly PlacedCall[] = [];

/** Who has a batch run. */
export interface BatchOwner {
  give(signal: Signal): void;
  /** The last that is heard of the batch, as `end`. */
  fail(error: unknown): void;
  end(): void;
}

/** The batch that a pipe runs the calls of. */
export interface PipedBatch {
  /** A call has got its place. */
  arrive(index: number, place: Subscriber<ToolSignal>): void;
  take(signal: ToolSignal): void;
  failed(error: unknown): void;
  /** The check of a call has answered: it is decided about again. */
  decideAgain(callId: string): void;
  /** The check of a call took too long. */
  settle(refused: ToolResultRecord): void;
}

/**
 * `calls$.pipe(mergeMap(runCall, toolConcurrency))` for the batches of a loop, one after another: a pipe for each batch would cost more than a
 * call in it. Knows the calls that have a place: those that wait for the next append, those that are busy, and the one that runs alone. Holds no
 * resource while no batch runs.
 */
export class CallPipe {
  /** Calls that run, are being checked, or are in doubt; without a place where a check or an answer did not wait for one. */
  readonly busy = new Map<string, PlacedCall | undefined>();
  /** The call that runs alone, where one does. */
  alone: string | undefined;
  /** Of the calls that run, or are being checked. */
  readonly deadlines: Deadlines;
  readonly #deps: ToolCallDeps;
  #batch: PipedBatch | undefined;
  #signals$: Observable<ToolSignal> | undefined;
  #calls: Subscriber<number> | undefined;
  #running: Subscription | undefined;
  /** How many calls the buffer of `mergeMap` holds, which cannot be read. */
  #buffered = 0;
  /** Calls that have a place and are not busy, in call order. */
  #waiting: PlacedCall[] = [];
  /** Checks that have not answered. A cancel does not wait for them. */
  #checks: CallChecks | undefined;

  constructor(deps: ToolCallDeps) {
    this.#deps = deps;
    this.deadlines = new Deadlines(deps.config.clock);
  }

  begin(batch: PipedBatch): void {
    this.#batch = batch;
    if (this.#running) return;
    this.#signals$ ??= this.#pipe();
    const signals = new DirectSubscriber<ToolSignal>({
      next: (signal) => this.#batch?.take(signal),
      error: (error) => this.#batch?.failed(error),
      complete: () => {},
    });
    this.#running = this.#signals$.subscribe(signals);
  }

  #pipe(): Observable<ToolSignal> {
    const calls$ = new Observable<number>((calls) => {
      this.#calls = calls;
    });
    const runCall = (index: number) =>
      new Observable<ToolSignal>((place) => {
        this.#buffered--;
        this.#batch?.arrive(index, place);
      });
    return calls$.pipe(mergeMap(runCall, this.#deps.config.toolConcurrency));
  }

  /** A call of the batch wants a place. */
  add(index: number): void {
    this.#buffered++;
    this.#calls?.next(index);
  }

  /** Whether all of that many calls are busy: then there is nothing to decide. */
  hasAll(calls: number): boolean {
    return this.#waiting.length === 0 && this.busy.size === calls;
  }

  /** A call that is not busy waits, in call order. */
  enter(placed: PlacedCall): void {
    const waiting = this.#waiting;
    const last = waiting.at(-1);
    if (!last || last.index <= placed.index) waiting.push(placed);
    else
      waiting.splice(
        waiting.findIndex(({ index }) => index > placed.index),
        0,
        placed,
      );
  }

  /** A call is not busy any more: `mergeMap` passes its place to the next. */
  free(callId: string): void {
    const placed = this.busy.get(callId);
    this.busy.delete(callId);
    if (this.alone === callId) this.alone = undefined;
    placed?.place.complete();
  }

  /**
   * Decides about the calls that wait, in call order, and adds what is to be written of them to `planned`; returns those that start. A
   * `sequential` one waits, and all after it, until it is alone.
   */
  takeUp(state: LoopState, traceContext: Context, planned: PlannedRecord[]): readonly PlacedCall[] {
    const starts: PlacedCall[] = [];
    for (let placed = this.#waiting[0]; placed && this.alone === undefined; placed = this.#waiting[0]) {
      const pending = state.calls.at(placed.index);
      const isOver = !pending || pending.result !== undefined || pending.question !== undefined;
      if (isOver || this.busy.has(placed.callId)) {
        this.#waiting.shift();
        this.#passBy(placed, isOver);
        continue;
      }
      const decided = decideCall(this.#deps, { pending, state, traceContext });
      const isStart = decided !== undefined && 'type' in decided && decided.type === 'tool.intent';
      const isAlone = isStart && isSequential(this.#deps, pending.call);
      if (isAlone && this.busy.size > 0) break;
      this.#waiting.shift();
      if (isStart) {
        this.busy.set(placed.callId, placed);
        if (isAlone) this.alone = placed.callId;
        planned.push(decided);
        starts.push(placed);
      } else if (decided instanceof Promise) this.awaitCheck(pending, decided, placed);
      else {
        if (decided) planned.push(decided);
        placed.place.complete();
      }
    }
    return starts;
  }

  /** The call is busy until its check has answered. `placed`: where it has a place. */
  awaitCheck(pending: PendingToolCall, done: Promise<unknown>, placed?: PlacedCall): void {
    const { callId } = pending;
    this.busy.set(callId, placed);
    this.#checks ??= new CallChecks(this.#deps, this.deadlines, (refused) => this.#batch?.settle(refused));
    const checks = this.#checks;
    checks.add(pending);
    void done.then(() => {
      if (!checks.has(callId)) return;
      checks.end(callId);
      this.#batch?.decideAgain(callId);
    });
  }

  /** Waits for no check any more. */
  leaveChecks(reason: unknown): void {
    for (const callId of this.#checks?.leave(reason) ?? []) this.busy.delete(callId);
  }

  /** The batch has ended. Where calls of it still have a place or wait for one, all that runs is left. */
  end(): void {
    this.#batch = undefined;
    this.deadlines.stop();
    const isEmpty = this.busy.size === 0 && this.#waiting.length === 0 && this.#buffered === 0;
    if (isEmpty && this.#running?.closed === false) return;
    this.#running?.unsubscribe();
    this.#running = undefined;
    for (const placed of this.busy.values()) placed?.running?.leave();
    this.busy.clear();
    this.alone = undefined;
    this.#waiting = [];
    this.#buffered = 0;
    this.#checks = undefined;
  }

  /** Frees the place of a call that has its result or asks; one that became busy without a place gets this one. */
  #passBy(placed: PlacedCall, isOver: boolean): void {
    if (isOver || this.busy.get(placed.callId)) placed.place.complete();
    else this.busy.set(placed.callId, placed);
  }
}
