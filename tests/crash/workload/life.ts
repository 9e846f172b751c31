/** A moment at which a process may die: `append:sent`, `model:called`, `tool:started`, … */
export type Moment = string;

/**
 * The life of a process, or of what stands for one. `reach` is called at each moment; one that is dead by then never gets past it: the
 * promise that it is given stays open for ever.
 */
export interface Life {
  reach(moment: Moment): void | Promise<void>;
}

export interface Doom {
  /** The number of the moment, from 1. */
  readonly at: number;
  readonly signal: 'SIGKILL' | 'SIGSTOP';
  /** How long after `…:sent` it strikes, so that what was sent gets some way. Milliseconds. */
  readonly lagMs: number;
}

/** Sends this process a signal at a moment. */
export class DoomedLife implements Life {
  readonly #doom: Doom | undefined;
  #reached = 0;

  constructor(doom: Doom | undefined) {
    this.#doom = doom;
  }

  /** How many moments there were. */
  get reached(): number {
    return this.#reached;
  }

  reach(moment: Moment): void {
    // Between the last look at the clock and the first effect of a tool nobody can fence it off: a pause there proves nothing.
    if (this.#doom?.signal === 'SIGSTOP' && moment === 'tool:entered') return;
    this.#reached++;
    if (this.#reached !== this.#doom?.at) return;
    const { signal, lagMs } = this.#doom;
    const strike = () => process.kill(process.pid, signal);
    if (moment.endsWith(':sent') && lagMs > 0) setTimeout(strike, lagMs);
    else strike();
  }
}
