import type { Context } from '@opentelemetry/api';
import { messageOf } from '../contracts/index.ts';
import {
  type Commit,
  type CommitDraft,
  commitOf,
  type LoopState,
  type Signal,
  type TurnSuspended,
} from '../journal/index.ts';
import { prepareView } from '../model-call/change-call.ts';
import { answerFailure, type FailureAnswer } from '../model-call/failed-call.ts';
import { failedSummary, limitReason, summaryFallback } from '../model-call/response.ts';
import { endRecords } from '../ownership/inbox.ts';
import { type AbortListener, after, outletOf, type Sink, Source, Stage } from '../streams/index.ts';
import { backoffAfter, withoutRetries } from './backoff.ts';
import { askBetweenSteps } from './between-steps.ts';
import { runIteration } from './iteration.ts';
import { type CallStep, callWith, isAtLastCall, type NextStep, nextStep } from './next-step.ts';
import type { Run } from './run.ts';

/*
 * READ THIS FIRST: how a turn runs, and which file does what.
 *
 * 1. `AgentLoop.startTurn` (`tasks/agent-loop.ts`) returns a `Turn` (`tasks/turn.ts`), the Observable that users hold. Its first subscriber starts
 *    `run-turn.ts`, which opens the journal and acquires the lease (`open-turn.ts`), then composes the operators around this loop
 *    (`run-operators.ts`). `segment.ts` lists the tools of the current agent and starts the loop.
 * 2. The loop alternates: `nextStep` (`next-step.ts`, synchronous, changes nothing) reads the state and decides; `IterationLoop` below executes.
 *    The steps are: end, write records, call hooks (`between-steps.ts`), call the model, run open tool calls, wait. Requests to the running turn
 *    (pause, steer, answer) are in its inbox (`../ownership/inbox.ts`). Aborting `deps.inbox.scope` cancels the turn; aborting
 *    `deps.inbox.drain` leaves it to another process.
 * 3. An iteration (`iteration.ts`) is composed of the operators that `millrace/operators` exports: `callModel` (`../model-call/call-model.ts`) makes
 *    the model call, `withTools` then runs the tools that the response asks for (`executeTools`, `../tool-call/tool-operators.ts`, through the
 *    `mergeMap` of `call-pipe.ts`). The intents of the first calls are in one append with the response (`planFirstWave`, `tool-plan.ts`).
 * 4. All of them emit signals (`../journal/commit.ts`): a delta, or a commit, which holds new records and the state after them. The state is only
 *    ever the fold of the records (`applyRecord` there); the loop keeps the state after the last commit.
 *    `state.phase` tells where a turn is: `llm`, a model call is open; `tools`, calls have no result; `answered`, the model asked for no tools;
 *    `closed`, between two iterations, or before the first.
 * 5. Downstream, `../ownership/journal-line.ts` appends each commit to the store before anything else receives it, and `share-turn.ts` turns
 *    signals into events for the subscribers.
 */

/**
 * Runs iterations until the turn ends, suspends, is cancelled, or another agent takes over; completes after emitting the record of that. The stack
 * does not grow with the number of iterations, even if all of them answer synchronously; after every 100 steps the event loop runs. On cancel
 * and on drain a model call is aborted at once, and running tools get `abortGraceMs` to stop. Errors with the error of an iteration; unsubscribing
 * stops it.
 */
export function loopIterations(deps: Run, traceContext: Context): (state: LoopState) => Source<Signal> {
  return (state) =>
    new Source((to) => {
      const out = outletOf(to);
      // Hooks emit their failures here too.
      deps.hooks.out = out;
      const loop = new IterationLoop(deps, { state, traceContext, out });
      out.add(() => loop.unsubscribe());
      loop.advance();
    });
}

/** The last stage of an iteration. Its signals are the input of the operators around the loop. */
class Iteration extends Stage<Signal> {
  declare private readonly loop: IterationLoop;

  constructor(loop: IterationLoop, to: Sink<Signal>) {
    super(to, 'records');
    this.loop = loop;
  }

  protected override take(signal: Signal): Signal {
    if (signal.type === 'commit') this.loop.state = signal.after;
    return signal;
  }

  protected override failed(error: unknown): void {
    this.loop.iterationFailed(error);
  }

  protected override completed(): void {
    this.loop.iterationOver();
  }
}

interface LoopOptions {
  readonly state: LoopState;
  readonly traceContext: Context;
  readonly out: Sink<Signal>;
}

