/** A moment at which a process may die: `append:sent`, `model:called`, `tool:started`, … */
export type Moment = string;

/**
 * The life of a process, or of what stands for one. `reach` is called at each moment; one that is dead by then never gets past it: the
 * promise that it is given stays open for ever.
 */
export interface Life {
  reach(moment: Moment, about?: StoreCall): void | Promise<void>;
}

/** A call of the store that a moment belongs to. */
export interface StoreCall {
  readonly taskId: string;
  /** Of the records that are appended. */
  readonly types: readonly string[];
}

/**
 * Which moments of a tree count: those of appends, the one where the intent of a child turn is durable, the ones where a child turn, or the
 * turn at the top, has been taken.
 */
export type MomentKind = 'append' | 'child-intent' | 'child-taken' | 'root-taken';

/** Ids of child turns are made of their parent's and the call's. */
export function isChildTask(taskId: string): boolean {
  return taskId.includes(':');
}

function isOfKind(kind: MomentKind | undefined, moment: Moment, about: StoreCall | undefined): boolean {
  switch (kind) {
    case undefined:
      return true;
    case 'append':
      return moment.startsWith('append:');
    case 'child-intent':
      return moment === 'append:answered' && isChild(about) && about?.types.includes('tool.intent') === true;
    case 'child-taken':
      return moment === 'acquire:answered' && isChild(about);
    case 'root-taken':
      return moment === 'acquire:answered' && about !== undefined && !isChild(about);
  }
}

function isChild(about: StoreCall | undefined): boolean {
  return about !== undefined && isChildTask(about.taskId);
}

export interface Doom {
  /** The number of the moment, from 1. */
  readonly at: number;
  readonly signal: 'SIGKILL' | 'SIGSTOP';
  /** How long after `…:sent` it strikes, so that what was sent gets some way. Milliseconds. */
  readonly lagMs: number;
  /** Default: every moment counts. */
  readonly of?: MomentKind;
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

  reach(moment: Moment, about?: StoreCall): void {
    // Between the last look at the clock and the first effect of a tool nobody can fence it off: a pause there proves nothing.
    if (this.#doom?.signal === 'SIGSTOP' && moment === 'tool:entered') return;
    if (!isOfKind(this.#doom?.of, moment, about)) return;
    this.#reached++;
    if (this.#reached !== this.#doom?.at) return;
    const { signal, lagMs } = this.#doom;
    const strike = () => process.kill(process.pid, signal);
    if (moment.endsWith(':sent') && lagMs > 0) setTimeout(strike, lagMs);
    else strike();
  }
}
