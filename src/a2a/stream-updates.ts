import type { Artifact, StreamResponse, Task, TaskState } from '@a2a-js/sdk';
import { defer, mergeMap, type Observable, takeWhile } from 'rxjs';
import type { AgentEvent } from '../core/contracts/index.ts';
import { type Commit, EventProjector, isBehind, type Signal, taskState } from '../core/journal/index.ts';
import { cursorAfter, taskOf } from './task-snapshot.ts';
import { isSuspension, responsesOf } from './to-wire.ts';
import { isTerminalState, wireState } from './wire-state.ts';

export interface StreamOptions {
  readonly now: () => number;
  readonly historyLength: number | undefined;
  /** Whether tool calls are shown. */
  readonly toolEvents: boolean;
  /** The kinds of events of extensions that are shown. Default none. */
  readonly extensionEvents?: readonly string[];
  /** The cursor of the last update that the client has: later ones are sent again. */
  readonly from: string | undefined;
  /** The stream begins with the task as of this record, followed by updates. Default: the current task. */
  readonly since?: number | undefined;
  /** What the tools of the task keep. Default none. */
  readonly kept?: readonly Artifact[];
  /** Whether the stream ends where the task waits for input, too. */
  readonly untilInput: boolean;
  /** Up to this record the task counts as running, even if it waits for input there. */
  readonly beyond: number;
}

/**
 * What a stream sends of a turn's signals: the task as it stands first, then its updates in order, up to its end.
 *
 * Where the client names a cursor it has what came before, so the task comes without history and artifacts, and what it missed follows.
 */
export function streamUpdates(options: StreamOptions): (signals$: Observable<Signal>) => Observable<StreamResponse> {
  const { toolEvents, extensionEvents = [] } = options;
  return (signals$) =>
    defer(() => {
      const projector = new EventProjector({ checkpoints: true, now: options.now });
      let first = true;
      let told: TaskState | undefined;
      const wired = (events: readonly AgentEvent[], commit?: Commit): readonly StreamResponse[] =>
        events.flatMap((event) => {
          if (event.kind === 'status-update') {
            const state = wireState(event.status.state);
            if (isSuspension(event) && told === state) return [];
            told = state;
          }
          return responsesOf(event, { value: endValueOf(commit), toolEvents, extensionEvents });
        });
      const responses = (signal: Signal): readonly StreamResponse[] => {
        const events = projector.project(signal);
        if (signal.type !== 'commit') return wired(events);
        if (!first) return wired(events, signal);
        first = false;
        const task = snapshot(signal, options);
        told = task.status?.state;
        return [{ payload: { $case: 'task', value: task } }, ...wired(unseen(events, signal, options), signal)];
      };
      return signals$.pipe(
        takeWhile((signal) => signal.type !== 'commit' || !isOver(signal, options), true),
        mergeMap(responses),
      );
    });
}

function snapshot(
  { steps, after }: Commit,
  { from, kept = [], historyLength, since = after.seq }: StreamOptions,
): Task {
  const records = steps.map(({ record }) => record).filter(({ seq }) => seq <= since);
  const state = steps.find(({ record }) => record.seq === since + 1)?.before ?? after;
  const view = { records, state };
  if (from !== undefined) return taskOf(view, { historyLength: 0, artifacts: false });
  const task = taskOf(view, { historyLength });
  return { ...task, artifacts: [...task.artifacts, ...kept] };
}

/** The updates that the task does not include: those after the client's cursor, else after the record as of which the task was sent. */
function unseen(
  events: readonly AgentEvent[],
  { after }: Commit,
  { from, since = after.seq }: StreamOptions,
): readonly AgentEvent[] {
  return events.filter(isBehind(from ?? cursorAfter(since)));
}

/** The value that the turn ended with, where it did. */
function endValueOf(commit: Commit | undefined): unknown {
  const last = commit?.steps.at(-1)?.record;
  return last?.type === 'turn.done' ? last.value : undefined;
}

function isOver({ after }: Commit, { untilInput, beyond }: StreamOptions): boolean {
  const state = taskState(after);
  if (isTerminalState(state)) return true;
  return untilInput && after.seq > beyond && state === 'input-required';
}
