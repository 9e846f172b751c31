import pLimit from 'p-limit';
import { defer, Observable } from 'rxjs';
import { type Clock, systemClock } from '../../core/contracts/index.ts';
import { measureWait } from '../../observability/spans/instruments.ts';
import { limitWait } from './limit-wait.ts';
import { aClock, assertGiven, assertOptions, someCount, someMs } from './policy-options.ts';
import { definePolicy, type ProviderPolicy } from './provider-policy.ts';

export interface LimitConcurrencyOptions {
  /** Calls under way at a time. */
  readonly max: number;
  /** How long a call may wait for its turn; it then fails with `PROVIDER_TIMEOUT`. Milliseconds; default 600,000. */
  readonly maxWaitMs?: number | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

/**
 * Lets so many calls be under way at a time; the others wait, first come, first served. The limit belongs to what this gives: all turns,
 * and all providers that the same policy is put around, share it. A call keeps its place until its answer is complete, it failed or it
 * was left. A call that is left while it waits is never made. Memory: a few hundred bytes for each call that waits, without a limit.
 * Errors: `INVALID_CONFIG`, naming the option.
 */
export function limitConcurrency(options: LimitConcurrencyOptions): ProviderPolicy {
  assertOptions('limitConcurrency', options, { max: someCount, maxWaitMs: someMs, clock: aClock });
  assertGiven('limitConcurrency', 'max', options.max, 'give the number of calls that may be under way at a time');
  const { max, maxWaitMs = 600_000, clock = systemClock } = options;
  const limit = pLimit(max);
  return definePolicy(
    'limitConcurrency',
    (stream) => (params) =>
      new Observable((subscriber) => {
        const over = new Promise<void>((resolve) => subscriber.add(resolve));
        const waited = measureWait('limitConcurrency');
        const cancelWait = limitWait('limitConcurrency', { ms: maxWaitMs, clock }, subscriber);
        void limit(() => {
          waited?.();
          cancelWait();
          if (!subscriber.closed) defer(() => stream(params)).subscribe(subscriber);
          return over;
        });
      }),
  );
}
