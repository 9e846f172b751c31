import type { Context } from '@opentelemetry/api';
import { Observable, type Subscriber, Subscription } from 'rxjs';
import type { Signal } from '../journal/signals.ts';
import type { LoopState } from '../journal/state.ts';
import { type FusibleOperator, type Sink, Stage, staged } from '../streams/operate.ts';
import type { TurnDeps } from '../turn/turn-deps.ts';
import type { CallPipe } from './call-pipe.ts';
import { loadChecks } from './check-call.ts';
import { RunningTool, type ToolCallRun, type ToolSignal } from './running-tool.ts';
import { type BatchOwner, MergedBatch } from './tool-batch.ts';

/**
 * Runs the calls of a response once its commit is durable, and passes everything on. Completes when the source has and every
 * call has its result, or, where the turn is cancelled or pauses, when none runs any more.
 * `pipe`: of the loop; default: one of its own.
 */
export function runToolCalls(deps: TurnDeps, traceContext: Context, pipe?: CallPipe): FusibleOperator<Signal, Signal> {
  return staged((to) => new ToolCalls(deps, { traceContext, pipe }, to));
}

interface Calling {
  readonly traceContext: Context;
  readonly pipe: CallPipe | undefined;
}

class ToolCalls extends Stage<Signal> implements BatchOwner {
  readonly #deps: TurnDeps;
  readonly #calling: Calling;
  #batch: MergedBatch | undefined;
  /** The source, and the batch after a commit. */
  #open = 1;

  constructor(deps: TurnDeps, calling: Calling, to: Sink<Signal>) {
    super(to);
    this.#deps = deps;
    this.#calling = calling;
  }

  give(signal: Signal): void {
    this.to.next(signal);
  }

  fail(error: unknown): void {
    this.to.error(error);
  }

  end(): void {
    if (--this.#open === 0) this.to.complete();
  }

  protected override take(signal: Signal): void {
    if (signal.type !== 'commit' || signal.after.phase !== 'tools') return this.to.next(signal);
    this.#open++;
    const { steps, after, barrier } = signal;
    this.to.next({ type: 'commit', steps, after, barrier, durable: () => this.#start(after) });
  }

  protected override completed(): void {
    this.end();
  }

  protected override left(): void {
    this.#batch?.stop();
  }

  #start(state: LoopState): void {
    if (this.to.closed) return;
    try {
      const { traceContext, pipe } = this.#calling;
      this.#batch = new MergedBatch(this.#deps, { state, owner: this, traceContext, pipe });
      this.#batch.start();
    } catch (error) {
      this.fail(error);
    }
  }
}

/**
 * The open batch of a state: calls with an intent run at once, the others as places get free; each result is committed the moment
 * it is there, together with the intents of the calls that take the place. On cancel no call starts, running ones have
 * `abortGraceMs` to stop, and the batch completes with their results. Unsubscribing aborts all of them and drops their results.
 */
export function executeTools(
  deps: TurnDeps,
  traceContext: Context,
  pipe?: CallPipe,
): (state: LoopState) => Observable<Signal> {
  return (state) =>
    new Observable((to) => {
      const owner: BatchOwner = {
        give: (signal) => to.next(signal),
        fail: (error) => to.error(error),
        end: () => to.complete(),
      };
      const start = () => {
        const batch = new MergedBatch(deps, { state, owner, traceContext, pipe });
        to.add(() => batch.stop());
        batch.start();
      };
      const loading = loadChecks(deps, state.pendingToolCalls);
      if (loading) startAfter(deps, { loading, start, to });
      else start();
    });
}

interface LateStart {
  readonly loading: Promise<unknown>;
  readonly start: () => void;
  readonly to: Subscriber<Signal>;
}

/** A turn that is stopped does not wait for what checks need. */
function startAfter({ scope, drain }: TurnDeps, { loading, start, to }: LateStart): void {
  const waiting = new Subscription();
  const begin = () => {
    if (waiting.closed) return;
    waiting.unsubscribe();
    try {
      start();
    } catch (error) {
      to.error(error);
    }
  };
  to.add(waiting);
  for (const stop of [scope, drain]) waiting.add(stop.onAbort(begin));
  void loading.then(begin);
}

/**
 * Runs one call in its `tool[name]` span: progress updates, then exactly one result, also for a throw (`Tool error: <name>:
 * <message>`), a timeout (its signal is aborted), and a cancelled call that does not stop within `abortGraceMs`. Never errors.
 * Unsubscribing aborts the call's signal.
 */
export function runTool(deps: TurnDeps, traceContext: Context): (run: ToolCallRun) => Observable<ToolSignal> {
  return (run) =>
    new Observable((subscriber) => new RunningTool(deps, run, { out: subscriber, parent: traceContext }).start());
}
