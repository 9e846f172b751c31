import type { Context } from '@opentelemetry/api';
import { Observable, type Subscriber, Subscription } from 'rxjs';
import type { LoopState, Signal } from '../journal/index.ts';
import type { BatchOwner, CallPipe } from './call-pipe.ts';
import { loadChecks } from './check-call.ts';
import { MergedBatch } from './tool-batch.ts';
import type { ToolCallDeps } from './tool-results.ts';

/**
 * The open batch of a state: calls with an intent run at once, the others as places get free; each result is committed the moment
 * it is there, together with the intents of the calls that take the place. On cancel no call starts, running ones have
 * `abortGraceMs` to stop, and the batch completes with their results. Unsubscribing aborts all of them and drops their results.
 */
export function executeTools(
  deps: ToolCallDeps,
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
function startAfter({ scope, drain }: ToolCallDeps, { loading, start, to }: LateStart): void {
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
