import { identity, type MonoTypeOperatorFunction } from 'rxjs';
import {
  type AgentEvent,
  type Clock,
  iterateEvents,
  seqOf,
  systemClock,
  type TaskStateStore,
} from '../contracts/index.ts';
import { eventsAfter, observeTree, observeTurn, projectEvents, type Signal } from '../journal/index.ts';
import { checkStore, checkTaskId } from '../options/index.ts';
import { TurnStream } from './turn-text.ts';

/** Options of `AgentLoop.observe`. */
export interface ObserveOptions {
  /** Where the turn is. */
  readonly store: TaskStateStore;
  /** The `cursor` of the last received event; only later events are emitted. Default: from the start. */
  readonly from?: string | undefined;
  /**
   * Also emits the events of child turns, at any depth, as `internal:sub-agent`, as the process that runs the turn emits them. A child turn
   * that was open at `from` is replayed from its beginning: skip known events by `(event.taskId, event.cursor)` of the wrapped event.
   * Default false.
   */
  readonly descendants?: boolean | undefined;
  /** How long to wait for a response of the store. Milliseconds; default 30,000. */
  readonly storeDeadlineMs?: number | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

/** Implements `AgentLoop.observe`; `around` is piped between the journal and the events. */
export function observeEvents(
  taskId: string,
  options: ObserveOptions,
  around: MonoTypeOperatorFunction<Signal> = identity,
): TurnStream<AgentEvent> {
  checkTaskId(taskId);
  const { store, clock = systemClock, storeDeadlineMs: ms = 30_000 } = options ?? {};
  checkStore('store', store);
  const deadline = { clock, ms };
  const signals$ = options.descendants
    ? observeTree(store, taskId, { deadline, known: seqOf(options.from) })
    : observeTurn(store, taskId, deadline);
  const events$ = signals$.pipe(
    around,
    projectEvents({ checkpoints: true, now: () => clock.now() }),
    eventsAfter<AgentEvent>(options.from),
  );
  return new TurnStream(events$, () => iterateEvents(events$));
}
