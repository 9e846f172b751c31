import type { Context } from '@opentelemetry/api';
import { Subscription } from 'rxjs';
import type { LoopState, Signal } from '../journal/index.ts';
import { type Sink, Source } from '../streams/index.ts';
import type { CallPipe } from './call-pipe.ts';
import { loadChecks } from './check-call.ts';
import { MergedBatch } from './tool-batch.ts';
import type { ToolCallDeps } from './tool-results.ts';

/**
 * Runs the open batch of a state, at most `toolConcurrency` calls at once, those with an intent first. Emits a commit for each result, which also
 * has the intents of the calls that start in its slot, and progress updates. Completes when no call is busy. On cancel no further call starts,
 * running ones have `abortGraceMs` to stop, and the batch completes with their results. Errors if this process loses a child turn, or with what
 * fails the turn, unless a commit records that. Unsubscribing aborts all calls and drops their results.
 */
export function executeTools(
  deps: ToolCallDeps,
  traceContext: Context,
  pipeOf?: () => CallPipe,
): (state: LoopState) => Source<Signal> {
  return (state) =>
    new Source((to) => {
      const start = () => {
        const batch = new MergedBatch(deps, { state, owner: to, traceContext, pipe: pipeOf?.() });
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
  readonly to: Sink<Signal>;
}

/** Starts after `loading`, or at once when the turn is cancelled or drained. */
function startAfter({ inbox: { scope, drain } }: ToolCallDeps, { loading, start, to }: LateStart): void {
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
  to.add(() => waiting.unsubscribe());
  for (const stop of [scope, drain]) waiting.add(stop.onAbort(begin));
  void loading.then(begin);
}
