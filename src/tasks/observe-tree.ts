import {
  catchError,
  concat,
  concatMap,
  defer,
  EMPTY,
  merge,
  mergeAll,
  mergeMap,
  NEVER,
  Observable,
  of,
  ReplaySubject,
  retry,
  Subject,
  switchMap,
  take,
  takeUntil,
  takeWhile,
  tap,
} from 'rxjs';
import {
  AgentLoopError,
  type ChildLink,
  type Clock,
  type FollowSignal,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import {
  applyRecord,
  type Commit,
  type Deadline,
  deltaSignal,
  EventProjector,
  type JournalRecord,
  type LoopState,
  replayOf,
  type Signal,
  whenReady,
} from '../core/journal/index.ts';
import { after } from '../core/streams/index.ts';

interface ObserveTreeOptions {
  readonly deadline: Deadline;
  /** Child turns whose call has its result at or before this record are omitted. */
  readonly known: number;
}

/**
 * As `observeTurn`, with the events of the child turns that its intents name, at any depth, as `sub-agent` signals. A child turn that has
 * ended is replayed before the result of its call, unless that result is at or before record `known`; an open one is replayed and
 * followed. If a child turn does not exist yet, waits for it until its call has a result. Errors also as the reads of the child turns do.
 *
 * Memory: the fold of the turn and of each open child turn. Unsubscribing stops all follows.
 */
export function observeTree(
  store: TaskStateStore,
  taskId: string,
  { deadline, known }: ObserveTreeOptions,
): Observable<Signal> {
  return observed(store, taskId, { deadline, known, isOver: ({ outcome }) => outcome !== undefined });
}

/**
 * As `observeTask`, with the events of open child turns, as `observeTree` emits them. The first signal is the commit of all records so
 * far.
 */
export function observeTaskTree(store: TaskStateStore, taskId: string, deadline: Deadline): Observable<Signal> {
  const known = Number.POSITIVE_INFINITY;
  return observed(store, taskId, { deadline, known, isOver: ({ isComplete }) => isComplete });
}

function observed(
  store: TaskStateStore,
  taskId: string,
  options: ObserveTreeOptions & Pick<Watch, 'isOver'>,
): Observable<Signal> {
  const records$ = whenReady(() => store.read(taskId), options.deadline);
  return watched({ ...options, store, taskId, records$, finish$: NEVER });
}

interface Watch extends ObserveTreeOptions {
  readonly store: TaskStateStore;
  readonly taskId: string;
  /** The records so far. */
  readonly records$: Observable<readonly JournalRecord[]>;
  readonly isOver: (state: LoopState) => boolean;
  /** Emits when the records that exist at that moment are the last to emit. */
  readonly finish$: Observable<void>;
}

/** A followed child turn. */
interface OpenChild {
  /** Emits the remaining records, and completes. `over$` has completed by then. */
  readonly finish$: Subject<void>;
  readonly over$: Subject<never>;
}

function watched(watch: Watch): Observable<Signal> {
  return defer(() => {
    const children = new Children(watch);
    const own$ = watch.records$.pipe(
      switchMap((records) => {
        const past = replayOf(records);
        return concat(replayed(watch, past), watch.isOver(past.after) ? EMPTY : followed(watch, past.after, children));
      }),
      tap({ complete: () => children.complete() }),
    );
    return merge(children.signals$, own$);
  });
}

/** The records so far, with the events of child turns whose calls have a result; if the turn is over, of all child turns. */
function replayed(watch: Watch, past: Commit): Observable<Signal> {
  const { steps, after } = past;
  const over = watch.isOver(after);
  const parts: Observable<Signal>[] = [];
  let from = 0;
  const cut = (to: number, links: readonly CallOfChild[]) => {
    const state = steps[to]?.before ?? after;
    if (to > from)
      parts.push(of({ ...past, steps: steps.slice(from, to), after: state, continues: to < steps.length }));
    for (const link of links) parts.push(childSignals(watch, link, of(undefined)));
    from = to;
  };
  for (const [index, { before, record }] of steps.entries()) {
    if (record.type !== 'tool.result' || record.seq <= watch.known) continue;
    const link = before && childOfCall(before, record.callId);
    if (link) cut(index, [link]);
  }
  const last = steps.at(-1);
  const open = over && last?.before ? openCalls(last.before) : [];
  if (open.length > 0) cut(steps.length - 1, open);
  cut(steps.length, []);
  return concat(...parts);
}

/** The signals after the records so far. */
function followed(watch: Watch, start: LoopState, children: Children): Observable<Signal> {
  const { store, taskId, deadline, isOver, finish$ } = watch;
  let state = start;
  /** The seq of the last received record; earlier records may still wait for a child turn. */
  let { seq } = start;
  const rest$ = defer(() => whenReady(() => store.read(taskId, { from: seq + 1 }), deadline)).pipe(
    mergeMap((records) => records.map((record): FollowSignal => ({ type: 'record', record }))),
  );
  const follow$ = defer(() => store.follow(taskId, { from: start.seq + 1 })).pipe(
    takeUntil(finish$),
    tap((signal) => {
      if (signal.type === 'record') seq = signal.record.seq;
    }),
  );
  const show = (record: JournalRecord): Observable<Signal> => {
    const before = state;
    const after = applyRecord(before, record);
    const shown$ = defer(() => {
      state = after;
      return of<Commit>({ type: 'commit', steps: [{ before, record }], after, barrier: false });
    });
    if (isOver(after)) return concat(children.finish(openCalls(before)), shown$);
    if (record.type === 'tool.intent') return concat(shown$, children.start(childOfCall(after, record.callId)));
    if (record.type !== 'tool.result') return shown$;
    const link = childOfCall(before, record.callId);
    return link ? concat(children.finish([link]), shown$) : shown$;
  };
  return concat(
    defer(() => merge(...openCalls(start).map((link) => children.start(link)))),
    concat(follow$, rest$).pipe(
      concatMap((signal) => (signal.type === 'delta' ? [deltaSignal(signal.delta, state)] : show(signal.record))),
      takeWhile((signal) => signal.type !== 'commit' || !isOver(signal.after), true),
    ),
    defer(() => children.finish(openCalls(state))),
  );
}

/** The open child turns of one turn. */
class Children {
  readonly #watch: Watch;
  readonly #open = new Map<string, OpenChild>();
  readonly #started$ = new Subject<Observable<Signal>>();
  readonly signals$ = this.#started$.pipe(mergeAll());

  constructor(watch: Watch) {
    this.#watch = watch;
  }

  /** Starts to follow a child turn, once. Emits nothing. */
  start(link: CallOfChild | undefined): Observable<never> {
    return defer(() => {
      if (!link || this.#open.has(link.child.taskId)) return EMPTY;
      const child: OpenChild = { finish$: new ReplaySubject(1), over$: new Subject() };
      this.#open.set(link.child.taskId, child);
      const over = () => {
        this.#open.delete(link.child.taskId);
        child.over$.complete();
      };
      this.#started$.next(childSignals(this.#watch, link, child.finish$).pipe(tap({ complete: over })));
      return EMPTY;
    });
  }

  /** Completes once all records of these child turns are emitted. */
  finish(links: readonly CallOfChild[]): Observable<never> {
    return concat(
      ...links.map(({ child: { taskId } }) =>
        defer(() => {
          const child = this.#open.get(taskId);
          if (!child) return EMPTY;
          const over$ = new Observable<never>((to) => {
            to.add(child.over$.subscribe(to));
            child.finish$.next();
          });
          return over$;
        }),
      ),
    );
  }

  complete(): void {
    this.#started$.complete();
  }
}

/** A call, and the child turn that it runs as. */
interface CallOfChild {
  readonly callId: string;
  readonly child: ChildLink;
}

function childOfCall({ pendingToolCalls }: LoopState, callId: string): CallOfChild | undefined {
  const child = pendingToolCalls.find((pending) => pending.callId === callId)?.child;
  return child && { callId, child };
}

function openCalls(state: LoopState): readonly CallOfChild[] {
  const open = state.pendingToolCalls.filter(
    ({ child }) => child && state.openChildren.some(({ taskId }) => taskId === child.taskId),
  );
  return open.flatMap(({ callId }) => childOfCall(state, callId) ?? []);
}

/** The signals of a child turn and its descendants, with the path to them. */
function childSignals(
  { store, deadline }: Watch,
  { callId, child }: CallOfChild,
  finish$: Observable<void>,
): Observable<Signal> {
  const { taskId, agentId } = child;
  const step = { agentId, taskId, callId };
  return defer(() => {
    const projector = new EventProjector({ checkpoints: true, now: () => deadline.clock.now() });
    const records$ = existing({ store, taskId, deadline, finish$ });
    const isOver = ({ isComplete }: LoopState) => isComplete;
    return watched({ store, taskId, deadline, known: 0, records$, isOver, finish$ }).pipe(
      mergeMap((signal): readonly Signal[] => {
        if (signal.type === 'sub-agent') return [{ ...signal, path: [step, ...signal.path] }];
        return projector
          .project(signal)
          .flatMap((event) => (event.kind === 'internal:sub-agent' ? [] : { type: 'sub-agent', path: [step], event }));
      }),
      catchError(nothingWhereMissing),
    );
  });
}

/** The records of a child turn once it exists; empty if it does not exist when it is to finish. */
function existing({ store, taskId, deadline, finish$ }: Omit<Watch, 'known' | 'records$' | 'isOver'>) {
  const read$ = whenReady(() => store.read(taskId), deadline);
  const delay = (error: unknown, count: number) => {
    if (!isMissing(error)) throw error;
    return pause(deadline.clock, Math.min(firstPauseMs * 2 ** (count - 1), lastPauseMs));
  };
  return concat(read$.pipe(retry({ delay }), takeUntil(finish$)), read$).pipe(take(1), catchError(nothingWhereMissing));
}

const firstPauseMs = 10;
const lastPauseMs = 500;

function pause(clock: Clock, ms: number): Observable<void> {
  return new Observable((to) => after(ms, clock, () => to.next()));
}

/** A deleted child turn is over. */
function nothingWhereMissing(error: unknown): Observable<never> {
  if (isMissing(error)) return EMPTY;
  throw error;
}

function isMissing(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND';
}
