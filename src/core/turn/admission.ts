import type { Observable } from 'rxjs';
import type { Signal } from '../journal/signals.ts';
import type { LoopState } from '../journal/state.ts';

/** A turn whose lease this process has. */
export interface OpenedTurn {
  readonly state: LoopState;
  /** Its journal is new. */
  readonly created: boolean;
}

/** `queued`: another turn is before it, so a resume cannot get it any further yet. */
export interface Admitted {
  readonly queued: boolean;
}

/** What a turn passes before its first event. */
export interface Admission {
  /**
   * Stands before the run, and may refuse it: the run that it gives errors then, before anything of the turn is recorded, and the turn is lost
   * with that error. Called for each subscription, as an operator is. Not asked about a turn that is resumed.
   */
  readonly before?: (run$: Observable<Signal>) => Observable<Signal>;
  /**
   * Called where this process has the lease, and nothing was shown yet. Emits once where the turn may begin or is resumed; an error gives the
   * lease back and loses the turn.
   */
  readonly opened?: (turn: OpenedTurn) => Observable<Admitted>;
}

const marker: unique symbol = Symbol.for('millrace.admission');

/** Options of a turn that starts only where it is admitted. */
export function withAdmission<O extends object>(options: O, admission: Admission): O {
  return Object.assign({}, options, { [marker]: admission });
}

/** The admission of these options, where they have one. */
export function admissionOf(options: object): Admission | undefined {
  const admission: unknown = Reflect.get(options, marker);
  return isAdmission(admission) ? admission : undefined;
}

function isAdmission(value: unknown): value is Admission {
  return typeof value === 'object' && value !== null && ('before' in value || 'opened' in value);
}
