import { defer, first, from, Observable, of, type Subscriber } from 'rxjs';
import { AgentLoopError, type Lease, type TaskStateStore } from '../contracts/index.ts';
import {
  type Commit,
  type Deadline,
  type ForkOrigin,
  foldRecords,
  type JournalRecord,
  type ParentLink,
  recordsOfAnswers,
  replayOf,
  type Stamped,
  type TurnStarted,
  waitsForAnswers,
  whenAnswered,
  whenReady,
} from '../journal/index.ts';
import { type Moment, momentOf, releaseUnused } from '../ownership/lease.ts';
import { switchOnce } from '../streams/index.ts';
import { markOpening, whileOpening } from './opening-turns.ts';
import type { Admitted, RunRequest } from './run-request.ts';

/** A turn that can be resumed here, that another process owns, or that has ended. */
export type Opening =
  | {
      readonly own: true;
      readonly past: Commit;
      readonly lease: Lease;
      /** When the lease was requested. */
      readonly askedAt: Moment;
      readonly resumed: boolean;
      readonly admitted: Admitted;
    }
  | {
      readonly own: false;
      /**
       * If another owner holds the lease: how long it lasts, in milliseconds. If the turn waits for answers: the delay before this process
       * checks whether they were recorded before the watch began.
       */
      readonly busyMs?: number;
    };

/** A turn that can be resumed here. */
export type OwnOpening = Extract<Opening, { own: true }>;

export interface OpenOptions {
  readonly request: RunRequest;
  readonly store: TaskStateStore;
  readonly deadline: Deadline;
  /** Names this run as the lease's owner. */
  readonly owner: string;
  /** The context that the caller expects the task in, if it passed one. */
  readonly contextId: string | undefined;
  readonly onBusy: 'fail' | 'wait';
}

/**
 * Opens the journal of a new turn. If the task exists with the same messages, agent and context, or is the child turn of the same call, the
 * turn is taken over, or watched while another owner holds it; for any other existing task it errors with `CONFLICT`.
 */
export function openNewTurn(options: OpenOptions, started: Stamped<TurnStarted>): Observable<Opening> {
  const { store, deadline } = options;
  const { taskId } = started;
  // Between the creation and the lease, another process may have taken the turn over and ended it.
  const waiting: OpenOptions = { ...options, onBusy: 'wait' };
  return new Observable((to) => {
    const create = () => {
      const answer = store.create(taskId, started);
      // Nothing else runs before an answer that is there at once.
      if (answer instanceof Promise) to.add(markOpening(store, taskId));
      return answer;
    };
    whenAnswered(create, {
      deadline,
      to,
      give(answer) {
        if (answer.created) return takeOver(waiting, { taskId, known: [answer.started], resumed: false }, to);
        checkSameTurn(started, answer.started);
        openOldTurn(waiting, taskId).subscribe(to);
      },
      fail: (error) => to.error(error),
    });
  });
}

/**
 * Opens the journal of an existing turn, to resume it. Errors: `NOT_FOUND`; `BUSY` as `onBusy` says;
 * `CONFLICT` if it belongs to another context than the caller passed, and for a child turn whose parent turn is open; `SCHEMA`, `POISON`;
 * as `recordsOfAnswers` for its answers. A suspended turn that waits for answers and receives none is only watched.
 */
export function openOldTurn(options: OpenOptions, taskId: string): Observable<Opening> {
  const { request, store, deadline, contextId } = options;
  const opening$ = whenReady(() => store.read(taskId), deadline).pipe(
    switchOnce((records): Observable<Opening> => {
      const origin = originOf(records);
      const past = replayOf(records);
      if (origin && records.length < origin.records && !past.after.isComplete)
        return afterCompletion(origin, options, taskId);
      if (contextId !== undefined && past.after.turn.contextId !== contextId) throw otherContext(taskId);
      const answered = recordsOfAnswers(past.after, request.resume.answers);
      if (past.after.isComplete) return of({ own: false });
      const { parent } = past.after.turn;
      if (parent && parent.taskId !== request.parent?.under?.taskId) return refuseChildTurn(options, taskId, parent);
      const waits = past.after.outcome !== undefined && waitsForAnswers(past.after) && answered.length === 0;
      if (waits) return of({ own: false, busyMs: recheckMs });
      return new Observable((to) => takeOver(options, { taskId, known: records, resumed: true }, to));
    }),
  );
  return whileOpening(store, taskId, opening$);
}

