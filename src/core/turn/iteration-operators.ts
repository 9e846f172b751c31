import type { Context, Span } from '@opentelemetry/api';
import { Observable } from 'rxjs';
import { startLoopIterationSpan } from '../../observability/spans/iteration-span.ts';
import { cancelSpan, failSpan, type TracedSpan } from '../../observability/spans/tracing-options.ts';
import type { Signal } from '../journal/signals.ts';
import type { LoopState } from '../journal/state.ts';
import { callLlm } from '../model-call/llm-operators.ts';
import { type FusibleOperator, fuse, type Sink, Stage, staged } from '../streams/operate.ts';
import { CallPipe } from '../tool-call/call-pipe.ts';
import { executeTools, runToolCalls } from '../tool-call/tool-operators.ts';
import type { NextStep } from './next-step.ts';
import type { TurnDeps } from './turn-deps.ts';

/** Starts the span of an iteration below `traceContext`. */
export function startIterationSpan(deps: TurnDeps, traceContext: Context): (iteration: number) => TracedSpan {
  return (iteration) => startLoopIterationSpan(deps.tracing, iteration, traceContext);
}

/** Writes the failure of an iteration to its span and passes it on: nothing is tried again here. */
export function catchIterationError(_deps: TurnDeps, span: Span): FusibleOperator<Signal, Signal> {
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

/** Ends the span of an iteration on every way out, before anything downstream of this operator hears of it. */
export function completeIteration(deps: TurnDeps, span: Span): FusibleOperator<Signal, Signal> {
  return staged((to) => new IterationEnd(deps, span, to));
}

class IterationEnd extends Stage<Signal> {
  readonly #deps: TurnDeps;
  readonly #span: Span;
  #failed = false;

  constructor(deps: TurnDeps, span: Span, to: Sink<Signal>) {
    super(to);
    this.#deps = deps;
    this.#span = span;
  }

  protected override failed(error: unknown): void {
    this.#failed = true;
    this.to.error(error);
  }

  protected override left(): void {
    if (this.#deps.scope.aborted && !this.#failed) cancelSpan(this.#span);
    this.#span.end();
  }
}

/**
 * One iteration: the model call that `step` describes and the tools it asks for, or the tools that were left open. Completes when
 * both are done. Unsubscribing closes the model's connection and aborts the tools.
 */
export function runIteration(
  deps: TurnDeps,
  traceContext: Context,
): (state: LoopState, step: Extract<NextStep, { do: 'call' | 'tools' }>) => Observable<Signal> {
  const startSpan = startIterationSpan(deps, traceContext);
  const pipe = new CallPipe(deps.config.toolConcurrency);
  return (state, step) =>
    new Observable((to) => {
      const iteration = step.do === 'call' ? step.start.iteration : state.iteration;
      const { span, traceContext: inner } = startSpan(iteration);
      const failing = catchIterationError(deps, span);
      const completing = completeIteration(deps, span);
      const signals$ =
        step.do === 'tools'
          ? executeTools(deps, inner, pipe)(state).pipe(fuse(failing, completing))
          : callLlm(deps, inner, [runToolCalls(deps, inner, pipe), failing, completing])(state, step);
      signals$.subscribe(to);
    });
}
