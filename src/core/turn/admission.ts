import type { Observable } from 'rxjs';
import type { LoopState, Signal } from '../journal/index.ts';

/** A turn whose lease this process has. */
export interface OpenedTurn {
  readonly state: LoopState;
  /** Whether its journal is new. */
  readonly created: boolean;
  /** Of its lease: higher than that of every earlier run of the turn. */
  readonly epoch: number;
}

/** `queued`: another turn of the context is ahead of it, so a resume makes no progress yet. */
export interface Admitted {
  readonly queued: boolean;
}

/** Admission control of a turn. */
export interface Admission {
  /** The context of a new task whose caller passed none. An existing task keeps its own: a default is not compared. */
  readonly contextId?: string;
  /**
   * Wraps the run of a new turn, and may refuse it: the returned Observable then errors before any record is written. Called per
   * subscription, as an operator is; not called for a resumed turn.
   */
  readonly wrapRun?: (run$: Observable<Signal>) => Observable<Signal>;
  /**
   * Called when this process has acquired the lease, before the first event. Emits once when the turn may start or continue; an error
   * releases the lease and errors the turn.
   */
  readonly onLease?: (turn: OpenedTurn) => Observable<Admitted>;
}

const marker: unique symbol = Symbol.for('millrace.admission');

/** Adds an admission to the options of a turn. */
export function withAdmission<O extends object>(options: O, admission: Admission): O {
  return Object.assign({}, options, { [marker]: admission });
}

/** The admission in these options, if any. */
export function admissionOf(options: object): Admission | undefined {
  const admission: unknown = Reflect.get(options, marker);
  return admission !== undefined && isAdmission(admission) ? admission : undefined;
}

function isAdmission(value: unknown): value is Admission {
  return (
    typeof value === 'object' && value !== null && ('wrapRun' in value || 'onLease' in value || 'contextId' in value)
  );
}
