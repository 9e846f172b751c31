import type { SpanContext } from '@opentelemetry/api';
import { concat, defer, from, ignoreElements, type MonoTypeOperatorFunction, Observable, of } from 'rxjs';
import {
  linkOf,
  linksTo,
  type PlannedSpan,
  planExecuteSpan,
  startExecuteSpan,
} from '../../observability/spans/run-spans.ts';
import { failSpan, type TracedSpan, type TurnTracing, turnTracing } from '../../observability/spans/tracing-options.ts';
import { isMissingPart, type Lease, type Message, type TaskStateStore } from '../contracts/index.ts';
import {
  type Commit,
  commitOf,
  journalSchema,
  type LoopState,
  recordsOfAnswers,
  replayOf,
  type Signal,
  type Stamped,
  type Submission,
  type TurnIdentity,
  type TurnStart,
  type TurnStarted,
} from '../journal/index.ts';
import type { ResolvedConfig } from '../options/index.ts';
import { belowParent, reachedLimit, TurnNode } from '../ownership/child-turns.ts';
import { journal } from '../ownership/journal-line.ts';
import { keepLease, LeaseHold, type Moment, releaseLease } from '../ownership/lease.ts';
import { AbortScope, type FusibleOperator, fuse, switchOnce } from '../streams/index.ts';
import { noTools } from '../tool-call/tool-set.ts';
import { type Opening, type OpenOptions, type OwnOpening, openNewTurn, openOldTurn } from './open-turn.ts';
import { Run } from './run.ts';
import {
  abortIfLost,
  callEndHooks,
  catchTurnError,
  endChildTurns,
  failAfterDrain,
  followCommands,
  shutdownError,
  tapAfterTurn,
} from './run-operators.ts';
import { type Admitted, deadlineOf, type RunRequest } from './run-request.ts';
import { configOf, loopSegments } from './segment.ts';
import { type BusyTurn, watchTurn, watchUntilFree } from './watch-turn.ts';

interface StartRequest {
  readonly start: TurnStart;
  readonly contextId: string | undefined;
}

/**
 * Runs a new turn: creates its journal, acquires the lease, runs the loop, and releases the lease. An existing task is taken over or
 * watched. The first signal is the commit of the records so far. Completes when the turn has ended or suspended; errors if this process loses it.
 * Unsubscribing loses the turn to this process: everything stops at once, and nothing is written; to cancel, abort the scope. Call it on subscription: it may open the journal
 * at the call, and throw the errors of that.
 */
export function startRun(request: RunRequest, { start, contextId }: StartRequest): Observable<Signal> {
  return runUnlessDraining(request, start.taskId, () => {
    const { config, caller } = request;
    const { parentContext } = caller;
    const tracing = turnTracing(config, start);
    // The first record names the span of the run, which exists only if this process runs the turn: `start` begins it, `drop` discards it.
    const maxIterations = start.settings.maxIterations ?? config.maxIterations;
    const planned = planExecuteSpan(
      tracing,
      { maxIterations, resumed: false, asked: () => start.messages },
      parentContext,
    );
    const started = startRecord(request, start, planned.spanContext);
    const { taskStateStore: store } = config;
    if (!store) return runOwned({ request, tracing, traced: planned.start() }, { past: replayOf([started]) });
    return openNewTurn(openOptions(request, store, contextId), started).pipe(
      failOnShutdown(request, start.taskId),
      switchOnce(
        (opening) => {
          if (opening.own && !opening.resumed) return runOwned({ request, tracing, traced: planned.start() }, opening);
          planned.drop();
          return continueRun(request, store, { opening, taskId: start.taskId });
        },
        (error) => failPlanned(planned, error),
      ),
    );
  });
}

/** Resumes an existing turn. Signals, ends and must be called as `startRun`; errors also as `openOldTurn`. */
export function resumeRun(
  request: RunRequest,
  store: TaskStateStore,
  { taskId, contextId }: { readonly taskId: string; readonly contextId: string | undefined },
): Observable<Signal> {
  return runUnlessDraining(request, taskId, () => {
    return openOldTurn(openOptions(request, store, contextId), taskId).pipe(
      failOnShutdown(request, taskId),
      switchOnce((opening) => continueRun(request, store, { opening, taskId })),
    );
  });
}

