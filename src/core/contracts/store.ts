import type { Observable } from 'rxjs';
import type { JournalRecord, Stamped, TurnStarted } from '../journal/records.ts';
import type { PersistedLoopState } from '../journal/turn-result.ts';
import type { MessageStore } from './context-stores.ts';
import type { TaskState } from './events.ts';
import type { Message } from './messages.ts';
import type { LLMChunk } from './provider.ts';
import type { MaybePromise } from './values.ts';

/** Task ids match this; others are refused as `INVALID_INPUT`. */
export const taskIdPattern = /^[A-Za-z0-9_.:-]{1,128}$/;

/** The right to append to one journal. An older epoch is fenced off by a newer one. */
export interface Lease {
  readonly taskId: string;
  /** Who may append under the lease. */
  readonly owner: string;
  readonly epoch: number;
  /** The journal's last seq when the lease was taken: what the owner reads up to and appends after. */
  readonly seq: number;
  /** How long it lasts without a renewal. */
  readonly leaseMs: number;
  /**
   * If the previous owner never released its lease: when it last acquired or renewed it, in milliseconds since 1970. Null if it released the
   * lease, or there was none. Absent if the store does not know.
   */
  readonly abandonedAt?: number | null;
}

/** The lease of a parent turn: the right to its child turns follows from it. */
export interface Under {
  /** The parent turn. */
  readonly taskId: string;
  readonly epoch: number;
}

/** A request to a turn from a process without its lease. Deduplicated by `id`. */
export type Command = { readonly id: string } & (
  | { readonly type: 'cancel'; readonly reason?: string }
  | { readonly type: 'pause'; readonly reason?: string }
  | { readonly type: 'steer'; readonly message: Message }
  | {
      readonly type: 'answer';
      readonly questionId: string;
      readonly answer: unknown;
      /** The message that brought the answer, for those who show the task. */
      readonly message?: Message;
    }
);

/** What an append says besides its records. */
export interface AppendOptions {
  /** The state of the task after these records. */
  readonly status: TaskState;
  /** True if the engine waits for this append before it continues; a `strict` store confirms durability only for these. */
  readonly barrier: boolean;
}

/** An ephemeral piece of a model call or a tool, for readers of other processes. Never part of the journal. */
export type Delta =
  | {
      readonly type: 'llm';
      readonly epoch: number;
      readonly iteration: number;
      readonly attempt: number;
      readonly chunk: Exclude<LLMChunk, { type: 'done' }>;
    }
  | { readonly type: 'tool-progress'; readonly epoch: number; readonly callId: string; readonly update: unknown };

/** What `follow` emits: records as they become durable, and deltas between them, in the order of the turn. */
export type FollowSignal =
  | { readonly type: 'record'; readonly record: JournalRecord }
  | { readonly type: 'delta'; readonly delta: Delta };

/** Options of `post`: how many commands a task may have. */
export interface PostOptions {
  /** How many commands the task may have, those that were followed included. Default: any number. */
  readonly most?: number | undefined;
}

/** Where `read` begins. */
export interface ReadOptions {
  /** The first seq to give; default 1. */
  readonly from?: number | undefined;
}

/** Which tasks `list` gives. Without members: all of the store. */
export interface TaskQuery {
  readonly state?: TaskState | undefined;
  readonly contextId?: string | undefined;
  /**
   * Only tasks that anybody may acquire to run their turn: `submitted` or `working`, and not held. They come in the order of the store.
   * Default false.
   */
  readonly runnable?: boolean | undefined;
  /**
   * With `runnable`: leaves out turns that back off until later than this, in milliseconds since 1970. The cost does not depend on how many those
   * are. Default: none is left out.
   */
  readonly dueBy?: number | undefined;
  /** Only tasks of this agent. */
  readonly agentId?: string | undefined;
  /** Only turns that no other turn started: child turns are left out. Default false. */
  readonly roots?: boolean | undefined;
  /** Only the child turns of this turn, in any context. The cost does not depend on how many other tasks there are. */
  readonly parentTaskId?: string | undefined;
  /**
   * The index by the time of the status: tasks of contexts whose id begins with `group` and a colon, by `statusAt`, the newest first, and of one
   * time by their ids, the last first. `after`: only tasks after this position in that order. `since`: only tasks whose `statusAt` is this or
   * later, ISO 8601. For pages of what belongs to one owner of many contexts.
   */
  readonly byStatus?:
    | {
        readonly group: string;
        readonly after?: Pick<TaskSummary, 'statusAt' | 'taskId'> | undefined;
        readonly since?: string | undefined;
      }
    | undefined;
  /**
   * Only tasks after this one in the order of `list`, the newest first: for pages, whose cost does not depend on how many tasks come before. The task itself need not fit the query. `NOT_FOUND` where it is
   * gone. Not with `runnable` or `byStatus`: `INVALID_INPUT`. Default: from the newest.
   */
  readonly afterTaskId?: string | undefined;
  /** Default 50. */
  readonly limit?: number | undefined;
}

/** What is known of a task without reading its journal. */
export interface TaskSummary {
  readonly taskId: string;
  readonly contextId: string;
  readonly agentId: string;
  /** The parent turn; absent for a turn that no other turn started. */
  readonly parentTaskId?: string;
  readonly state: TaskState;
  readonly seq: number;
  /** ISO 8601. */
  readonly createdAt: string;
  /** When its last record was written. ISO 8601. */
  readonly updatedAt: string;
  /** When the last record of the status was written: the turn started, resumed, asked, was answered, suspended or ended. ISO 8601. */
  readonly statusAt: string;
  /** When a turn that backs off makes its model call again. Absent for any other. ISO 8601. */
  readonly dueAt?: string;
  /** Whether somebody holds an unexpired lease. */
  readonly held: boolean;
  /** The bytes of its records and its commands as JSON. Absent where the store does not count them, and for tasks of version 0.1. */
  readonly bytes?: number;
}

