import { context as activeContext, type Context, type Span } from '@opentelemetry/api';
import { Subscriber } from 'rxjs';
import { startLoopIterationSpan } from '../../observability/spans/run-spans.ts';
import { cancelSpan, failSpan, type TracedSpan } from '../../observability/spans/tracing-options.ts';
import { type LLMChunk, type LLMProvider, type LLMResponse, textOf } from '../contracts/index.ts';
import type { AskedHook } from '../hooks/hook-context.ts';
import { recordBranches } from '../hooks/record-of-change.ts';
import { CommitDraft, type LoopState, type Signal } from '../journal/index.ts';
import { type Responder, reasonToLeave, respond } from '../model-call/answer.ts';
import { type ChangedCall, changeCall, type ModelCall } from '../model-call/change-call.ts';
import { ModelSilence } from '../model-call/limits.ts';
import { type CallParams, callParams, type PreparedCall, prepareLLMCall } from '../model-call/request.ts';
import { failedSummary, noResponse, responseFlaw } from '../model-call/response.ts';
import type { ModelCallDeps } from '../model-call/usage.ts';
import { type FusibleOperator, type Sink, Stage, staged } from '../streams/index.ts';
import type { BatchOwner } from '../tool-call/call-pipe.ts';
import { CallPipe } from '../tool-call/call-pipe.ts';
import { MergedBatch } from '../tool-call/tool-batch.ts';
import { executeTools } from '../tool-call/tool-operators.ts';
import type { NextStep } from './next-step.ts';

/** Receives the signals of an iteration, then exactly one of `stepFailed` and `stepCompleted`, unless it called `leave` before. */
export interface StepOwner {
  pass(signal: Signal): void;
  stepFailed(error: unknown): void;
  stepCompleted(): void;
}

/** Creates the iteration that continues from a state. Its `start` runs it. */
export type NewIteration = (state: LoopState, step: RunStep, owner: StepOwner) => ModelStep;

type RunStep = Extract<NextStep, { do: 'call' | 'tools' }>;

/** Creates iterations: a model call and the tools that its response requests, or the open calls of an interrupted batch. */
export function newIteration(deps: ModelCallDeps, traceContext: Context): NewIteration {
  const startSpan = startIterationSpan(deps, traceContext);
  let pipe: CallPipe | undefined;
  const pipeOf = () => {
    pipe ??= new CallPipe(deps);
    return pipe;
  };
  return (state, step, owner) => {
    const iteration = step.do === 'call' ? step.start.iteration : state.iteration;
    const { span, traceContext: inner } = startSpan(iteration);
    return new ModelStep(deps, { owner, pipeOf, span, traceContext: inner, state });
  };
}

interface StepOptions {
  readonly owner: StepOwner;
  /** Returns the loop's pipe, created for its first batch. */
  readonly pipeOf: () => CallPipe;
  /** Of the iteration. */
  readonly span: Span;
  readonly traceContext: Context;
  readonly state: LoopState;
}

/**
 * One iteration as one object: the subscriber of its model call, and the owner of its batch. In this order: commits `llm.start`; passes the
 * deltas; ends the span of the call; commits `llm.done`; once that is durable, runs the tools in their span; ends the span of the iteration;
 * notifies its owner. On complete, error and unsubscribe alike it unsubscribes from the source, aborts the call's signal, stops the batch, and
 * ends each span once, before it notifies the owner. `millrace/operators` has the same behaviour as separate operators: those of
 * `../model-call/answer.ts`, `executeTools`, and those at the end of this file.
 */
export class ModelStep extends Subscriber<LLMChunk> implements BatchOwner, Responder {
  readonly #deps: ModelCallDeps;
  readonly #owner: StepOwner;
  readonly #pipeOf: () => CallPipe;
  readonly #span: Span;
  readonly #traceContext: Context;
  /** The state from which the model call, or the open batch, begins. */
  #state: LoopState;
  #call: PreparedCall | undefined;
  #batch: MergedBatch | undefined;
  /** How many parts still run: the model call and, after its commit, the batch of tools. */
  #open = 1;
  #answered = false;
  /** The pending hook of an extension for the model call. */
  #question: AskedHook | undefined;
  #over = false;

  constructor(deps: ModelCallDeps, { owner, pipeOf, span, traceContext, state }: StepOptions) {
    super();
    this.#deps = deps;
    this.#owner = owner;
    this.#pipeOf = pipeOf;
    this.#span = span;
    this.#traceContext = traceContext;
    this.#state = state;
  }

