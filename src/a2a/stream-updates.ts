import type { StreamResponse } from '@a2a-js/sdk';
import { defer, mergeMap, type Observable, takeWhile } from 'rxjs';
import { EventProjector } from '../core/event-projector.ts';
import type { AgentEvent } from '../core/events.ts';
import { isBehind } from '../core/operators/event-operators.ts';
import type { Commit, Signal } from '../core/signals.ts';
import { taskState } from '../core/state.ts';
import { taskOf } from './task-snapshot.ts';
import { responsesOf } from './to-wire.ts';
import { isTerminalState } from './wire-state.ts';

export interface StreamOptions {
  readonly now: () => number;
  readonly historyLength: number | undefined;
  /** Whether tool calls are shown. */
  readonly toolEvents: boolean;
  /** The cursor of the last update that the client has: those behind it come again. Default: only new ones. */
  readonly from: string | undefined;
  /** Whether the stream ends where the task waits for input, too. */
  readonly untilInput: boolean;
  /** The task counts as going on up to this record, whatever it waits for there. */
  readonly beyond: number;
}

/**
 * What a stream sends of a turn's signals: the task as it stands first, then its updates in order, up to its end.
 *
 * Where the client names a cursor it has what came before, so the task comes without history and artifacts, and what it missed follows.
 */
export function streamUpdates(options: StreamOptions): (signals$: Observable<Signal>) => Observable<StreamResponse> {
  return (signals$) =>
    defer(() => {
      const projector = new EventProjector({ checkpoints: true, now: options.now });
      let first = true;
      const responses = (signal: Signal): readonly StreamResponse[] => {
        const events = projector.project(signal);
        if (signal.type !== 'commit') return wired(events, undefined, options);
        if (!first) return wired(events, signal, options);
        first = false;
        const updates = wired(unseen(events, signal, options), signal, options);
        return [{ payload: { $case: 'task', value: snapshot(signal, options) } }, ...updates];
      };
      return signals$.pipe(
        takeWhile((signal) => signal.type !== 'commit' || !isOver(signal, options), true),
        mergeMap(responses),
      );
    });
}

function snapshot(commit: Commit, { from, historyLength }: StreamOptions) {
  const view = { records: commit.steps.map(({ record }) => record), state: commit.after };
  return taskOf(view, from === undefined ? { historyLength } : { historyLength: 0, artifacts: false });
}

/** What the task does not say: what comes behind the cursor of the client, else that a task which was submitted is worked on. */
function unseen(events: readonly AgentEvent[], { after }: Commit, { from }: StreamOptions): readonly AgentEvent[] {
  if (from !== undefined) return events.filter(isBehind(from));
  return after.seq === 1 ? events : [];
}

function wired(events: readonly AgentEvent[], commit: Commit | undefined, { toolEvents }: StreamOptions) {
  const last = commit?.steps.at(-1)?.record;
  const value = last?.type === 'turn.done' ? last.value : undefined;
  return events.flatMap((event) => responsesOf(event, { value, toolEvents }));
}

function isOver({ after }: Commit, { untilInput, beyond }: StreamOptions): boolean {
  const state = taskState(after);
  if (isTerminalState(state)) return true;
  return untilInput && after.seq > beyond && state === 'input-required';
}
