import { catchError, from, type MonoTypeOperatorFunction, map, merge, Observable, of, take } from 'rxjs';
import { AgentLoopError, type Command, messageOf, type TaskStateStore } from '../contracts/index.ts';
import { checkGivenAnswers, observeTurn, type Signal } from '../journal/index.ts';
import { switchOnce, Timer } from '../streams/index.ts';
import { type OpenOptions, type OwnOpening, openWatchedTurn, retryAfterMs } from './open-turn.ts';
import { deadlineOf, type RunRequest } from './run-request.ts';

/** A turn that another owner runs, or that is over. */
interface WatchedTurn {
  readonly taskId: string;
  readonly store: TaskStateStore;
  /**
   * What its inbox receives is forwarded to the owner, also a cancel. The watch errors with `CONFLICT` once it sees that a question of its
   * answers was answered otherwise.
   */
  readonly request: RunRequest;
}

/** A turn that is taken over once its lease ends. */
export interface BusyTurn extends WatchedTurn {
  readonly options: OpenOptions;
  /** How long the lease lasts, in milliseconds. */
  readonly busyMs: number;
  /** Runs the turn after the take-over; emits records after `seen` only. */
  readonly takeOver: (opening: OwnOpening, seen: number) => Observable<Signal>;
}

/** Follows a turn that another owner runs, or that has ended. Unsubscribing stops following and does not affect the turn. */
export function watchTurn(turn: WatchedTurn): Observable<Signal> {
  return watch(turn).pipe(refuseOtherAnswers(turn), markEnded());
}

/**
 * Watches a turn that another owner runs, and takes it over once its lease expires or is released; then emits only records that
 * were not emitted yet. Requests the lease when it should have expired, and every 2 s until then.
 */
export function watchUntilFree(turn: BusyTurn): Observable<Signal> {
  return deliverAnswers(turn).pipe(
    switchOnce(() => watchAndTakeOver(turn)),
    refuseOtherAnswers(turn),
    markEnded(),
  );
}

/** Answers of a caller may reach a turn that another has answered and ended: what was checked before the lease was requested is checked again. */
function refuseOtherAnswers({ request: { resume } }: WatchedTurn): MonoTypeOperatorFunction<Signal> {
  return map((signal) => {
    if (signal.type === 'commit') checkGivenAnswers(signal.after, resume.answers);
    return signal;
  });
}

/** Marks the commit of a turn that had ended before it was opened here. */
function markEnded(): MonoTypeOperatorFunction<Signal> {
  return map((signal) =>
    signal.type === 'commit' && signal.replayed && signal.after.isComplete ? { ...signal, endedBefore: true } : signal,
  );
}

function watch({ taskId, store, request }: WatchedTurn): Observable<Signal> {
  const { config, inbox } = request;
  const { scope } = inbox;
  const { clock, outside } = config;
  return new Observable((subscriber) => {
    const post = async (command: Command) => {
      if (command.type !== 'answer') return store.post(taskId, command);
      return outside.answer(taskId, { store, answers: { [command.questionId]: command.answer }, clock });
    };
    inbox.forwardTo((command) =>
      post(command).catch((error: unknown) => {
        if (!AgentLoopError.isInstance(error) || error.code !== 'TERMINAL') subscriber.error(error);
      }),
    );
    const ask = () =>
      outside
        .cancel(taskId, { store, reason: messageOf(scope.reason), clock })
        .catch((error: unknown) => subscriber.error(error));
    subscriber.add(scope.onAbort(ask));
    subscriber.add(observeTurn(store, taskId, deadlineOf(config)).subscribe(subscriber));
    if (scope.aborted) void ask();
  });
}

/**
 * Delivers the answers of a waiting resume to the owner of the turn before it watches: without them the turn would suspend again. If the
 * owner does not record them in time, the next owner does.
 */
function deliverAnswers({ taskId, store, request }: BusyTurn): Observable<undefined> {
  const { config, inbox, resume } = request;
  const { scope } = inbox;
  const { clock, outside } = config;
  const { answers } = resume;
  if (Object.keys(answers).length === 0) return of(undefined);
  const canceled$ = new Observable<undefined>((to) => {
    if (scope.aborted) to.next(undefined);
    else to.add(scope.onAbort(() => to.next(undefined)));
  });
  const delivered$ = from(outside.answer(taskId, { store, answers, clock })).pipe(
    catchError((error: unknown) => {
      const code = AgentLoopError.isInstance(error) ? error.code : undefined;
      if (code === 'BUSY' || code === 'TERMINAL') return of(undefined);
      throw error;
    }),
  );
  return merge(delivered$, canceled$).pipe(
    map(() => undefined),
    take(1),
  );
}

const longestPollMs = 2_000;

function watchAndTakeOver(turn: BusyTurn): Observable<Signal> {
  const { taskId, request, options, busyMs, takeOver } = turn;
  return new Observable((to) => {
    let seen = 0;
    const poll = new Timer(request.config.clock);
    const watching = watch(turn).subscribe({
      next(signal) {
        if (signal.type === 'commit') seen = signal.after.seq;
        to.next(signal);
      },
      error: (error: unknown) => to.error(error),
      complete: () => to.complete(),
    });
    to.add(watching);
    to.add(() => poll.close());
    const run = (opening: OwnOpening) => {
      watching.unsubscribe();
      to.add(takeOver(opening, seen).subscribe(to));
    };
    const ask = () => {
      if (watching.closed) return;
      const opening = openWatchedTurn(options, taskId).subscribe({
        next: run,
        // The turn was suspended when the lease was granted. The watch emits that, unless it read the journal after the answers arrived.
        complete() {
          if (!watching.closed) askAfter(longestPollMs);
        },
        error(error: unknown) {
          if (!AgentLoopError.isInstance(error) || !error.retryable) {
            // The watch emits how it ended.
            if (AgentLoopError.isInstance(error) && error.code === 'TERMINAL') return;
            return to.error(error);
          }
          askAfter(retryAfterMs(error));
        },
      });
      to.add(opening);
    };
    /** Schedules the request shortly after the lease expires; jitter spreads the watchers. */
    const askAfter = (ms: number) => {
      poll.set(Math.min(ms, longestPollMs) + 10 + Math.random() * 90, ask);
    };
    askAfter(busyMs);
  });
}
