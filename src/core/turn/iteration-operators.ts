import type { Context, Span } from '@opentelemetry/api';
import { startLoopIterationSpan } from '../../observability/spans/run-spans.ts';
import { cancelSpan, failSpan, type TracedSpan } from '../../observability/spans/tracing-options.ts';
import type { Signal } from '../journal/signals.ts';
import { type FusibleOperator, type Sink, Stage, staged } from '../streams/operate.ts';
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
