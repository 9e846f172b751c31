import type { Context } from '@opentelemetry/api';
import type { Observable } from 'rxjs';
import type { AuthContext } from '../contracts/index.ts';
import type { Answers, Deadline, LoopState } from '../journal/index.ts';
import type { ResolvedConfig } from '../options/index.ts';
import type { ParentTurn } from '../ownership/child-turns.ts';
import type { Inbox } from '../ownership/inbox.ts';

/** A turn whose lease this process has. */
export interface OpenedTurn {
  readonly state: LoopState;
  /** Whether its journal is new. */
  readonly created: boolean;
  /** Of its lease: higher than that of every earlier run of the turn. */
  readonly epoch: number;
}

/** `queued`: another turn of the context is ahead of it, so a resume makes no progress yet. */
export interface Admitted {
  readonly queued: boolean;
  /** If the process of this turn was lost, the turn only waited in it: the turn ahead runs or was lost too, or child turns got further. */
  readonly waited?: boolean;
}

/**
 * Called when this process has acquired the lease, before the first event. Emits once when the turn may start or continue; an error
 * releases the lease and errors the turn.
 */
export type OnLease = (turn: OpenedTurn) => Observable<Admitted>;

/** The parameters of every run of a turn, started or resumed. */
export interface RunRequest {
  readonly config: ResolvedConfig;
  readonly inbox: Inbox;
  /** Of this process; never journaled. */
  readonly caller: {
    readonly parentContext: Context;
    readonly authContext: AuthContext | undefined;
    readonly context: unknown;
  };
  readonly resume: {
    /** Answers to the questions of a resumed turn. */
    readonly answers: Answers;
    /** If another owner runs the turn: fail with `BUSY`, or watch it and take over when its lease ends. */
    readonly onBusy: 'fail' | 'wait';
    /** Drains this turn alone, as `shutdown` of the configuration drains all. */
    readonly shutdown?: AbortSignal | undefined;
  };
  /** For a child turn. */
  readonly parent?: ParentTurn | undefined;
  readonly onLease?: OnLease | undefined;
}

export function deadlineOf({ clock, storeDeadlineMs }: ResolvedConfig): Deadline {
  return { clock, ms: storeDeadlineMs };
}
