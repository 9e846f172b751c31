import { concat, type Observable, of, switchMap } from 'rxjs';
import type { FollowSignal, TaskStateStore } from '../contracts/store.ts';
import { operate } from '../streams/index.ts';
import { applyRecord, replayOf, type Signal } from './commit.ts';
import type { LoopState } from './state.ts';
import { type Deadline, whenReady } from './store-answer.ts';

/**
 * Watches a turn from any process: emits the records so far in one commit, then each new record and delta. Completes after a
 * terminal record, and after a suspension. Errors as the store's `read` and `follow` do. Unsubscribing stops following and
 * does not affect the turn.
 */
export function observeTurn(store: TaskStateStore, taskId: string, deadline: Deadline): Observable<Signal> {
  return observedAlone(store, taskId, { deadline, isOver: ({ outcome }) => outcome !== undefined });
}

/** As `observeTurn`, but does not complete at a suspension: later records follow once the turn is resumed. */
export function observeTask(store: TaskStateStore, taskId: string, deadline: Deadline): Observable<Signal> {
  return observedAlone(store, taskId, { deadline, isOver: ({ isComplete }) => isComplete });
}

interface Watched {
  readonly deadline: Deadline;
  readonly isOver: (state: LoopState) => boolean;
}

/** Without child turns. */
function observedAlone(store: TaskStateStore, taskId: string, { deadline, isOver }: Watched): Observable<Signal> {
  return whenReady(() => store.read(taskId), deadline).pipe(
    switchMap((records) => {
      const past = replayOf(records);
      if (isOver(past.after)) return of(past);
      const future$ = store.follow(taskId, { from: past.after.seq + 1 }).pipe(signalsOf(past.after, isOver));
      return concat(of(past), future$);
    }),
  );
}

/** Folds what a store's `follow` emits into signals; completes after the last record to watch. */
function signalsOf(start: LoopState, isOver: Watched['isOver']) {
  return operate<FollowSignal, Signal>((to) => {
    let state = start;
    return {
      next(signal) {
        if (signal.type === 'delta') return to.next(deltaSignal(signal.delta, state));
        const before = state;
        state = applyRecord(state, signal.record);
        to.next({ type: 'commit', steps: [{ before, record: signal.record }], after: state, barrier: false });
        if (isOver(state)) to.complete();
      },
    };
  });
}

/** The signal of a delta. */
export function deltaSignal(delta: Extract<FollowSignal, { type: 'delta' }>['delta'], state: LoopState): Signal {
  if (delta.type === 'llm') return delta.chunk;
  const { callId, update } = delta;
  const call = state.pendingToolCalls.find((pending) => pending.callId === callId)?.call;
  return { type: 'tool-progress', callId, toolName: call?.function.name ?? '', update };
}
