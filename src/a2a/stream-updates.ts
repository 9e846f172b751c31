import type { Artifact, Part, StreamResponse, Task, TaskState } from '@a2a-js/sdk';
import { defer, mergeMap, type Observable, takeWhile } from 'rxjs';
import {
  type A2APart,
  type AgentEvent,
  type ArtifactUpdateEvent,
  type ExtensionEvent,
  isTerminalState,
  partsText,
  type StatusUpdateEvent,
  type SubAgentEvent,
} from '../core/contracts/index.ts';
import { type Commit, EventProjector, outputId, type Signal, taskState } from '../core/journal/index.ts';
import { isAfterCursor } from '../tasks/read-events.ts';
import { extensionEventsExtension, toolEventsExtension, turnMetadata, wireKind } from './extensions.ts';
import { dataPart, textPart } from './received-message.ts';
import { shownContext } from './scope.ts';
import {
  artifact,
  cursorAfter,
  failedState,
  failureMessage,
  finalMessage,
  questionMessage,
  taskOf,
  wireState,
} from './task-snapshot.ts';

interface StreamOptions {
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
      let shown: TaskState | undefined;
      const wired = (events: readonly AgentEvent[], commit?: Commit): readonly StreamResponse[] =>
        events.flatMap((event) => {
          if (event.kind === 'status-update') {
            const state = wireState(event.status.state);
            if (isSuspension(event) && shown === state) return [];
            shown = state;
          }
          return responsesOf(event, { value: endValueOf(commit), toolEvents, extensionEvents });
        });
      const responses = (signal: Signal): readonly StreamResponse[] => {
        const events = projector.project(signal);
        if (signal.type !== 'commit') return wired(events);
        if (!first) return wired(events, signal);
        first = false;
        const task = snapshot(signal, options);
        shown = task.status?.state;
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
  return events.filter(isAfterCursor(from ?? cursorAfter(since)));
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

interface WireOptions {
  /** What the turn ended with, where the event is its end. */
  readonly value: unknown;
  /** Whether tool calls are shown. */
  readonly toolEvents: boolean;
  /** The kinds of events of extensions that are shown. */
  readonly extensionEvents: readonly string[];
}

/** What a client is sent of an event. Nothing for the task, which it has got, and for what is internal. */
function responsesOf(event: AgentEvent, options: WireOptions): readonly StreamResponse[] {
  switch (event.kind) {
    case 'status-update':
      return [...outputOf(event, options.value), statusUpdate(event, options.value)];
    case 'artifact-update':
      return event.artifact.artifactId === outputId ? [] : [artifactUpdate(event)];
    case 'internal:tool-start':
    case 'internal:tool-complete':
      return options.toolEvents ? [toolUpdate(event)] : [];
    case 'internal:sub-agent':
      return options.toolEvents ? updateBelow(event) : [];
    case 'task':
    case 'internal:iteration-start':
    case 'internal:iteration-complete':
    case 'internal:llm-call':
    case 'internal:llm-response':
    case 'internal:llm-attempt-discarded':
    case 'internal:request-fitted':
    case 'internal:llm-warning':
    case 'internal:reasoning-delta':
    case 'internal:tool-call-delta':
    case 'internal:tool-progress':
    case 'internal:checkpoint':
    case 'internal:paused':
    case 'internal:resumed':
    case 'internal:extension-error':
      return [];
    default:
      return options.extensionEvents.includes(event.kind) ? [extensionUpdate(event)] : [];
  }
}

/** Whether a turn suspends with open questions: it has told them when they were asked. */
function isSuspension({ questions = [], reason }: StatusUpdateEvent): boolean {
  return questions.length > 0 && reason !== undefined;
}

function statusUpdate(event: StatusUpdateEvent, value: unknown): StreamResponse {
  const { taskId, contextId, status, cursor, reason, error, unread } = event;
  return {
    payload: {
      $case: 'statusUpdate',
      value: {
        taskId,
        contextId: shownContext(contextId),
        status: {
          state: wireState(error ? failedState(error) : status.state),
          message: messageOf(event, value),
          timestamp: status.timestamp,
        },
        metadata: turnMetadata({ cursor, reason, code: error?.code, unread }),
      },
    },
  };
}

function messageOf(event: StatusUpdateEvent, value: unknown) {
  const { status, error, questions = [] } = event;
  if (error) return failureMessage(event, error);
  if (status.state === 'completed') return finalMessage(event, partsText(status.message?.parts), value);
  return questionMessage(event, questions);
}

/** The value of a turn is an artifact of its own, in front of its end. */
function outputOf(event: StatusUpdateEvent, value: unknown): readonly StreamResponse[] {
  if (event.status.state !== 'completed' || value === undefined) return [];
  const { taskId, contextId } = event;
  const whole = {
    artifact: artifact(outputId, [dataPart(value)]),
    append: false,
    lastChunk: true,
    metadata: undefined,
  };
  return [{ payload: { $case: 'artifactUpdate', value: { taskId, contextId: shownContext(contextId), ...whole } } }];
}

function artifactUpdate(event: ArtifactUpdateEvent): StreamResponse {
  const { taskId, contextId, append, lastChunk, cursor } = event;
  return {
    payload: {
      $case: 'artifactUpdate',
      value: {
        taskId,
        contextId: shownContext(contextId),
        artifact: {
          ...artifact(event.artifact.artifactId, event.artifact.parts.map(wirePart)),
          name: event.artifact.name ?? '',
        },
        append,
        lastChunk,
        metadata: turnMetadata({ cursor }),
      },
    },
  };
}

function wirePart(part: A2APart): Part {
  return part.kind === 'text' ? textPart(part.text) : dataPart(part.data);
}

type ToolEvent = Extract<AgentEvent, { kind: 'internal:tool-start' | 'internal:tool-complete' }>;

/** Of a sub-agent, its tool calls: what it says is for the agent that called it. */
function updateBelow({ taskId, contextId, path, event }: SubAgentEvent): readonly StreamResponse[] {
  if (event.kind !== 'internal:tool-start' && event.kind !== 'internal:tool-complete') return [];
  const { cursor: _, ...call } = event;
  return [
    toolUpdate({ ...call, taskId, contextId }, { path: path.map(({ agentId, callId }) => ({ agentId, callId })) }),
  ];
}

/** Names and codes only: what a tool is given and gives is the agent's business. */
function toolUpdate(event: ToolEvent, below: { readonly path?: readonly object[] } = {}): StreamResponse {
  const { taskId, contextId, timestamp, cursor, callId, toolName } = event;
  const call = { callId, toolName, ...below };
  const shown =
    event.kind === 'internal:tool-start'
      ? { phase: 'start', ...call }
      : { phase: 'complete', ...call, ...endOf(event) };
  return workingUpdate({ taskId, contextId, timestamp }, { ...turnMetadata({ cursor }), [toolEventsExtension]: shown });
}

function workingUpdate(
  { taskId, contextId, timestamp }: Pick<AgentEvent, 'taskId' | 'contextId' | 'timestamp'>,
  metadata: Readonly<Record<string, unknown>>,
): StreamResponse {
  return {
    payload: {
      $case: 'statusUpdate',
      value: {
        taskId,
        contextId: shownContext(contextId),
        status: { state: wireState('working'), message: undefined, timestamp },
        metadata,
      },
    },
  };
}

/** Unlike tool calls with what it holds: the server declares each kind by name. */
function extensionUpdate(event: ExtensionEvent): StreamResponse {
  const { taskId, contextId, timestamp, cursor, kind, iteration, payload, label } = event;
  const shown = { kind: wireKind(kind), iteration, ...(payload !== undefined && { payload }), ...(label && { label }) };
  return workingUpdate(
    { taskId, contextId, timestamp },
    { ...turnMetadata({ cursor }), [extensionEventsExtension]: shown },
  );
}

function endOf({ success, durationMs, error }: Extract<ToolEvent, { kind: 'internal:tool-complete' }>) {
  return { success, durationMs, ...(error && { code: error.code }) };
}
