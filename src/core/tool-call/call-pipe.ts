import { mergeMap, Observable, type Subscriber, type Subscription } from 'rxjs';
import { DirectSubscriber } from '../streams/index.ts';
import type { ToolSignal } from './running-tool.ts';

/** A call that has a place of `mergeMap`. */
export interface PlacedCall {
  readonly callId: string;
  readonly index: number;
  /** Completes when the call has its result or asks. */
  readonly place: Subscriber<ToolSignal>;
}

/** Adds a call to those that have a place, in call order. */
export function enterLine(line: PlacedCall[], placed: PlacedCall): void {
  const last = line.at(-1);
  if (!last || last.index <= placed.index) line.push(placed);
  else
    line.splice(
      line.findIndex(({ index }) => index > placed.index),
      0,
      placed,
    );
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