/**
 * Acquires the lease of a turn that is watched. Completes without a value if the turn has ended or is suspended by then: the watch emits that.
 * Errors as `openOldTurn`.
 */
export function openWatchedTurn(options: OpenOptions, taskId: string): Observable<OwnOpening> {
  return new Observable((to) => {
    const give = (opening: OwnOpening) => {
      const isOpen = opening.past.after.outcome === undefined;
      if (isOpen) to.next(opening);
      if (isOpen) to.complete();
      else void releaseUnused(options.store, opening.lease).then(() => to.complete());
    };
    acquire(options, { taskId, known: [], resumed: true }, { to, give, fail: (error) => to.error(error) });
  });
}

/** A child turn is resumed by its parent turn. If the parent has ended or was deleted, the child turn is cancelled. */
function refuseChildTurn(
  { request: { config }, store }: OpenOptions,
  taskId: string,
  parent: ParentLink,
): Observable<Opening> {
  return defer(async () => {
    if (await isOpen(store, parent.taskId)) throw childOf(taskId, parent);
    await config.outside.cancel(taskId, { store, reason: parentEnded(parent), clock: config.clock });
    return { own: false as const };
  });
}

async function isOpen(store: TaskStateStore, taskId: string): Promise<boolean> {
  try {
    return !foldRecords(await store.read(taskId)).isComplete;
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return false;
    throw error;
  }
}

function parentEnded({ taskId }: ParentLink): string {
  return `its parent turn "${taskId}" has ended`;
}

/** Returns the opening to watch if the lease is refused because another owner holds it, or because the turn has ended. */
function openingToWatch(error: unknown, onBusy: OpenOptions['onBusy']): Opening | undefined {
  const code = AgentLoopError.isInstance(error) ? error.code : undefined;
  if (code === 'TERMINAL') return { own: false };
  return code === 'BUSY' && onBusy === 'wait' ? { own: false, busyMs: retryAfterMs(error) } : undefined;
}

const recheckMs = 1_000;

/** When to request a lease again that another owner holds, in milliseconds. */
export function retryAfterMs(error: unknown): number {
  return (AgentLoopError.isInstance(error) ? error.retryAfterMs : undefined) ?? recheckMs;
}

interface Found {
  readonly taskId: string;
  /** The records read so far, from the first on. */
  readonly known: readonly JournalRecord[];
  readonly resumed: boolean;
}

/** Acquires the lease; a turn that has another owner, or has ended, is watched. */
function takeOver(options: OpenOptions, found: Found, to: Subscriber<Opening>): void {
  const give = (opening: Opening) => {
    to.next(opening);
    to.complete();
  };
  acquire(options, found, {
    to,
    give,
    fail(error) {
      const instead = openingToWatch(error, options.onBusy);
      if (instead) give(instead);
      else to.error(error);
    },
  });
}

interface AcquireHandlers<T> {
  readonly to: Subscriber<unknown>;
  give(answer: T): void;
  fail(error: unknown): void;
}

/** Acquires the lease and reads the records written before it was granted. On an error, or if `to` unsubscribes, the lease is released. */
function acquire(
  options: OpenOptions,
  { taskId, known, resumed }: Found,
  { to, give, fail }: AcquireHandlers<OwnOpening>,
): void {
  const { request, store, deadline } = options;
  const { config, onLease, resume } = request;
  const askedAt = momentOf(deadline.clock);
  let lease: Lease | undefined;
  const giveUp = (error: unknown) => {
    const refused = lease;
    lease = undefined;
    if (refused) void releaseUnused(store, refused).then(() => fail(error));
    else fail(error);
  };
  const open = (granted: Lease, records: readonly JournalRecord[]) => {
    const past = pastOf([...known, ...records], granted);
    // Other processes may have answered since the journal was read.
    recordsOfAnswers(past.after, resume.answers);
    const opening = { own: true as const, past, lease: granted, askedAt, resumed: resumed || records.length > 0 };
    const admit = (advanced: boolean) => {
      const keep = (admitted: Admitted) => {
        lease = undefined;
        give({ ...opening, admitted: advanced ? { ...admitted, waited: true } : admitted });
      };
      if (!onLease) return keep({ queued: false });
      const opened = { state: past.after, created: !opening.resumed, epoch: granted.epoch };
      to.add(onLease(opened).pipe(first()).subscribe({ next: keep, error: giveUp }));
    };
    if (past.after.resumes < config.maxResumes) return admit(false);
    whenAnswered(() => config.outside.childrenAdvanced(past, store), { deadline, to, give: admit, fail: giveUp });
  };
  const readRest = (granted: Lease) => {
    lease = granted;
    if (granted.seq === known.length) return open(granted, []);
    const ask = () => store.read(taskId, { from: known.length + 1 });
    whenAnswered(ask, { deadline, to, give: (records) => open(granted, records), fail: giveUp });
  };
  // The subscriber unsubscribed before the turn was opened.
  to.add(() => {
    if (lease) void releaseUnused(store, lease);
  });
  whenAnswered(() => leaseOf(options, taskId, to), { deadline, to, give: readRest, fail: giveUp });
}

