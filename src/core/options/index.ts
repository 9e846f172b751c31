// What a turn runs with.
import type {
  AgentLoopConfig,
  ChildLink,
  Clock,
  Lease,
  Logger,
  OnLength,
  OnLimit,
  TaskStateStore,
  Under,
} from '../contracts/index.ts';
import type { HookLists } from '../hooks/hook-table.ts';
import type { Answers, Commit } from '../journal/index.ts';

/** What a turn needs that is not its kernel. The core knows this interface, and `src/options` gives it. */
export interface Outside {
  /** Cancels a turn of any process, after its child turns. Errors: those of the store. */
  cancel(taskId: string, options: OfStore & { readonly reason: string }): Promise<void>;

  /**
   * Cancels child turns under the lease of their parent turn, also those that another owner runs. Errors: those of the store, and
   * `UNAVAILABLE` if one is not over by the deadline.
   */
  cancelChildren(children: readonly ChildLink[], options: OfStore & CancelChildren): Promise<void>;

  /** Delivers answers to the owner of a turn; records them if it has none. Errors as `recordsOfAnswers`; `TERMINAL`, `BUSY`; those of the store. */
  answer(taskId: string, options: OfStore & { readonly answers: Answers }): Promise<void>;

  /** Writes the records that a retry of this task lacks because its writer died. Errors: `BUSY` as `onBusy` says; those of the store. */
  completeRetry(taskId: string, options: OfStore & CompleteRetry): Promise<void>;

  /** Whether a child turn, at any depth, got further since the first resume that counts towards `maxResumes`. Errors: those of the store. */
  childrenAdvanced(past: Commit, store: TaskStateStore): Promise<boolean>;

  /** Finds the earlier runs of a turn whose process was lost, and writes the spans that were lost with it. */
  restoreRuns(config: ResolvedConfig, past: Commit, options: RestoreRuns): RestoredRuns;
}

interface OfStore {
  readonly store: TaskStateStore;
  readonly clock: Clock;
}

interface CancelChildren {
  readonly reason: string;
  readonly deadlineMs: number;
  readonly under: Under | undefined;
  /** When the process of the parent turn was last seen alive, if it was lost. */
  readonly parentLostAt: number | undefined;
}

interface CompleteRetry {
  /** Of the retry. */
  readonly newTaskId: string;
  /** Any context. */
  readonly contextId: undefined;
  readonly onBusy: 'wait' | 'fail';
  /** Ends the wait for another writer. */
  readonly signal: AbortSignal;
}

export interface RestoreRuns {
  readonly store: TaskStateStore;
  /** Of the run that takes the turn over. */
  readonly lease: Lease;
  /** For a child turn: when the process of its parent turn was last seen alive, if that was lost too. */
  readonly parentLostAt: number | undefined;
}

/** What the earlier runs of a turn left. */
export interface RestoredRuns {
  /** When the last run was last seen alive, if it was lost. Milliseconds since 1970. */
  readonly lostAt: number | undefined;
  /** Whether the spans of the last run exist. */
  readonly hasSpans: boolean;
  /** Settles once the spans are written; never rejects. Absent if no process was lost. */
  readonly restoring?: Promise<void>;
}

/** A validated configuration, with all defaults. */
export interface ResolvedConfig extends AgentLoopConfig {
  readonly toolProviders: NonNullable<AgentLoopConfig['toolProviders']>;
  readonly extensions: NonNullable<AgentLoopConfig['extensions']>;
  readonly hooks: HookLists;
  readonly outside: Outside;
  /** Checks the configuration of an agent that takes the turn over, and adds the defaults. Errors: `INVALID_CONFIG`. */
  readonly resolve: (config: AgentLoopConfig) => ResolvedConfig;
  readonly maxIterations: number;
  readonly onLimit: OnLimit;
  readonly onLength: OnLength;
  readonly toolConcurrency: number;
  readonly modelSilenceMs: number;
  readonly toolListTimeoutMs: number;
  readonly toolTimeoutMs: number;
  readonly toolFailureMode: 'continue' | 'fail';
  readonly abortGraceMs: number;
  readonly leaseMs: number;
  readonly storeDeadlineMs: number;
  readonly maxResumes: number;
  readonly maxHandOffs: number;
  readonly subAgentEvents: 'all' | 'records' | 'none';
  readonly enableTracing: boolean;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly generateId: () => string;
}