  get isOver(): boolean {
    return this.#over;
  }

  start(step: RunStep): void {
    try {
      if (step.do === 'call') this.#begin(step);
      else this.#resumeTools();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Stops the iteration: closes the model's connection and aborts the tools. The owner is not notified. */
  leave(): void {
    if (!this.#over) this.#close(false);
  }

  /** A signal of the model call or the batch. */
  pass(signal: Signal): void {
    if (this.#over) return;
    if (signal.type === 'commit' && signal.cause) failSpan(this.#span, signal.cause);
    this.#owner.pass(signal);
  }

  fail(error: unknown): void {
    if (this.#over) return;
    failSpan(this.#span, error);
    this.#close(true);
    this.#owner.stepFailed(error);
  }

  /** Called when the model call, or the batch, completes. */
  end(): void {
    if (this.#over || --this.#open > 0) return;
    this.#close(false);
    this.#owner.stepCompleted();
  }

  waitsFor(question: AskedHook): void {
    this.#question = question;
  }

  commit(draft: CommitDraft): void {
    const runsTools = draft.after.phase === 'tools';
    if (runsTools) this.#open++;
    this.#owner.pass(draft.finish(true, runsTools ? () => this.#runTools(draft.after) : undefined));
    this.unsubscribe();
    this.end();
  }

  protected override _next(chunk: LLMChunk): void {
    if (this.#answered) return;
    try {
      if (chunk.type === 'done') return this.#answer(chunk);
      this.#call?.saw(chunk, this);
    } catch (error) {
      this.fail(error);
    }
  }

  protected override _error(thrown: unknown): void {
    try {
      if (!this.#answered) this.#modelFailed(thrown);
    } finally {
      this.unsubscribe();
    }
  }

  protected override _complete(): void {
    try {
      if (!this.#answered) this.#modelFailed(noResponse());
    } finally {
      this.unsubscribe();
    }
  }

  #begin({ start, view }: ModelCall): void {
    const deps = this.#deps;
    const draft = new CommitDraft(deps, this.#state);
    draft.add(start);
    this.#state = draft.after;
    this.#owner.pass(draft.finish(false));
    if (this.#over) return;
    if (deps.hooks.lists.beforeLLMCall.length > 0) this.#callHooks(view);
    else this.#request(prepareLLMCall(deps, this.#traceContext)(this.#state, { view }));
  }

  /** Calls the `beforeLLMCall` hooks, then makes the model call. */
  #callHooks(view: ModelCall['view']): void {
    const deps = this.#deps;
    const scope = deps.scope.child();
    this.add(() => scope.release());
    const params = callParams(deps, this.#state, { view, scope });
    const request = (changed: ChangedCall) => {
      if (this.#over) return;
      this.#record(changed.branches);
      if (this.#over) return;
      this.#request(prepareLLMCall(deps, this.#traceContext)(this.#state, { params, scope, changed }));
    };
    const changed = changeCall(deps, this.#traceContext, (question) => this.waitsFor(question))(this.#state, params);
    if (changed instanceof Promise) changed.then(request).catch((error: unknown) => this.fail(error));
    else request(changed);
  }

  /** Records the usage of hooks' child turns before the model call: the call may fail, or the process may crash. */
  #record(branches: ChangedCall['branches']): void {
    if (branches.length === 0) return;
    const draft = new CommitDraft(this.#deps, this.#state);
    recordBranches(draft, branches);
    if (draft.steps.length === 0) return;
    this.#state = draft.after;
    this.#owner.pass(draft.finish(false));
  }

  /** Sends the request to the provider, within the span's context; uses `stream` if the provider has it. Skips it if an extension has answered. */
  #request(call: PreparedCall): void {
    const { hooks, openCall, config } = this.#deps;
    const { iteration, history } = this.#state;
    this.#call = call;
    hooks.lastCall = { iteration, params: call.params, historyLength: history.length };
    call.begin((noted) => this.pass(noted));
    if (call.response) return emitResponse(call.response, this);
    const silence = config.modelSilenceMs > 0 ? new ModelSilence(config.clock, config.modelSilenceMs) : undefined;
    openCall.silence = silence;
    silence?.limit(call.params);
    try {
      activeContext.with(call.traceContext, subscribe, undefined, call.provider, call.params, this);
    } catch (error) {
      return this.error(error);
    }
    if (this.closed || openCall.isAnswered) return;
    silence?.start((error) => {
      call.scope.abort(error);
      this.error(error);
    });
  }

  #answer(chunk: Extract<LLMChunk, { type: 'done' }>): void {
    const flaw = responseFlaw(chunk.response);
    if (flaw) return this.#modelFailed(flaw);
    this.#answered = true;
    const { response } = this.#call?.answered(chunk) ?? chunk;
    if (this.#state.summary) this.#checkSummary(response);
    respond(this.#deps, { state: this.#state, traceContext: this.#traceContext }, { response, to: this });
  }

  #checkSummary({ message }: LLMResponse): void {
    if (textOf(message.content) !== '') return;
    this.pass({ type: 'model-note', note: { kind: 'warning', message: failedSummary('the model gave no text.') } });
  }

  #modelFailed(thrown: unknown): void {
    if (this.#over) return;
    const error = this.#call?.failed(thrown) ?? thrown;
    this.#call?.endWith(error);
    this.fail(error);
  }

  #runTools(state: LoopState): void {
    if (this.#over) return;
    try {
      this.#batch = new MergedBatch(this.#deps, {
        state,
        owner: this,
        traceContext: this.#traceContext,
        pipe: this.#pipeOf(),
      });
      this.#batch.start();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Runs the calls without a result, after a pause or a crash interrupted their batch. */
  #resumeTools(): void {
    const signals$ = executeTools(this.#deps, this.#traceContext, this.#pipeOf())(this.#state);
    this.add(
      signals$.subscribe({
        next: (signal) => this.pass(signal),
        error: (error: unknown) => this.fail(error),
        complete: () => this.end(),
      }),
    );
  }

  #close(failed: boolean): void {
    this.#over = true;
    this.unsubscribe();
    if (this.#question?.isOver === false) this.#question.leave(reasonToLeave(this.#deps));
    this.#call?.leave();
    this.#batch?.stop();
    if (this.#deps.scope.aborted && !failed) cancelSpan(this.#span);
    this.#span.end();
  }
}

function subscribe(provider: LLMProvider, params: CallParams, to: Subscriber<LLMChunk>): void {
  if (provider.stream && provider.capabilities?.streaming !== false) {
    provider.stream(params).subscribe(to);
    return;
  }
  provider.call(params).then(
    (response) => emitResponse(response, to),
    (error: unknown) => to.error(error),
  );
}

function emitResponse(response: LLMResponse, to: Subscriber<LLMChunk>): void {
  to.next({ type: 'done', response });
  to.complete();
}

/** Starts the span of an iteration below `traceContext`. */
export function startIterationSpan(deps: ModelCallDeps, traceContext: Context): (iteration: number) => TracedSpan {
  return (iteration) => startLoopIterationSpan(deps.tracing, iteration, traceContext);
}

/** Records the error of an iteration on its span and passes it on; it does not retry. */
export function catchIterationError(_deps: ModelCallDeps, span: Span): FusibleOperator<Signal, Signal> {
  return staged((to) => new IterationFailure(span, to));
}

class IterationFailure extends Stage<Signal> {
  readonly #span: Span;

  constructor(span: Span, to: Sink<Signal>) {
    super(to);
    this.#span = span;
  }

  protected override take(signal: Signal): void {
    if (signal.type === 'commit' && signal.cause) failSpan(this.#span, signal.cause);
    this.to.next(signal);
  }

  protected override failed(error: unknown): void {
    failSpan(this.#span, error);
    this.to.error(error);
  }
}

/** Ends the span on complete, error and unsubscribe, before it notifies downstream. */
export function completeIteration(deps: ModelCallDeps, span: Span): FusibleOperator<Signal, Signal> {
  return staged((to) => new IterationEnd(deps, span, to));
}

class IterationEnd extends Stage<Signal> {
  readonly #deps: ModelCallDeps;
  readonly #span: Span;
  #failed = false;

  constructor(deps: ModelCallDeps, span: Span, to: Sink<Signal>) {
    super(to);
    this.#deps = deps;
    this.#span = span;
  }

  protected override failed(error: unknown): void {
    this.#failed = true;
    this.to.error(error);
  }

  protected override finalize(): void {
    if (this.#deps.scope.aborted && !this.#failed) cancelSpan(this.#span);
    this.#span.end();
  }
}
