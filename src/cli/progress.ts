import type { AgentEvent, ToolCompleteEvent, ToolProgressEvent, ToolStartEvent } from '../core/events.ts';
import { textOf } from '../core/messages.ts';
import { oneLine, resultLine } from './one-line.ts';

/** A tool call as a line shows it. */
export interface ToolRow {
  readonly callId: string;
  readonly toolName: string;
  /** In one line. */
  readonly arguments: string;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** Its last sign of life. */
  readonly note?: string;
  /** From 1; more than one where the call runs again. */
  readonly attempt: number;
  /** Absent while it runs. Without a time where it was cut off. */
  readonly outcome?: { readonly success: boolean; readonly text: string; readonly durationMs?: number };
}

/** What a turn is busy with. Bounded by the calls of one iteration. */
export interface Progress {
  /** Set while the model is asked and has not begun to answer. */
  readonly waiting?: { readonly label: string; readonly since: number };
  /** Calls of the open batch, in the order of their starts. */
  readonly tools: readonly ToolRow[];
}

export const idle: Progress = { tools: [] };

/** Folds one event. `now` is milliseconds since 1970. */
export function foldProgress(progress: Progress, event: AgentEvent, now: number): Progress {
  switch (event.kind) {
    case 'internal:llm-call':
      return { ...progress, waiting: { label: 'waiting for the model', since: now } };
    case 'internal:reasoning-delta':
      return relabel(progress, 'the model is reasoning');
    case 'internal:tool-call-delta':
      return relabel(progress, 'the model is asking for tools');
    case 'artifact-update':
    case 'internal:llm-response':
      return { tools: progress.tools };
    case 'status-update':
      return { tools: withoutOpen(progress.tools, event.questions?.map(({ callId }) => callId) ?? []) };
    case 'internal:tool-start':
      return { tools: [...withoutOpen(progress.tools, [event.callId]), startedRow(event, now)] };
    case 'internal:resumed':
      return withCutOff(progress);
    case 'internal:tool-progress':
      return { ...progress, tools: progress.tools.map((row) => noted(row, event)) };
    case 'internal:tool-complete':
      return { ...progress, tools: completed(progress.tools, event, now) };
    default:
      return progress;
  }
}

/** Takes off the rows that are done and have only done ones before them: they can scroll away. */
export function takeFinished(progress: Progress): {
  readonly progress: Progress;
  readonly finished: readonly ToolRow[];
} {
  const running = progress.tools.findIndex((row) => row.outcome === undefined);
  const count = running === -1 ? progress.tools.length : running;
  if (count === 0) return { progress, finished: [] };
  return { progress: { ...progress, tools: progress.tools.slice(count) }, finished: progress.tools.slice(0, count) };
}

/** The row of a call that has its result. */
export function finishedRow(event: ToolCompleteEvent, startedAt: number): ToolRow {
  const given = oneLine(event.arguments);
  const text = event.error === undefined ? resultLine(textOf(event.content), given) : oneLine(event.error.message);
  return {
    callId: event.callId,
    toolName: oneLine(event.toolName),
    arguments: given,
    startedAt,
    attempt: 1,
    outcome: { success: event.success, text, durationMs: event.durationMs },
  };
}

/** The row of a call that begins. */
export function startedRow(event: ToolStartEvent, now: number): ToolRow {
  return {
    callId: event.callId,
    toolName: oneLine(event.toolName),
    arguments: oneLine(event.arguments),
    startedAt: now,
    attempt: event.attempt,
  };
}

/** A call that asked something does not run; answered, it runs again. */
function withoutOpen(rows: readonly ToolRow[], callIds: readonly string[]): readonly ToolRow[] {
  return rows.filter((row) => row.outcome !== undefined || !callIds.includes(row.callId));
}

/** What ran, as cut off: its process is no more. */
export function withCutOff({ tools }: Progress): Progress {
  return { tools: tools.map(cutOff) };
}

export function isCutOff({ outcome }: ToolRow): boolean {
  return outcome !== undefined && outcome.durationMs === undefined;
}

function cutOff(row: ToolRow): ToolRow {
  return row.outcome === undefined ? { ...row, outcome: { success: false, text: 'cut off' } } : row;
}

function relabel(progress: Progress, label: string): Progress {
  return progress.waiting === undefined ? progress : { ...progress, waiting: { ...progress.waiting, label } };
}

function noted(row: ToolRow, event: ToolProgressEvent): ToolRow {
  return row.callId === event.callId ? { ...row, note: oneLine(saidIn(event.update)) } : row;
}

/** What an MCP server says of a call, or how far it is; else the update as it is. */
function saidIn(update: unknown): unknown {
  if (typeof update !== 'object' || update === null || !('type' in update) || update.type !== 'mcp-progress')
    return update;
  const { message, progress, total } = { message: undefined, progress: undefined, total: undefined, ...update };
  return message ?? (total === undefined ? progress : `${String(progress)} of ${String(total)}`);
}

function completed(rows: readonly ToolRow[], event: ToolCompleteEvent, now: number): readonly ToolRow[] {
  const isOpen = (row: ToolRow) => row.callId === event.callId && row.outcome === undefined;
  if (!rows.some(isOpen)) return [...rows, finishedRow(event, now)];
  return rows.map((row) => (isOpen(row) ? { ...finishedRow(event, row.startedAt), attempt: row.attempt } : row));
}
