import type { Observable } from 'rxjs';
import type { Signal } from '../journal/signals.ts';

/** What a new turn passes before its first event. */
export interface Admission {
  /**
   * Stands before the run, and may refuse it: the run that it gives errors then, before anything of the turn is recorded, and the turn is lost
   * with that error. Called for each subscription, as an operator is.
   */
  readonly before: (run$: Observable<Signal>) => Observable<Signal>;
  /**
   * Called where this process has the lease, and nothing was shown yet; `created`: the journal is new. Emits once where the turn may begin; an
   * error gives the lease back and loses the turn.
   */
  readonly opened?: (created: boolean) => Observable<unknown>;
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
  return typeof value === 'object' && value !== null && 'before' in value;
}
