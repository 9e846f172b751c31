import type { Clock } from '../../core/contracts/index.ts';

/** Waits for a promise, but not longer than that; what becomes of it later is its own business. */
export async function within(
  promise: Promise<unknown>,
  { ms, clock }: { readonly ms: number; readonly clock: Clock },
): Promise<void> {
  let cancel = () => {};
  const late = new Promise<void>((resolve) => {
    cancel = clock.schedule(ms, resolve);
  });
  await Promise.race([promise.catch(() => {}), late]);
  cancel();
}
