import type { Clock, TaskStateStore } from 'millrace';

/** A store with one bug, and the case of the contract that has to notice it. */
export interface BrokenStore {
  readonly bug: string;
  readonly noticedBy: string;
  create(options: { readonly clock: Clock }): TaskStateStore;
}

type StoreClass = new (options: { readonly clock: Clock }) => TaskStateStore;

export function broken(bug: string, noticedBy: string, Store: StoreClass): BrokenStore {
  return { bug, noticedBy, create: (options) => new Store(options) };
}
