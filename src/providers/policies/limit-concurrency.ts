import pLimit from 'p-limit';
import { defer, Observable } from 'rxjs';
import { measureWait } from '../../observability/spans/instruments.ts';
import { assertGiven, assertOptions, someCount } from './policy-options.ts';
import { definePolicy, type ProviderPolicy } from './provider-policy.ts';

export interface LimitConcurrencyOptions {
  /** Calls under way at a time. */
  readonly max: number;
}

/**
 * Lets so many calls be under way at a time; the others wait, first come, first served. The limit belongs to what this gives: all turns,
 * and all providers that the same policy is put around, share it. A call keeps its place until its answer is complete, it failed or it
 * was left. A call that is left while it waits is never made. Memory: a few hundred bytes for each call that waits, without a limit.
 * Errors: `INVALID_CONFIG`, naming the option.
 */
export function limitConcurrency(options: LimitConcurrencyOptions): ProviderPolicy {
  assertOptions('limitConcurrency', options, { max: someCount });
  assertGiven('limitConcurrency', 'max', options.max, 'give the number of calls that may be under way at a time');
  const limit = pLimit(options.max);
  return definePolicy(
    'limitConcurrency',
    (stream) => (params) =>
      new Observable((subscriber) => {
        const over = new Promise<void>((resolve) => subscriber.add(resolve));
        const waited = measureWait('limitConcurrency');
        void limit(() => {
          waited?.();
          if (!subscriber.closed) defer(() => stream(params)).subscribe(subscriber);
          return over;
        });
      }),
  );
}
