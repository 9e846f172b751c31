import type { Observable } from 'rxjs';
import type { JournalRecord, Stamped, TurnStarted } from '../journal/records.ts';
import type { PersistedLoopState } from '../journal/turn-result.ts';
import type { MessageStore } from './context-stores.ts';
import type { TaskState } from './events.ts';
import type { Message } from './messages.ts';
import type { LLMChunk } from './provider.ts';
import type { MaybePromise } from './values.ts';

/** The pattern of task ids; others are refused with `INVALID_INPUT`. */
export const taskIdPattern = /^[A-Za-z0-9_.:-]{1,128}$/;

/** The right to append to one journal. A newer epoch fences off an older one. */
export interface Lease {
  readonly taskId: string;
  /** The id of the holder. */
  readonly owner: string;
  /** Higher than that of every lease before it. */
  readonly epoch: number;
  /** The journal's last seq when the lease was acquired: the owner reads up to it and appends after it. */
  readonly seq: number;
  /** How long it lasts without a renewal, in milliseconds. */
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
  /** Of the lease that the owner of the parent turn holds. */
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
      /** The message that contained the answer, for pages that show the task. */
      readonly message?: Message;
    }
);

/** Options of an append. */
export interface AppendOptions {
  /** The state of the task after these records. */
  readonly status: TaskState;
  /** True if the engine waits for this append before it continues; a `strict` store confirms durability only for these. */
  readonly barrier: boolean;
}

/** An ephemeral delta of a model call or a tool, for readers in other processes. Never part of the journal. */
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

/** Options of `post`. */
export interface PostOptions {
  /** The maximum number of commands of the task, including processed ones. Default: no limit. */
  readonly most?: number | undefined;
}

/** Options of `read` and `follow`. */
export interface ReadOptions {
  /** The first seq to return; default 1. */
  readonly from?: number | undefined;
}

/** Which tasks `list` returns. Without members: all. */
export interface TaskQuery {
  readonly state?: TaskState | undefined;
  readonly contextId?: string | undefined;
  /**
   * Only tasks whose lease can be acquired to run their turn: `submitted` or `working`, and not held. In an order that the store chooses.
   * Default false.
   */
  readonly runnable?: boolean | undefined;
  /**
   * With `runnable`: excludes turns that back off until later than this, in milliseconds since 1970. The cost does not depend on the number of
   * excluded turns. Default: none is excluded.
   */
  readonly dueBy?: number | undefined;
  /** Only tasks of this agent. */
  readonly agentId?: string | undefined;
  /** Only root turns: child turns are excluded. Default false. */
  readonly roots?: boolean | undefined;
  /** Only the child turns of this turn, in any context. The cost does not depend on the number of other tasks. */
  readonly parentTaskId?: string | undefined;
  /**
   * Queries the index by status time: tasks of contexts whose id begins with `group` and a colon, ordered by `statusAt`, the newest first, then
   * by id, descending. `after`: only tasks after this position in that order. `since`: only tasks whose `statusAt` is this or
   * later, ISO 8601. For paging through the tasks of one owner of many contexts.
   */
  readonly byStatus?:
    | {
        readonly group: string;
        readonly after?: Pick<TaskSummary, 'statusAt' | 'taskId'> | undefined;
        readonly since?: string | undefined;
      }
    | undefined;
  /**
   * Only tasks after this one in the order of `list`, the newest first: for paging; the cost does not depend on the number of preceding tasks.
   * The task itself need not match the query. `NOT_FOUND` if it was deleted. Not with `runnable` or `byStatus`: `INVALID_INPUT`. Default: from the newest.
   */
  readonly afterTaskId?: string | undefined;
  /** Default 50. */
  readonly limit?: number | undefined;
}

/** The head of a task, without its journal. */
export interface TaskSummary {
  readonly taskId: string;
  readonly contextId: string;
  readonly agentId: string;
  /** The parent turn; absent for a root turn. */
  readonly parentTaskId?: string;
  readonly state: TaskState;
  /** How many records the journal has. */
  readonly seq: number;
  /** ISO 8601. */
  readonly createdAt: string;
  /** When its last record was written. ISO 8601. */
  readonly updatedAt: string;
  /** When the last record of the status was written: the turn started, resumed, asked, was answered, suspended or ended. ISO 8601. */
  readonly statusAt: string;
  /** When a turn that backs off repeats its model call; absent for all others. ISO 8601. */
  readonly dueAt?: string;
  /** Whether a process holds an unexpired lease. */
  readonly held: boolean;
  /** The bytes of its records and its commands as JSON. Absent if the store does not count them, and for tasks of version 0.1. */
  readonly bytes?: number;
}

/** Whether the server is configured so that the store can keep its guarantees. */
export interface StoreCheck {
  /** Whether the store responds. */
  readonly ok: boolean;
  /** One sentence each, with the fix. */
  readonly warnings: readonly string[];
}

