import type { TaskStateStore } from '../../core/contracts/index.ts';

/** The store that a case runs on, and what the case may ask of its surroundings. */
export interface StoreUnderTest {
  readonly store: TaskStateStore;
  /** A second instance over the same data, as another process has it; `store` itself where there is no such thing. */
  readonly peer: TaskStateStore;
  /** Another instance over the same data whose clock is ahead; `store` itself where there is no such thing. */
  peerAhead(ms: number): Promise<TaskStateStore>;
  /** Milliseconds that a lease lasts in these cases. */
  readonly leaseMs: number;
  /** Milliseconds that a case waits for what has to come. */
  readonly deadlineMs: number;
  /** Lets time pass for leases. */
  advance(ms: number): Promise<void>;
  newTaskId(): string;
  /** Writes a record of an unknown type directly, bypassing the store's interface. */
  plantUnknownRecord?(taskId: string): Promise<void>;
}

/** One promise of the contract. Its title is stable: deviations are named by it. */
export interface ContractCase {
  readonly title: string;
  /** Left out where the harness does not offer it. */
  readonly needs?: 'plantUnknownRecord';
  run(subject: StoreUnderTest): Promise<void>;
}

/** Cases of one subject, in the order they run. */
export interface ContractGroup {
  readonly name: string;
  readonly cases: readonly ContractCase[];
}
