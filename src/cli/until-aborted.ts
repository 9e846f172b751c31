import type { Unsubscribable } from 'rxjs';

/**
 * Runs what `start` subscribes to until it calls `done` or `failed`, or the signal is aborted: then it is left, and that is no error.
 * `start` is not called where the signal is aborted already.
 */
export function untilAborted(
  signal: AbortSignal,
  start: (done: () => void, failed: (error: unknown) => void) => Unsubscribable,
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return resolve();
    const subscription = start(
      () => {
        signal.removeEventListener('abort', leave);
        resolve();
      },
      (error) => {
        signal.removeEventListener('abort', leave);
        reject(error);
      },
    );
    function leave(): void {
      subscription.unsubscribe();
      resolve();
    }
    signal.addEventListener('abort', leave, { once: true });
  });
}
