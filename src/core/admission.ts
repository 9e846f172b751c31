import type { Observable } from 'rxjs';
import type { Signal } from './signals.ts';

/**
 * Stands before the run of a new turn, and may refuse it: the run that it gives errors then, before anything of the turn is recorded, and the
 * turn is lost with that error. Called for each subscription, as an operator is.
 */
export type Admission = (run$: Observable<Signal>) => Observable<Signal>;

const marker: unique symbol = Symbol.for('millrace.admission');

/** Options of a turn that starts only where it is admitted. */
export function withAdmission<O extends object>(options: O, admission: Admission): O {
  return Object.assign({}, options, { [marker]: admission });
}

/** The run as the admission of these options gives it; as it is where they have none. */
export function admitted(options: object, run$: Observable<Signal>): Observable<Signal> {
  const admission: unknown = Reflect.get(options, marker);
  return isAdmission(admission) ? admission(run$) : run$;
}

function isAdmission(value: unknown): value is Admission {
  return typeof value === 'function';
}