/** Starts a run; throws `SHUTDOWN` if this process is shutting down. A child turn is also cancelled with its parent's call. */
function runUnlessDraining(request: RunRequest, taskId: string, run: () => Observable<Signal>): Observable<Signal> {
  const { parent, inbox } = request;
  const begin = () => {
    if (drains(request)) throw shutdownError(taskId);
    return run();
  };
  return parent ? belowParent(defer(begin), { parent, scope: inbox.scope, taskId }) : begin();
}

/** Whether this process releases the turn, or does not begin it, so that another one resumes it. */
export function drains(request: RunRequest): boolean {
  return drainsOf(request).some(({ aborted }) => aborted);
}

/** The scopes whose abort drains the turn: the shutdown of the process, that of this turn, and the drain of the parent turn. */
function drainsOf({ config, parent, resume: { shutdown } }: RunRequest): readonly AbortScope[] {
  const drains: AbortScope[] = [];
  if (config.shutdown) drains.push(AbortScope.of(config.shutdown));
  if (shutdown) drains.push(AbortScope.of(shutdown));
  if (parent) drains.push(parent.drain);
  return drains;
}

/** Continues an opened turn if this process owns it, else watches it. `seen`: the seq of the last record that subscribers received while watching. */
function continueRun(
  request: RunRequest,
  store: TaskStateStore,
  { opening, taskId, seen = 0 }: { readonly opening: Opening; readonly taskId: string; readonly seen?: number },
): Observable<Signal> {
  if (!opening.own) return watchOwner(request, store, { taskId, busyMs: opening.busyMs });
  const { config, caller } = request;
  const { past, lease, admitted } = opening;
  const { turn, trace: before } = past.after;
  const submitted = submissionOf(opening);
  if (submitted) return beginSubmitted(request, opening, submitted);
  const parentLostAt = request.parent?.node.lostAt;
  const { lostAt, hasSpans, restoring } = config.outside.restoreRuns(config, past, { lease, store, parentLostAt });
  const tracing = turnTracing(config, turn);
  const links = hasSpans ? linksTo(before) : [];
  const traced = startExecuteSpan(
    tracing,
    { maxIterations: iterationLimit(config, turn), resumed: true, links, asked: () => givenMessages(past.after) },
    caller.parentContext,
  );
  const resumed = { lostAt, restoring, admitted };
  if (seen === 0) return runOwned({ request, tracing, traced, resumed }, opening);
  const steps = past.steps.filter(({ record }) => record.seq > seen);
  return runOwned({ request, tracing, traced, resumed }, { ...opening, past: { ...past, steps } });
}

/** The messages that the caller passed. */
function givenMessages({ messages, turn }: LoopState): readonly Message[] {
  return messages.slice(0, turn.given);
}

/** The submission of a turn that was never run: its journal has one record, and no lease of it was lost. */
function submissionOf({ past: { steps }, lease }: OwnOpening): Submission | undefined {
  const [first] = steps;
  if (steps.length > 1 || first?.record.type !== 'turn.started' || lease.abandonedAt != null) return undefined;
  return first.record.submitted;
}

/** The first run of a submitted turn. It writes no `turn.resumed`: nothing ran before. */
function beginSubmitted(request: RunRequest, opening: OwnOpening, submitted: Submission): Observable<Signal> {
  const { config, caller } = request;
  const { turn } = opening.past.after;
  const tracing = turnTracing(config, turn);
  const input = {
    maxIterations: iterationLimit(config, turn),
    resumed: false,
    links: linksTo(submitted.trace),
    asked: () => givenMessages(opening.past.after),
  };
  const traced = startExecuteSpan(tracing, input, caller.parentContext);
  return runOwned({ request, tracing, traced, submitted: true }, opening);
}

