import type { Lease, TaskStateStore } from '../contracts/store.ts';

/**
 * Gives back a lease of a turn that was not run under it, so that the next owner need not wait: that one still learns of an owner before that
 * was lost. Where it fails, the lease runs out by itself.
 */
export async function giveBack(store: Pick<TaskStateStore, 'release'>, lease: Lease): Promise<void> {
  try {
    const { abandonedAt } = lease;
    if (abandonedAt == null) await store.release(lease);
    else await store.release(lease, abandonedAt);
  } catch {}
}
