import type { Lease, TaskStateStore } from '../stores/interfaces.ts';

/** Gives back a lease that is not needed any more, so that the next owner need not wait. Where that fails, it runs out by itself. */
export async function giveBack(store: Pick<TaskStateStore, 'release'>, lease: Lease): Promise<void> {
  try {
    await store.release(lease);
  } catch {}
}