/** Acquires the lease; releases it if the subscriber has unsubscribed by then. */
function leaseOf(options: OpenOptions, taskId: string, to: Subscriber<unknown>) {
  const { request, store, owner } = options;
  const answer = store.acquire(taskId, owner, request.config.leaseMs, request.parent?.under);
  if (answer instanceof Promise) {
    to.add(markOpening(store, taskId));
    answer.then((lease) => (to.closed ? releaseUnused(store, lease) : undefined)).catch(() => {});
  }
  return answer;
}

/** The records up to the last seq of the lease. Errors: `REWOUND` if the journal ends before it: the store lost records. */
function pastOf(records: readonly JournalRecord[], lease: Lease): Commit {
  const past = replayOf(records.filter((record) => record.seq <= lease.seq));
  if (past.after.seq === lease.seq) return past;
  throw new AgentLoopError(
    'REWOUND',
    `The journal of task "${lease.taskId}" ends at record ${past.after.seq}, its head says ${lease.seq}: the store lost records.`,
    { taskId: lease.taskId },
  );
}

/** A retry whose writer died is written to its end, then opened. Errors: `CONFLICT` for a fork, whose edits are lost. */
function afterCompletion(origin: ForkOrigin, options: OpenOptions, taskId: string): Observable<Opening> {
  const { request, store, onBusy } = options;
  if (origin.retry) {
    const { clock, outside } = request.config;
    const retry = { store, newTaskId: taskId, contextId: undefined, clock, onBusy, signal: request.inbox.scope.signal };
    return from(outside.completeRetry(origin.taskId, retry)).pipe(switchOnce(() => openOldTurn(options, taskId)));
  }
  const message = `Task "${taskId}" is a fork of "${origin.taskId}" that was not written to its end; delete it and fork again.`;
  throw new AgentLoopError('CONFLICT', message, { taskId });
}

/** The task that these records were copied from. */
export function originOf([started]: readonly JournalRecord[]): ForkOrigin | undefined {
  return started?.type === 'turn.started' ? started.forkedFrom : undefined;
}

/** The error for a command to a child turn that only its parent turn may send. */
export function childOf(taskId: string, { taskId: parentId, agentId }: ParentLink): AgentLoopError {
  const message = `Task "${taskId}" is a child turn of task "${parentId}" (agent "${agentId}"); resume or answer task "${parentId}".`;
  return new AgentLoopError('CONFLICT', message, { taskId });
}

/** Errors: `CONFLICT` if the existing task has other messages or another agent. */
export function checkSameTurn(asked: TurnStarted, found: TurnStarted): void {
  const { parent, agentId } = found;
  if (parent && parent.taskId === asked.parent?.taskId && parent.callId === asked.parent.callId) {
    if (agentId === asked.agentId) return;
  }
  const same = JSON.stringify(asked.messages) === JSON.stringify(found.messages) && asked.agentId === found.agentId;
  if (same) return;
  throw new AgentLoopError(
    'CONFLICT',
    `Task "${asked.taskId}" exists with other messages or another agent; use another task id, or none, for a new turn, or resume the task.`,
    { taskId: asked.taskId },
  );
}

export function otherContext(taskId: string): AgentLoopError {
  const message = `Task "${taskId}" belongs to another context; give the context that it was started with, or none.`;
  return new AgentLoopError('CONFLICT', message, { taskId });
}
