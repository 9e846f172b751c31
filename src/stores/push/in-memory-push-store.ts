import { type Clock, systemClock } from '../../core/contracts/index.ts';
import { checkArguments, pushStoreArguments } from '../check-arguments.ts';
import { MemoryTable } from '../table/table.ts';
import { TablePushStore } from './table-push-store.ts';

/**
 * Keeps registrations in the memory of this process: a restart loses them. Every method answers at once. Memory: what is registered, and
 * 1,000 that are over.
 */
export class InMemoryPushStore extends TablePushStore<'now', 'now'> {
  static {
    checkArguments(InMemoryPushStore.prototype, pushStoreArguments);
  }

  constructor({ clock = systemClock }: { readonly clock?: Clock } = {}) {
    super(new MemoryTable(), { clock, keepMs: Number.POSITIVE_INFINITY, keepMost: 1_000 });
  }
}
