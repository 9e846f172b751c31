import { Observable, type Subscriber } from 'rxjs';
import { AgentLoopError, type Clock, type FollowSignal } from '../../core/contracts/index.ts';
import { isTerminal, type JournalRecord } from '../../core/journal/index.ts';
import type { LiveTask } from './live-task.ts';

export interface FollowDeps {
  /** The task where this process runs it. */
  live(): LiveTask | undefined;
  read(): Promise<readonly JournalRecord[]>;
  readonly clock: Clock;
  readonly pollMs: number;
}

/**
 * The records from a seq on: of a task that runs here as they are saved, with its deltas; of any other as its snapshots show them, one
 * look every `pollMs`. Moves from one to the other as the task does.
 */
export function followSnapshots(deps: FollowDeps, from: number): Observable<FollowSignal> {
  return new Observable((subscriber) => {
    const follower = new Follower(deps, from, subscriber);
    subscriber.add(() => follower.stop());
    follower.look();
  });
}

class Follower {
  readonly #deps: FollowDeps;
  readonly #to: Subscriber<FollowSignal>;
  readonly #from: number;
  /** The last record that this reader has passed, emitted or before its start. */
  #seq = 0;
  #stopWaiting: (() => void) | undefined;

  constructor(deps: FollowDeps, from: number, to: Subscriber<FollowSignal>) {
    this.#deps = deps;
    this.#from = from;
    this.#to = to;
  }

  look(): void {
    if (this.#to.closed) return;
    const task = this.#deps.live();
    if (task) this.#followLive(task);
    else void this.#readOnce();
  }

  stop(): void {
    this.#stopWaiting?.();
  }

  #followLive(task: LiveTask): void {
    const signals = new Observable<FollowSignal>((subscriber) => task.shown.follow(subscriber, this.#seq + 1));
    this.#to.add(
      signals.subscribe({
        next: (signal) => this.#take(signal),
        // Somebody else has it now, here or elsewhere, or nobody.
        error: () => this.look(),
        complete: () => this.#to.complete(),
      }),
    );
  }

  async #readOnce(): Promise<void> {
    try {
      const records = await this.#deps.read();
      for (const record of records) this.#take({ type: 'record', record });
      const last = records.at(-1);
      if (last && isTerminal(last)) return this.#to.complete();
    } catch (error) {
      if (!AgentLoopError.isInstance(error) || !error.retryable) return this.#to.error(error);
    }
    if (!this.#to.closed) this.#stopWaiting = this.#deps.clock.schedule(this.#deps.pollMs, () => this.look());
  }

  #take(signal: FollowSignal): void {
    if (this.#to.closed) return;
    if (signal.type === 'delta') return this.#to.next(signal);
    const { seq } = signal.record;
    if (seq <= this.#seq) return;
    this.#seq = seq;
    if (seq >= this.#from) this.#to.next(signal);
  }
}