const stepsBetweenYields = 100;

/** The longest delay of a timer in Node. */
const longestTimerMs = 2 ** 31 - 1;

class IterationLoop implements AbortListener {
  readonly #deps: Run;
  readonly #traceContext: Context;
  readonly #out: Sink<Signal>;
  readonly #runIteration: ReturnType<typeof runIteration>;
  /** After the last commit. */
  state: LoopState;
  #iteration: Iteration | undefined;
  /** The promise of pending hooks. */
  #pendingHooks: Promise<unknown> | undefined;
  #advancing = false;
  #again = false;
  /** Steps since the loop last yielded to the event loop. */
  #steps = 0;
  /** Ends the current `wait` step early. */
  #wake: (() => void) | undefined;
  #cancelWait: (() => void) | undefined;
  /** `until` of the last `wait` step that lasted to its end. */
  #waitedUntil: number | undefined;

  constructor(deps: Run, options: LoopOptions) {
    this.#deps = deps;
    this.#traceContext = options.traceContext;
    this.#out = options.out;
    this.#runIteration = runIteration(deps, options.traceContext);
    this.state = options.state;
    deps.inbox.scope.listen(this);
    deps.inbox.drain.listen(this);
    deps.inbox.reader = this;
  }

  /** See `isAtLastCall` in `next-step.ts`. */
  get isAtLastCall(): boolean {
    return isAtLastCall(this.#deps.segment.config, this.state);
  }

  /** Takes steps until one of them is asynchronous. A trampoline: synchronous steps do not nest, and after every 100 the event loop runs. */
  advance(): void {
    this.#again = true;
    if (this.#advancing) return;
    this.#advancing = true;
    try {
      while (this.#again && !this.#out.closed) this.#advanceOnce();
    } catch (error) {
      this.#out.error(error);
    }
    this.#advancing = false;
  }

  #advanceOnce(): void {
    this.#again = false;
    if (++this.#steps > stepsBetweenYields) this.#yieldOnce();
    else this.#execute(nextStep(this.#deps, this.state, this.#waitedUntil));
  }

  #yieldOnce(): void {
    setImmediate(() => {
      this.#steps = 0;
      this.advance();
    });
  }

  #execute(step: NextStep): void {
    switch (step.do) {
      case 'end':
        return this.#out.complete();
      case 'write':
        return this.#write(step.records);
      case 'ask':
        return this.#awaitHooks(askBetweenSteps(this.#deps, this.#traceContext)(this.state, step.question), (draft) =>
          this.#commit(draft),
        );
      case 'call':
        return this.#startCall(step);
      case 'tools':
        return this.#iterate(step);
      case 'wait':
        return this.#wait(step.until);
    }
  }

