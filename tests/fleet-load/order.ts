import type { WorkerOptions } from 'millrace/fleet';

export type Role = 'worker' | 'gateway' | 'observer';

/** What a process of the load is told. */
export interface Order {
  readonly role: Role;
  /** Of the queue, and of the journals unless they are in PostgreSQL. */
  readonly redis: string;
  readonly postgres: string | undefined;
  readonly name: string;
  /** Of the ledgers. */
  readonly folder: string;
  readonly turns: number;
  readonly seed: number;
  readonly observed: number;
  readonly worker: Pick<WorkerOptions, 'concurrency' | 'lockMs' | 'leaseMs' | 'stalledCheckMs' | 'sweepEveryMs'>;
}

/** What it tells its parent. Only when to look comes from it, not what is checked. */
export type Report =
  | { readonly type: 'ready' }
  /** The model is called for the last time in this turn. */
  | { readonly type: 'last'; readonly taskId: string }
  /** A tool runs that takes as long as the lock of the turn's job lasts. */
  | { readonly type: 'long'; readonly taskId: string }
  /** So many are submitted, or observed to their end. */
  | { readonly type: 'count'; readonly count: number }
  | { readonly type: 'cpu'; readonly ms: number };