function watchOwner(
  request: RunRequest,
  store: TaskStateStore,
  { taskId, busyMs }: { readonly taskId: string; readonly busyMs: number | undefined },
): Observable<Signal> {
  const turn = { taskId, store, request };
  if (busyMs === undefined) return watchTurn(turn).pipe(failOnShutdown(request, taskId));
  const options = openOptions(request, store, undefined);
  const takeOver: BusyTurn['takeOver'] = (own, seen) => continueRun(request, store, { opening: own, taskId, seen });
  return watchUntilFree({ ...turn, options, busyMs, takeOver }).pipe(failOnShutdown(request, taskId));
}

function iterationLimit(config: ResolvedConfig, { settings }: TurnIdentity): number {
  return settings.maxIterations ?? config.maxIterations;
}

/** Errors with `SHUTDOWN` as soon as this process shuts down: for turns that it waits for or watches. */
function failOnShutdown<T>(request: RunRequest, taskId: string): MonoTypeOperatorFunction<T> {
  const drains = drainsOf(request);
  if (drains.length === 0) return (source) => source;
  return (source) =>
    new Observable((to) => {
      to.add(source.subscribe(to));
      for (const drain of drains) to.add(drain.onAbort(() => to.error(shutdownError(taskId))));
    });
}

interface OwnRun {
  readonly request: RunRequest;
  readonly tracing: TurnTracing;
  /** `agent.execute`. */
  readonly traced: TracedSpan;
  /** Another process created the turn: tools that are missing here may exist there. */
  readonly submitted?: true;
  /** Absent for the first run of a turn. */
  readonly resumed?: {
    readonly lostAt: number | undefined;
    readonly admitted: Admitted;
    /** Settles once the spans that the previous process lost are written. */
    readonly restoring: Promise<void> | undefined;
  };
}

/** The lease, and when it was requested, if there is a store. */
type Leased =
  | { readonly lease: Lease; readonly askedAt: Moment }
  | { readonly lease?: undefined; readonly askedAt?: undefined };

/** The records so far, and the lease. */
type OwnTurn = Leased & { readonly past: Commit };

/**
 * Runs a turn that this process owns: emits the records so far, then runs the loop. Signals pass the operators in order: those that act before
 * records are written (an error becomes the last record, open child turns end), the journal, then those that act on durable records only.
 */
function runOwned(run: OwnRun, { past, ...leased }: OwnTurn): Observable<Signal> {
  const { request, traced } = run;
  const { lease } = leased;
  const { config } = request;
  const drains = drainsOf(request);
  const deps = newRun(run, past.after, leased);
  const first = run.resumed ? resumeCommit(deps.node, past.after, run) : undefined;
  const begunElsewhere = run.resumed !== undefined || run.submitted === true;
  const begin = first && stillWaits(past.after, first) ? first : undefined;
  const loop$ = loopSegments(deps, traced.traceContext, { config, resumed: begunElsewhere, begin })(
    first?.after ?? past.after,
  );
  const { taskStateStore: store } = config;
  const target = store && lease ? { store, lease } : undefined;
  const { afterTurn, afterEnd } = deps.hooks.lists;
  const operators = fuse(
    catchTurnError(deps, begin ? past.after : (first?.after ?? past.after)),
    ...(target ? [endChildTurns(deps, first?.after ?? past.after)] : []),
    journal({ journal: target, clock: config.clock, storeDeadlineMs: config.storeDeadlineMs }),
    ...(target ? storeOperators(deps, target, past.after) : []),
    ...(drains.length > 0 ? [failAfterDrain(deps, past.after)] : []),
    ...(config.agents || afterTurn.length + afterEnd.length > 0
      ? [callEndHooks(deps, past.after, traced.traceContext)]
      : []),
    tapAfterTurn(deps, traced.span),
  );
  const run$ = operators(first && !begin ? begun(first, loop$, run) : loop$);
  const restoring = run.resumed?.restoring;
  const own$ = restoring ? concat(run$, from(restoring).pipe(ignoreElements())) : run$;
  return new Observable((subscriber) => {
    // A watch may have forwarded requests to the previous owner.
    request.inbox.keepHere();
    request.parent?.begin(deps.node);
    for (const drain of drains) {
      if (drain.aborted) deps.inbox.drain.abort(drain.reason);
      else subscriber.add(drain.onAbort(() => deps.inbox.drain.abort(drain.reason)));
    }
    subscriber.next(run.resumed ? { continues: true, ...past } : past);
    own$.subscribe(subscriber);
  });
}

