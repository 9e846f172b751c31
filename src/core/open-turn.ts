import { catchError, from, type MonoTypeOperatorFunction, map, Observable, of, switchMap } from 'rxjs';
import type { Lease, TaskStateStore } from '../stores/interfaces.ts';
import { type Answers, recordsOfAnswers } from './check-answers.ts';
import { AgentLoopError, type ErrorCode } from './errors.ts';
import { giveBack } from './give-back.ts';
import { replayOf } from './observe-turn.ts';
import { type Deadline, whenReady } from './operators/when-ready.ts';
import type { JournalRecord, Stamped, TurnStarted } from './records.ts';
import type { Commit } from './signals.ts';
import { waitsForAnswers } from './state.ts';

/** A turn that may go on here, or that is somebody else's or over. */
export type Opening =
  | {
      readonly own: true;
      readonly past: Commit;
      readonly lease: Lease;
      /** When the lease was asked for. */
      readonly askedAt: number;
      readonly resumed: boolean;
    }
  | { readonly own: false };

export interface OpenOptions {
  readonly store: TaskStateStore;
  /** Names this run as the lease's owner. */
  readonly owner: string;
  readonly leaseMs: number;
  readonly deadline: Deadline;
  /** The context that the caller expects the task in, where it says one. */
  readonly contextId: string | undefined;
  /** Answers to the questions of a suspended turn. */
  readonly answers?: Answers | undefined;
}

/**
 * Opens the journal of a new turn. A task that exists is attached to where its messages, agent and context are the same: taken over
 * where nobody holds it, watched otherwise; else the error is `CONFLICT`.
 */
export function openNewTurn(options: OpenOptions, started: Stamped<TurnStarted>): Observable<Opening> {
  const { store, deadline } = options;
  return whenReady(() => store.create(started.taskId, started), deadline).pipe(
    switchMap((answer) => {
      if (answer.created) return takeOver(options, [answer.started], false);
      checkSameTurn(started, answer.started);
      return openOldTurn(options, started.taskId);
    }),
    // Between the creation and the lease, another may have taken the turn over, and ended it.
    watchWhere('BUSY', 'TERMINAL'),
  );
}

/**
 * Opens the journal of a turn that was started before, to go on with it. Errors: `NOT_FOUND`; `BUSY` while somebody holds it;
 * `CONFLICT` where it belongs to another context than the caller says; `SCHEMA`, `POISON`; as `recordsOfAnswers` for its answers. A
 * suspended turn that waits for answers and is given none is only shown.
 */
export function openOldTurn(options: OpenOptions, taskId: string): Observable<Opening> {
  const { store, deadline, contextId } = options;
  return whenReady(() => store.read(taskId), deadline).pipe(
    switchMap((records) => {
      const past = replayOf(records);
      checkWholeFork(records);
      if (contextId !== undefined && past.after.turn.contextId !== contextId) throw otherContext(taskId);
      const answered = recordsOfAnswers(past.after, options.answers ?? {});
      if (past.after.isComplete) return of({ own: false } as const);
      const waits = past.after.outcome !== undefined && waitsForAnswers(past.after) && answered.length === 0;
      return waits ? of({ own: false } as const) : takeOver(options, records, true);
    }),
    // The turn may have ended since it was read.
    watchWhere('TERMINAL'),
  );
}

/** A turn whose lease is refused for one of these reasons is somebody else's, or over. */
function watchWhere(...codes: readonly ErrorCode[]): MonoTypeOperatorFunction<Opening> {
  return catchError((error: unknown) => {
    if (AgentLoopError.isInstance(error) && codes.includes(error.code)) return of({ own: false } as const);
    throw error;
  });
}

function takeOver(options: OpenOptions, known: readonly JournalRecord[], resumed: boolean): Observable<Opening> {
  const { store, deadline } = options;
  const { taskId } = known[0] as Stamped<TurnStarted>;
  const askedAt = deadline.clock.now();
  return leaseOf(options, taskId).pipe(
    switchMap((lease) =>
      missing(options, lease, known.length).pipe(
        map((records) => {
          const past = pastOf([...known, ...records], lease);
          // Others may have answered since the journal was read.
          recordsOfAnswers(past.after, options.answers ?? {});
          return { own: true as const, past, lease, askedAt, resumed: resumed || records.length > 0 };
        }),
        catchError((error: unknown) =>
          from(giveBack(store, lease)).pipe(
            map(() => {
              throw error;
            }),
          ),
        ),
      ),
    ),
  );
}

/** The right to the turn. One that comes when nobody waits for it any more is given back. */
function leaseOf({ store, deadline, owner, leaseMs }: OpenOptions, taskId: string): Observable<Lease> {
  return new Observable((to) => {
    const ask = () => {
      const answer = store.acquire(taskId, owner, leaseMs);
      if (answer instanceof Promise)
        answer.then((lease) => (to.closed ? giveBack(store, lease) : undefined)).catch(() => {});
      return answer;
    };
    return whenReady(ask, deadline).subscribe(to);
  });
}

/** The records that were written between the first look and the lease. */
function missing({ store, deadline }: OpenOptions, lease: Lease, known: number): Observable<readonly JournalRecord[]> {
  return lease.seq === known ? of([]) : whenReady(() => store.read(lease.taskId, { from: known + 1 }), deadline);
}

/** Only what the lease vouches for counts: a journal that ends elsewhere has lost its tail. */
function pastOf(records: readonly JournalRecord[], lease: Lease): Commit {
  const past = replayOf(records.filter((record) => record.seq <= lease.seq));
  if (past.after.seq === lease.seq) return past;
  throw new AgentLoopError(
    'REWOUND',
    `The journal of task "${lease.taskId}" ends at record ${past.after.seq}, its head says ${lease.seq}: the store lost records.`,
    { taskId: lease.taskId },
  );
}

/** A process that died while it forked leaves a shorter turn than was asked for. */
function checkWholeFork([first, ...rest]: readonly JournalRecord[]): void {
  if (first?.type !== 'turn.started' || !first.forkedFrom || rest.length + 1 >= first.forkedFrom.records) return;
  const { taskId, forkedFrom } = first;
  const message = `Task "${taskId}" is a fork of "${forkedFrom.taskId}" that was not written to its end; delete it and fork again.`;
  throw new AgentLoopError('CONFLICT', message, { taskId });
}

function checkSameTurn(asked: TurnStarted, found: TurnStarted): void {
  const same = JSON.stringify(asked.messages) === JSON.stringify(found.messages) && asked.agentId === found.agentId;
  if (same) return;
  throw new AgentLoopError(
    'CONFLICT',
    `Task "${asked.taskId}" exists with other messages or another agent; leave taskId out for a new turn, or use AgentLoop.resume.`,
    { taskId: asked.taskId },
  );
}

function otherContext(taskId: string): AgentLoopError {
  const message = `Task "${taskId}" belongs to another context; give the contextId that it was started with, or none.`;
  return new AgentLoopError('CONFLICT', message, { taskId });
}
