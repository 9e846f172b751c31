import type { Usage } from '../core/contracts/index.ts';
import type { BatchRow } from './batch-row.ts';

/** How far a batch is. Rows of earlier starts count, too. */
export interface BatchProgress<T = unknown> {
  readonly id: string;
  /**
   * `running`, until the last one: `completed` when each item has a row; `budget` when the budget is used up; `failures` after `maxFailures`; `stopped` when `signal` was
   * aborted.
   */
  readonly state: 'running' | 'completed' | 'budget' | 'failures' | 'stopped';
  /** How many items there are, where that is known. */
  readonly total?: number;
  /** Items whose turn has completed. */
  readonly completed: number;
  /** Failed and cancelled ones. */
  readonly failed: number;
  /** Items whose turn asks something. */
  readonly suspended: number;
  /** How many of these three have their row of an earlier start. */
  readonly earlier: number;
  /** Items whose turn runs now. */
  readonly running: number;
  /** Read from the source and not started. */
  readonly waiting: number;
  /** Of all rows. */
  readonly usage: Usage;
  /** Of all rows, in US dollars; absent where that of one is not known. */
  readonly cost?: number;
  /** Rows a second since the batch was started, those of earlier starts left out. */
  readonly perSecond: number;
  /** Milliseconds until the last row, where `total` is known. */
  readonly etaMs?: number;
  /** The row that is new; absent in the first and in the last progress. */
  readonly row?: BatchRow<T>;
}