/** Whether a turn that waits for a missing tool or agent is only looked at: it resumes once the part is there, and records nothing until then. */
function stillWaits({ hold }: LoopState, { steps }: Commit): boolean {
  const [first] = steps;
  const isLook = steps.length === 1 && first?.record.type === 'turn.resumed' && first.record.lostAt === undefined;
  return isLook && isMissingPart(hold?.error?.code);
}

/**
 * Runs the loop behind its first commit. Where a process crashed, the commit is durable before: hooks and models that crash each process are
 * counted by it.
 */
function begun(first: Commit, loop$: Observable<Signal>, { resumed }: OwnRun): Observable<Signal> {
  if (resumed?.lostAt === undefined) return concat(of(first), loop$);
  return new Observable((to) => {
    to.next({ ...first, barrier: true, durable: () => void to.add(loop$.subscribe(to)) });
  });
}

function storeOperators(
  deps: Run,
  target: { readonly store: TaskStateStore; readonly lease: Lease },
  state: LoopState,
): readonly FusibleOperator<Signal, Signal>[] {
  const { clock, storeDeadlineMs } = deps.segment.config;
  const leased = { clock, ...target };
  return [
    abortIfLost(deps),
    followCommands(deps, target.store, state.commands),
    ...(deps.node.leaseHold ? [keepLease({ hold: deps.node.leaseHold, storeDeadlineMs, ...leased })] : []),
    releaseLease(leased),
  ];
}

function newRun({ request, tracing, resumed }: OwnRun, state: LoopState, { lease, askedAt }: Leased): Run {
  const { config: given, inbox, caller, parent } = request;
  const { authContext, context } = caller;
  const { turn } = state;
  const config = configOf(given, turn.settings);
  const { clock } = config;
  const node: TurnNode = new TurnNode(state, {
    now: clock.now.bind(clock),
    limitReached: (used) => reachedLimit(run.segment.config.extensions, used),
    parent,
    lostAt: resumed?.lostAt,
    leaseHold: lease && new LeaseHold(clock, lease.leaseMs, askedAt, parent?.leaseHold),
    epoch: lease?.epoch,
  });
  const run: Run = new Run({ config, turn, tracing, tools: noTools, authContext, context }, node, inbox);
  // A turn that was paused by `shouldPause` is not asked again at the same place.
  if (state.outcome) run.hooks.noteAsked('shouldPause', state);
  return run;
}

function startRecord(request: RunRequest, start: TurnStart, span: SpanContext): Stamped<TurnStarted> {
  const { config, parent } = request;
  const link = linkOf(span, request);
  return {
    type: 'turn.started',
    schema: journalSchema,
    ...start,
    ...(parent && { parent: parent.link }),
    seq: 1,
    epoch: 0,
    at: config.clock.now(),
    ...(link && { trace: link }),
  };
}

function resumeCommit(node: TurnNode, state: LoopState, { request, resumed, traced: { span } }: OwnRun): Commit {
  const link = linkOf(span.spanContext(), request);
  const lostAt = resumed?.lostAt;
  const waited = lostAt !== undefined && (resumed?.admitted.waited || lostAt < (state.hold?.until ?? 0));
  const record = {
    type: 'turn.resumed' as const,
    ...(link && { trace: link }),
    ...(lostAt !== undefined && { lostAt }),
    ...(waited && { waited }),
    // A queued turn whose process crashed may have caused the crash.
    ...(resumed?.admitted.queued && lostAt === undefined && { queued: true as const }),
  };
  return commitOf(node, state, [record, ...recordsOfAnswers(state, request.resume.answers)]);
}

function openOptions(request: RunRequest, store: TaskStateStore, contextId: string | undefined): OpenOptions {
  const { config, resume } = request;
  return { request, store, deadline: deadlineOf(config), owner: config.generateId(), contextId, onBusy: resume.onBusy };
}

/** Records the error of a run that failed before it started. */
function failPlanned(planned: PlannedSpan, error: unknown): void {
  const { span } = planned.start();
  failSpan(span, error);
  span.end();
}
