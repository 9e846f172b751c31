import type { Context, Span } from '@opentelemetry/api';
import { startLoopIterationSpan } from '../../observability/spans/run-spans.ts';
import { cancelSpan, failSpan, type TracedSpan } from '../../observability/spans/tracing-options.ts';
import type { Commit, LoopState, Signal } from '../journal/index.ts';
import { callModel } from '../model-call/call-model.ts';
import { type FusibleOperator, passOn, pipeInto, type Sink, type Source, Stage, staged } from '../streams/index.ts';
import { CallPipe } from '../tool-call/call-pipe.ts';
import { executeTools } from '../tool-call/tool-operators.ts';
import type { NextStep } from './next-step.ts';
import type { Run } from './run.ts';

type RunStep = Extract<NextStep, { do: 'call' | 'tools' }>;

/**
 * Runs one iteration: a model call and the tools that its response requests, or the open calls of an interrupted batch, in a span of their own.
 * Errors `to` with the error of the call or of the batch. Closing `to` aborts the model's request, or the tools, and writes nothing.
 */
export function runIteration(
  deps: Run,
  traceContext: Context,
): (state: LoopState, step: RunStep, to: Sink<Signal>) => void {
  const startSpan = startIterationSpan(deps, traceContext);
  let pipe: CallPipe | undefined;
  const pipeOf = () => {
    pipe ??= new CallPipe(deps);
    return pipe;
  };
  return (state, step, to) => {
    const { span, traceContext: inner } = startSpan(step.do === 'call' ? step.start.iteration : state.iteration);
    const execute = executeTools(deps, inner, pipeOf);
    const failure = catchIterationError(deps, span);
    const end = completeIteration(deps, span);
    if (step.do === 'tools') pipeInto(to, execute(state), failure, end);
    else pipeInto(to, callModel(deps, inner)(state, step), withTools(execute), failure, end);
  };
}

/** Starts the span of an iteration below `traceContext`. */
export function startIterationSpan(deps: Run, traceContext: Context): (iteration: number) => TracedSpan {
  return (iteration) => startLoopIterationSpan(deps.segment.tracing, iteration, traceContext);
}

/** Runs the tools that a model call asks for, once its commit is durable. Completes when both are over; unsubscribing stops both. */
export function withTools(execute: (state: LoopState) => Source<Signal>): FusibleOperator<Signal, Signal> {
  return staged((to) => new ToolsAfter(execute, to));
}

class ToolsAfter extends Stage<Signal> {
  declare private readonly execute: (state: LoopState) => Source<Signal>;
  /** How many parts are not over: the model call and, after its commit, the tools. */
  declare private open: number;
  declare private hasTools: boolean;

  constructor(execute: (state: LoopState) => Source<Signal>, to: Sink<Signal>) {
    super(to, 'records');
    this.execute = execute;
    this.open = 1;
    this.hasTools = false;
  }

  protected override take(signal: Signal): Signal {
    if (this.hasTools || signal.type !== 'commit' || signal.after.phase !== 'tools') return signal;
    this.hasTools = true;
    this.open++;
    return whenDurable(signal, () => this.execute(signal.after).runInto(this));
  }

  override complete(): void {
    if (--this.open === 0) super.complete();
  }
}

/** Written out: V8 gives each object made by spread its own hidden class, and the hot path reads this one. */
function whenDurable({ steps, after, barrier }: Commit, durable: () => void): Commit {
  return { type: 'commit', steps, after, barrier, durable };
}

/** Records the error of an iteration on its span and passes it on; it does not retry. */
export function catchIterationError(_deps: Run, span: Span): FusibleOperator<Signal, Signal> {
  return span.isRecording() ? staged((to) => new IterationFailure(span, to)) : passOn;
}

class IterationFailure extends Stage<Signal> {
  declare private readonly span: Span;

  constructor(span: Span, to: Sink<Signal>) {
    super(to, 'records');
    this.span = span;
  }

  protected override take(signal: Signal): Signal {
    if (signal.type === 'commit' && signal.cause) failSpan(this.span, signal.cause);
    return signal;
  }

  protected override failed(error: unknown): void {
    failSpan(this.span, error);
    this.to.error(error);
  }
}

/** Ends the span on complete, error and unsubscribe, before it notifies downstream. */
export function completeIteration(deps: Run, span: Span): FusibleOperator<Signal, Signal> {
  return span.isRecording() ? staged((to) => new IterationEnd(deps, span, to)) : passOn;
}

class IterationEnd extends Stage<Signal> {
  declare private readonly deps: Run;
  declare private readonly span: Span;
  declare private hasFailed: boolean;

  constructor(deps: Run, span: Span, to: Sink<Signal>) {
    super(to);
    this.deps = deps;
    this.span = span;
    this.hasFailed = false;
  }

  protected override failed(error: unknown): void {
    this.hasFailed = true;
    this.to.error(error);
  }

  protected override finalize(): void {
    if (this.deps.inbox.scope.aborted && !this.hasFailed) cancelSpan(this.span);
    this.span.end();
  }
}