  #write(records: Extract<NextStep, { do: 'write' }>['records']): void {
    if (records.length === 0) return this.advance();
    this.#emit(commitOf(this.#deps.node, this.state, records, true));
    this.advance();
  }

  #emit(commit: Commit): void {
    this.state = commit.after;
    if (commit.after.outcome) this.#deps.inbox.close(commit.after);
    this.#out.next(commit);
  }

  /** Calls `proceed` with the outcome of hooks. A cancel or drain does not wait for it. */
  #awaitHooks<A>(answer: A | Promise<A>, proceed: (answer: A) => void): void {
    if (!(answer instanceof Promise)) return proceed(answer);
    this.#pendingHooks = answer;
    answer.then(
      (given) => this.#takePending(answer) && this.#guarded(() => proceed(given)),
      (error: unknown) => this.#takePending(answer) && this.#out.error(error),
    );
    if (this.#stopped) this.onAbort();
  }

  /** Whether the loop still waits for these hooks; it no longer does after the call. */
  #takePending(answer: Promise<unknown>): boolean {
    if (this.#pendingHooks !== answer) return false;
    this.#pendingHooks = undefined;
    return true;
  }

  /** An exception of `act` fails the turn. */
  #guarded(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.#out.error(error);
    }
  }

  #commit(draft: CommitDraft): void {
    if (draft.steps.length > 0) this.#emit(draft.finish(true));
    this.advance();
  }

  #startCall(step: CallStep): void {
    // If a parent turn has reached a limit, this cancels its call, and so this turn.
    if (this.#deps.node.parent && this.#deps.node.stopAtLimit()) return this.advance();
    const { hooks } = this.#deps;
    if (hooks.lists.prepareIteration.length === 0 || !hooks.isWanted('prepareIteration', this.state))
      return this.#iterate(step);
    this.#awaitHooks(prepareView(this.#deps, this.#traceContext)(this.state), ({ view, draft }) => {
      if (draft.after.changes.finish) return this.#commit(draft);
      if (draft.steps.length > 0) this.#emit(draft.finish(false));
      this.#iterate(callWith(this.#deps, this.state, { start: step.start, view }));
    });
  }

  #iterate(step: Extract<NextStep, { do: 'call' | 'tools' }>): void {
    const iteration = new Iteration(this, this.#out);
    this.#iteration = iteration;
    try {
      this.#runIteration(this.state, step, iteration);
    } catch (error) {
      iteration.error(error);
    }
  }

  /** Waits until `until`, or until the turn is paused, resumed, cancelled or drained. */
  #wait(until: number | undefined): void {
    const { clock } = this.#deps.segment.config;
    const wake = () => {
      if (this.#wake !== wake) return;
      this.#stopWaiting();
      this.advance();
    };
    this.#wake = wake;
    this.#deps.inbox.onPause(wake);
    if (until === undefined) return;
    const leftMs = Math.max(0, until - clock.now());
    this.#cancelWait = after(Math.min(leftMs, longestTimerMs), clock, () => {
      if (leftMs <= longestTimerMs) this.#waitedUntil = until;
      wake();
    });
  }

  #stopWaiting(): void {
    this.#wake = undefined;
    this.#cancelWait?.();
    this.#cancelWait = undefined;
    this.#deps.inbox.onPause(undefined);
  }

  /** The iteration is over. */
  iterationOver(): void {
    this.#iteration = undefined;
    this.advance();
  }

  /** The iteration failed. Asks the extensions whether a failed model call is repeated at once. */
  iterationFailed(error: unknown): void {
    this.#iteration = undefined;
    if (this.#stopped) return this.#failed(error);
    const asked = answerFailure(this.#deps, this.#traceContext)(this.state, error);
    if (asked) this.#awaitHooks(asked, (answer) => this.#takeAnswer(error, answer));
    else this.#failed(error);
  }

  #takeAnswer(failure: unknown, { draft, error = failure, repeats }: FailureAnswer): void {
    if (draft.steps.length > 0) this.#emit(draft.finish(true));
    if (repeats) this.advance();
    else this.#failed(error);
  }

  /**
   * A model call that `retryPlan` covers is repeated later. A failed closing summary is replaced by a fixed sentence, with a warning. Any other
   * error fails the turn.
   */
  #failed(error: unknown): void {
    const isCall = this.state.phase === 'llm' && !this.state.outcome && this.#deps.openModelCall.failureBy(error);
    const backoff = isCall && !this.#stopped ? backoffAfter(this.#deps, this.state, error) : undefined;
    if (backoff) return this.#backOff(backoff);
    if (!this.state.summary || !isCall)
      return this.#out.error(isCall ? withoutRetries(this.#deps, this.state, error) : error);
    const reason = limitReason(this.#deps.segment.config, this.state);
    this.#out.next({ type: 'model-note', note: { kind: 'warning', message: failedSummary(messageOf(error)) } });
    const last = this.#deps.openModelCall.closedBy({ type: 'turn.done', text: summaryFallback, reason });
    this.#write(endRecords(this.#deps.inbox, last));
  }

  #backOff(record: TurnSuspended): void {
    const { segment, openModelCall } = this.#deps;
    const { turn, config } = segment;
    const { until, attempt, error } = record.hold ?? {};
    config.logger.warn('turn backs off', { taskId: turn.taskId, code: error?.code, attempt, until });
    this.#write([openModelCall.closedBy(record)]);
  }

  /** On cancel and drain: stops waiting for a timer, a hook or a model call at once. Tools get `abortGraceMs` to stop. */
  onAbort(): void {
    if (this.#wake) return this.#wake();
    if (this.#pendingHooks) {
      this.#pendingHooks = undefined;
      return this.advance();
    }
    if (this.state.phase !== 'llm' || !this.#iteration) return;
    this.#iteration.close();
    this.iterationOver();
  }

  unsubscribe(): void {
    this.#deps.inbox.scope.forget(this);
    this.#deps.inbox.drain.forget(this);
    this.#pendingHooks = undefined;
    this.#stopWaiting();
    this.#iteration?.close();
  }

  get #stopped(): boolean {
    return this.#deps.inbox.scope.aborted || this.#deps.inbox.drain.aborted;
  }
}
