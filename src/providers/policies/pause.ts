import { Observable } from 'rxjs';
import type { Clock } from '../../core/contracts/index.ts';

/** Completes once `ms` milliseconds are over. Unsubscribing takes the timer back. */
export function pause(clock: Clock, ms: number): Observable<never> {
  return new Observable((subscriber) => clock.schedule(ms, () => subscriber.complete()));
}