/**
 * The journal of turns: one append-only log and one small head per task, changed together and only by compare-and-append.
 *
 * Every failure is an `AgentLoopError` with one of the codes `UNAVAILABLE FULL FENCED REWOUND BUSY TERMINAL NOT_FOUND
 * CONFLICT SCHEMA POISON`. A method that can answer at once may return the value instead of a promise; it then throws
 * instead of rejecting. Records are passed by reference in both directions, and neither side changes them.
 */
export interface TaskStateStore {
  /**
   * Conversations, as durable as the journals: the default `messageStore` of agents. Absent: agents with this store need that option.
   */
  readonly messages?: MessageStore;

  /**
   * Whether conversations in that store are those of `messages`, and `append` writes the `givenFrom` of an extension's effects in place of their
   * `given`, which `read`, `follow` and `load` return from there. Without it each journal of an agent contains the conversation up to its turn.
   */
  refersTo?(messages: MessageStore): boolean;

  /** Whether the journals are lost when this process ends. Absent: they outlive it. */
  readonly isEphemeral?: boolean;

  /**
   * Writes `started` as seq 1, epoch 0, with no owner. Idempotent: if the task exists, nothing is written and
   * `created` is false. Returns the `started` record of the journal.
   */
  create(
    taskId: string,
    started: Stamped<TurnStarted>,
  ): MaybePromise<{ readonly created: boolean; readonly started: Stamped<TurnStarted> }>;

  /**
   * Acquires the lease with a new, higher epoch if it is free or expired. `under` is the lease of the parent turn; the head
   * stores it, also after the lease is released. If the head has an `under` of the same parent, a newer epoch is granted at once,
   * whatever owner holds the lease; an older epoch is `FENCED`, also after the lease expired or was released; an equal epoch is granted as
   * without `under`. A lease never lasts longer than its `leaseMs` from now, whatever its owner's clock said: a store whose leases
   * depend on the clocks of its clients shortens a lease that ends later, and errors with `BUSY` for the rest. Errors: `NOT_FOUND`; `BUSY` while
   * another lease lasts, with `retryAfterMs`; `FENCED`; `TERMINAL` once the turn has ended; `SCHEMA` for a journal of a newer version.
   */
  acquire(taskId: string, owner: string, leaseMs: number, under?: Under): MaybePromise<Lease>;

  /**
   * Appends records whose seq continues the journal's, atomically, and renews the lease. Checked in this order:
   * `NOT_FOUND`; `FENCED` (owner or epoch is not the head's); a repeated append (same epoch, first seq at or below the head's), which
   * returns as the first time; `TERMINAL`; `REWOUND` (first seq does not follow the head's). Calls may be pipelined; they apply in
   * order. An expired lease that no other owner has acquired can still append.
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
   * Revokes the lease of the owner, atomically: the task then has no owner and a higher epoch, so the old owner is `FENCED` at its
   * next append or renewal, and any process may acquire the task at once. Returns false if the task has no owner, or the turn has ended. An owner
   * whose lease has expired still owns it. Errors: `NOT_FOUND`.
   */
  breakLease(taskId: string): MaybePromise<boolean>;

  /** Emits the commands posted to a task, earlier ones first, each id once; never completes by itself. */
  commands(taskId: string): Observable<Command>;

  /**
   * Stores a command for the current or next owner of the turn. Returns the stored command of that id: if the id was posted before,
   * the first one, and nothing changes. Returns `undefined` and stores nothing if the id is new and the task has `most` commands already. The
   * cost does not depend on their number. Errors: `NOT_FOUND`, `TERMINAL`.
   */
  post(taskId: string, command: Command, options?: PostOptions): MaybePromise<Command | undefined>;

  /** The records from a seq on, in order. Errors: `NOT_FOUND`, `SCHEMA`, `POISON`. */
  read(taskId: string, options?: ReadOptions): MaybePromise<readonly JournalRecord[]>;

  /**
   * Emits the records from a seq on, then each new one as it becomes durable, and the deltas of the open attempt: a subscriber that joins during
   * an attempt first receives its text so far as one chunk. Completes after a terminal record. Errors as `read` does.
   */
  follow(taskId: string, options?: ReadOptions): Observable<FollowSignal>;

  /** Publishes a delta to the subscribers of `follow`. Never throws; may drop anything but the text of the open attempt. */
  publish(taskId: string, delta: Delta): void;

  /** The fold of the journal; null if there is no such task. */
  load(taskId: string): MaybePromise<PersistedLoopState | null>;

  /** The summary of one task in any state, as in `list`; reads only its head. Null if there is no such task. */
  describe(taskId: string): MaybePromise<TaskSummary | null>;

  /** Lists tasks, the newest first, or in the order of `byStatus`. Reads an index that is eventually consistent with the journals. */
  list(query?: TaskQuery): MaybePromise<readonly TaskSummary[]>;

  /**
   * Deletes the task and all turns below it: the child turns that its records link to, or that name it as their parent. Also works for a damaged
   * journal. The owner gets `NOT_FOUND` at its next append. Does nothing if there is no such task.
   */
  delete(taskId: string): MaybePromise<void>;

  /** Checks how the server of the store is configured. Errors: `UNAVAILABLE` if it does not answer. */
  check(): MaybePromise<StoreCheck>;
}
