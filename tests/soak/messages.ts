import type { Task } from '../crash/workload/order.ts';

/** Turns that share a ledger file. */
export interface Batch {
  readonly world: string;
  readonly tasks: readonly Task[];
}

/** What a worker tells. Bytes. */
export type WorkerReport =
  | { readonly type: 'ended'; readonly taskId: string; readonly status: string }
  | { readonly type: 'lost'; readonly taskId: string; readonly code: string; readonly message: string }
  | { readonly type: 'memory'; readonly heap: number; readonly rss: number };
