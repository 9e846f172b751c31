import type { Context } from '@opentelemetry/api';
import { mergeMap, Observable, type Subscriber, type Subscription } from 'rxjs';
import type { LoopState, PendingToolCall, Signal, ToolResultRecord } from '../journal/index.ts';
import { DirectSubscriber } from '../streams/index.ts';
import { CallChecks } from './call-limits.ts';
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

/** Hears of checks of calls that have not answered at once. */
export interface CheckOwner {
  /** The check of a call has answered: it is decided about again. */
  decideAgain(callId: string): void;
  /** The check of a call took too long. */
  settle(refused: ToolResultRecord): void;
}

export const noStarts: readonly PlacedCall[] = [];

/** The calls of a batch that have a place of `mergeMap`: those that wait for the next append, those that are busy, and the one that runs alone. */
export class CallLine {
  /** Calls that run, are being checked, or are in doubt; without a place where a check or an answer did not wait for one. */
  readonly busy = new Map<string, PlacedCall | undefined>();
  /** The call that runs alone, where one does. */
  alone: string | undefined;
  readonly #deps: ToolCallDeps;
  readonly #traceContext: Context;
  readonly #owner: CheckOwner;
  /** Calls that are not busy, in call order. */
  readonly #waiting: PlacedCall[] = [];
  /** Checks that have not answered. A cancel does not wait for them. */
  #checks: CallChecks | undefined;

  constructor(deps: ToolCallDeps, options: { readonly traceContext: Context; readonly owner: CheckOwner }) {
    this.#deps = deps;
    this.#traceContext = options.traceContext;
    this.#owner = options.owner;
  }

  /** Whether all of that many calls are busy: then there is nothing to decide. */
  hasAll(calls: number): boolean {
    return this.#waiting.length === 0 && this.busy.size === calls;
  }

  get hasPlaces(): boolean {
    return this.busy.size > 0 || this.#waiting.length > 0;
  }

  /** A call that is not busy waits, in call order. */
  enter(placed: PlacedCall): void {
    const line = this.#waiting;
    const last = line.at(-1);
    if (!last || last.index <= placed.index) line.push(placed);
    else
      line.splice(
        line.findIndex(({ index }) => index > placed.index),
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
  takeUp(state: LoopState, planned: PlannedRecord[]): readonly PlacedCall[] {
    const starts: PlacedCall[] = [];
    for (let placed = this.#waiting[0]; placed && this.alone === undefined; placed = this.#waiting[0]) {
      const pending = state.calls.at(placed.index);
      const isOver = !pending || pending.result !== undefined || pending.question !== undefined;
      if (isOver || this.busy.has(placed.callId)) {
        this.#waiting.shift();
        this.#passBy(placed, isOver);
        continue;
      }
      const decided = decideCall(this.#deps, { pending, state, traceContext: this.#traceContext });
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
    const checks = this.#checks ?? new CallChecks(this.#deps, (refused) => this.#owner.settle(refused));
    this.#checks = checks;
    checks.add(pending);
    void done.then(() => {
      if (!checks.has(callId)) return;
      checks.end(callId);
      this.#owner.decideAgain(callId);
    });
  }

  /** Waits for no check any more. */
  leaveChecks(reason: unknown): void {
    for (const callId of this.#checks?.leave(reason) ?? []) this.busy.delete(callId);
  }

  /** Frees the place of a call that has its result or asks; one that became busy without a place gets this one. */
  #passBy(placed: PlacedCall, isOver: boolean): void {
    if (isOver || this.busy.get(placed.callId)) placed.place.complete();
    else this.busy.set(placed.callId, placed);
  }
}

/** Who has a batch run. */
export interface BatchOwner {
  give(signal: Signal): void;
  /** The last that is heard of the batch, as `end`. */
  fail(error: unknown): void;
  end(): void;
}

/** The batch that a pipe runs the calls of. */
export interface PipedBatch {
  arrive(index: number, place: Subscriber<ToolSignal>): void;
  take(signal: ToolSignal): void;
  failed(error: unknown): void;
}

/**
 * `calls$.pipe(mergeMap(runCall, toolConcurrency))` for the batches of a loop, one after another: a pipe for each batch would cost more than a
 * call in it. Holds no resource while no batch runs.
 */
export class CallPipe {
  readonly #toolConcurrency: number;
  #signals$: Observable<ToolSignal> | undefined;
  #calls: Subscriber<number> | undefined;
  #running: Subscription | undefined;
  #batch: PipedBatch | undefined;
  /** Calls that wait for a place in the buffer of `mergeMap`. */
  #waiting = 0;

  constructor(toolConcurrency: number) {
    this.#toolConcurrency = toolConcurrency;
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
        this.#waiting--;
        this.#batch?.arrive(index, place);
      });
    return calls$.pipe(mergeMap(runCall, this.#toolConcurrency));
  }

  /** A call of the batch wants a place. */
  next(index: number): void {
    this.#waiting++;
    this.#calls?.next(index);
  }

  /** The batch has ended. Where calls of it still have a place or wait for one, all that runs is left. */
  end(hasPlaces: boolean): void {
    this.#batch = undefined;
    if (!hasPlaces && this.#waiting === 0 && this.#running?.closed === false) return;
    this.#running?.unsubscribe();
    this.#running = undefined;
    this.#waiting = 0;
  }
}
