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

/** Of a server of the mixed load. */
export interface MixedSettings {
  readonly folder: string;
  /** The address of Redis; absent for LMDB in the folder. */
  readonly redis?: string;
  readonly keys: readonly { readonly id: string; readonly key: string }[];
}

export interface MixedReady {
  readonly type: 'ready';
  readonly url: string;
  readonly grpcAddress: string;
  readonly mcpUrl: string;
}

/** What a server of the mixed load tells of itself, after full collections. Bytes. */
export interface MixedMeasure {
  readonly type: 'measure';
  readonly heap: number;
  /** Memory of its own: the heap, buffers, code. 0 where the system does not tell. */
  readonly own: number;
  /** Pages of files that it has mapped, those of LMDB among them: shared, and given back when something else needs them. 0 as above. */
  readonly mapped: number;
  readonly sockets: number;
  /** Rejections and exceptions that nobody handled since the last measure. */
  readonly unhandled: readonly string[];
}