/** Whether the server is configured so that the store can keep its guarantees. */
export interface StoreCheck {
  /** Whether the store answers. */
  readonly ok: boolean;
  /** One sentence each, with the cure. */
  readonly warnings: readonly string[];
}

/**
 * The journal of turns: one append-only log and one small head a task, changed together and only by compare-and-append.
 *
 * Every failure is an `AgentLoopError` with one of the codes `UNAVAILABLE FULL FENCED REWOUND BUSY TERMINAL NOT_FOUND
 * CONFLICT SCHEMA POISON`. A method that can answer at once may return the value instead of a promise; it then throws
 * instead of rejecting. Records are given and taken by reference and never changed by either side.
 */
export interface TaskStateStore {
  /**
   * Conversations, as durable as the journals: the default `messageStore` of agents. If a store has none, agents that use it need that option.
   */
  readonly messages?: MessageStore;

  /** Whether the journals end with this process. Absent: they outlive it. */
  readonly isEphemeral?: boolean;

  /**
   * Writes `started` as seq 1, epoch 0, with no owner. Idempotent: where the task exists, nothing is written and
   * `created` is false. `started` of the answer is the record that stands in the journal.
   */
  create(
    taskId: string,
    started: Stamped<TurnStarted>,
  ): MaybePromise<{ readonly created: boolean; readonly started: Stamped<TurnStarted> }>;

  /**
   * Takes the lease with a new, higher epoch where nobody holds it or it expired. `under` is the lease of the parent turn; the head
   * keeps it, also after the lease is released. Where the head has an `under` of the same parent, a newer epoch is granted at once,
   * whoever owns the lease; an older epoch is `FENCED`, also after the lease expired or was released; an equal epoch is granted as
   * without `under`. A lease never lasts longer than its `leaseMs` from now, whatever the clock of its owner said: a store whose leases
   * run on the clocks of its users shortens one that ends later, and answers `BUSY` for the rest. Errors: `NOT_FOUND`; `BUSY` while
   * another lease lasts, with `retryAfterMs`; `FENCED`; `TERMINAL` once the turn has ended; `SCHEMA` for a journal of a newer version.
   */
  acquire(taskId: string, owner: string, leaseMs: number, under?: Under): MaybePromise<Lease>;

  /**
   * Appends records whose seq continues the journal's, all or none, and renews the lease. Checked in this order:
   * `NOT_FOUND`; `FENCED` (owner or epoch is not the head's); applied before (same epoch, first seq at or below the head's):
   * answers as then; `TERMINAL`; `REWOUND` (first seq does not follow the head's). Calls may be pipelined; they apply in
   * order. A lease that ran out but that nobody took still appends.
   */
  append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): void | Promise<void>;

  /** Renews the lease: it expires `leaseMs` from now. Errors: `FENCED`, `NOT_FOUND`. */
  renew(lease: Lease): MaybePromise<void>;

  /**
   * Releases the lease. Does nothing if it is no longer held or the task is deleted. `abandonedAt`: the value of the next lease, passed on by a
   * holder that did not run the turn. Default null.
   */
  release(lease: Lease, abandonedAt?: number): MaybePromise<void>;

  /**
   * Takes the lease away from its owner, in one step: the task has no owner and a higher epoch then, so the old owner is `FENCED` at its
   * next append or renewal, and anybody may acquire the task at once. False where nobody owns the task, or the turn has ended. An owner
   * whose lease has expired still owns it. Errors: `NOT_FOUND`.
   */
  breakLease(taskId: string): MaybePromise<boolean>;

  /** Emits the commands posted to a task, those posted before first, each id once; never completes by itself. */
  commands(taskId: string): Observable<Command>;

  /**
   * Stores a command for the owner of the turn, the present or the next one. Returns the stored command of that id: if the id was posted before,
   * the first one, and nothing changes. Returns `undefined` and stores nothing if the id is new and the task has `most` commands already. The
   * cost does not depend on their number. Errors: `NOT_FOUND`, `TERMINAL`.
   */
  post(taskId: string, command: Command, options?: PostOptions): MaybePromise<Command | undefined>;

  /** The records from a seq on, in order. Errors: `NOT_FOUND`, `SCHEMA`, `POISON`. */
  read(taskId: string, options?: ReadOptions): MaybePromise<readonly JournalRecord[]>;

  /**
   * The records from a seq on, then each new one as it becomes durable, and the deltas of the open attempt: a subscriber that joins in the
   * middle of one first receives its text so far as one chunk. Completes after a terminal record. Errors as `read` does.
   */
  follow(taskId: string, options?: ReadOptions): Observable<FollowSignal>;

  /** Publishes a delta to the subscribers of `follow`. Never throws; may drop anything but the text of the open attempt. */
  publish(taskId: string, delta: Delta): void;

  /** The fold of the journal, or null where there is none. */
  load(taskId: string): MaybePromise<PersistedLoopState | null>;

  /** The summary of one task in any state, as in `list`; reads only its head. Null if there is no such task. */
  describe(taskId: string): MaybePromise<TaskSummary | null>;

  /** Tasks, the newest first, or in the order of `byStatus`. Read from an index that is eventually consistent with the journals. */
  list(query?: TaskQuery): MaybePromise<readonly TaskSummary[]>;

  /**
   * Deletes the task and all turns below it: the child turns that its records link to and that name it as their parent. Works for a damaged
   * journal too. An owner gets `NOT_FOUND` at its next append. Does nothing if there is no such task.
   */
  delete(taskId: string): MaybePromise<void>;

  /** Checks how the server of the store is configured. */
  check(): MaybePromise<StoreCheck>;
}
