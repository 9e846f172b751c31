import type { Clock } from './clock.ts';

/** A call is looked at that often in the time that it may be silent, so that a chunk sets no timer. */
const looks = 8;

/** Watches one model call after another for silence. A call is noticed at the latest when an eighth of its time more is over. */
export class ModelSilence {
  #onSilence: (() => void) | undefined;
  #clock: Clock | undefined;
  #ms = 0;
  #heard = false;
  #quiet = 0;
  #cancel: (() => void) | undefined;

  /** Calls `onSilence` once the call has said nothing for `ms`, unless it has ended before. */
  watch(clock: Clock, ms: number, onSilence: () => void): void {
    this.end();
    this.#onSilence = onSilence;
    this.#clock = clock;
    this.#ms = ms;
    this.#quiet = 0;
    this.#heard = false;
    this.#arm();
  }

  /** A chunk has come. */
  heard(): void {
    this.#heard = true;
  }

  end(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#onSilence = undefined;
  }

  #arm(): void {
    this.#cancel = this.#clock?.schedule(this.#ms / looks, () => this.#look());
  }

  #look(): void {
    this.#quiet = this.#heard ? 0 : this.#quiet + 1;
    this.#heard = false;
    if (this.#quiet < looks) return this.#arm();
    const onSilence = this.#onSilence;
    this.end();
    onSilence?.();
  }
}
