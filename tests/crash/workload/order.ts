import type { ErrorCode } from 'millrace';
import type { Doom } from './life.ts';

export interface Task {
  readonly taskId: string;
  /** Of its plan. */
  readonly seed: number;
}

export type StoreAddress =
  | { readonly type: 'lmdb'; readonly path: string }
  | { readonly type: 'postgres'; readonly url: string; readonly schema: string }
  | { readonly type: 'redis'; readonly url: string; readonly prefix: string; readonly strict: boolean };

/** What a child is told to do: to run turns, or to go on with them. */
export interface Order {
  readonly store: StoreAddress;
  /** The ledger file. */
  readonly world: string;
  readonly tasks: readonly Task[];
  readonly leaseMs: number;
  /** Of the delays in this child. */
  readonly seed: number;
  readonly doom?: Doom;
  /** Whether to take up again a turn that was lost to it. One that somebody else holds is waited for in any case. */
  readonly persistent: boolean;
  /** The workload of trees that the turns are of. Default: turns alone. */
  readonly workload?: string;
  /** Default `'run'`. */
  readonly work?: TreeWork;
  readonly outage?: Outage;
  /** Of the server on the loopback that has the remote agent of the workload. */
  readonly remotePort?: number;
}

/**
 * What a process does with a tree: runs it, or continues it; runs it until it waits for an answer; starts it a second time, beside its owner;
 * looks for turns that nobody runs, and resumes them; cancels it; serves the remote agent that it calls, until the process is killed.
 */
export type TreeWork = 'run' | 'run-until-asked' | 'watch' | 'sweep' | 'cancel' | 'serve';

/** The store is away for a while, for this process. */
export interface Outage {
  /** Whose append it begins at. */
  readonly of: 'root' | 'child';
  /** The number of that append, from 1. */
  readonly at: number;
  readonly ms: number;
  /** Whether calls are refused, or answered only when it is over. */
  readonly kind: 'refused' | 'silent';
  /** Which journals are away: those of whole trees, of the turns at the top, or of their child turns. */
  readonly away: 'all' | 'root' | 'children';
}

/** `ended`: the turn has its terminal record. Else the error that lost it. */
export type Outcome =
  | { readonly ended: true; readonly status: string; readonly text: string; readonly usedTokens?: number }
  | { readonly ended: false; readonly code: ErrorCode | 'unknown'; readonly message: string };

export type Report =
  | { readonly type: 'ready' }
  | { readonly type: 'lost'; readonly taskId: string; readonly code: ErrorCode | 'unknown'; readonly message: string }
  | { readonly type: 'outage' }
  /** The remote agent can be reached. */
  | { readonly type: 'serving' }
  | { readonly type: 'task'; readonly taskId: string; readonly outcome: Outcome }
  /** Nothing of the order is left to do; so many moments were reached. */
  | { readonly type: 'idle'; readonly reached: number };
