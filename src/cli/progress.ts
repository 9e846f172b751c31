import {
  type AgentEvent,
  partsText,
  type SubAgentEvent,
  type ToolCompleteEvent,
  type ToolProgressEvent,
  type ToolStartEvent,
  tailOf,
  textOf,
} from '../core/contracts/index.ts';
import { columnsOf, cut, cutStart, pad } from './columns.ts';
import { duration, elapsed, oneLine, resultLine } from './format.ts';
import type { Style } from './terminal.ts';

/** A tool call as a line shows it. */
export interface ToolRow {
  readonly callId: string;
  readonly toolName: string;
  /** In one line. */
  readonly arguments: string;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** Its last progress update. */
  readonly note?: string;
  /** What its child turn is busy with. */
  readonly below?: ChildProgress;
  /** From 1; more than one where the call runs again. */
  readonly attempt: number;
  /** Absent while it runs. Without a time where it was cut off. */
  readonly outcome?: { readonly success: boolean; readonly text: string; readonly durationMs?: number };
}

/** What a turn is busy with. Bounded by the calls of one iteration, and for each by the last ones of its child turn. */
export interface Progress {
  /** Set while the model is asked and has not begun to answer. */
  readonly waiting?: { readonly label: string; readonly since: number };
  /** Calls of the open batch, in the order of their starts. */
  readonly tools: readonly ToolRow[];
}

/** What a child turn is busy with. Its calls that are done stay until newer ones take their place. */
interface ChildProgress extends Progress {
  readonly agentId: string;
  /** The last line of its text. */
  readonly text?: string;
  /** How many of its calls are not shown any more. */
  readonly left: number;
}

export const idle: Progress = { tools: [] };

/** How many calls of a child turn are kept. */
const keptBelow = 20;
/** Of the text of a child turn, more than a line of a terminal has. */
const keptText = 400;

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
    case 'internal:sub-agent':
      return { ...progress, tools: progress.tools.map((row) => withBelow(row, event, now)) };
    default:
      event.kind satisfies
        | 'task'
        | 'internal:iteration-start'
        | 'internal:iteration-complete'
        | 'internal:llm-attempt-discarded'
        | 'internal:request-fitted'
        | 'internal:llm-warning'
        | 'internal:checkpoint'
        | 'internal:paused'
        | 'internal:extension-error'
        | `internal:x.${string}`;
      return progress;
  }
}

/** The row of the call that the child turn runs for, with what the event of the child turn, or of one below it, says. */
function withBelow(row: ToolRow, wrapper: SubAgentEvent, now: number): ToolRow {
  const [step, ...path] = wrapper.path;
  if (!step || step.callId !== row.callId || row.outcome) return row;
  const before: ChildProgress = row.below ?? { agentId: oneLine(step.agentId), tools: [], left: 0 };
  const event = path.length > 0 ? { ...wrapper, path } : wrapper.event;
  const { waiting, tools } = foldProgress(before, event, now);
  const over = Math.max(0, tools.length - keptBelow);
  const { agentId, left } = before;
  const text = textBelow(before.text, event);
  const below = { agentId, tools: tools.slice(over), left: left + over };
  return { ...row, below: { ...below, ...(waiting && { waiting }), ...(text !== undefined && { text }) } };
}

/** The text of the open answer, its last line: none once the model is asked again. */
function textBelow(before: string | undefined, event: AgentEvent): string | undefined {
  if (event.kind === 'internal:llm-call') return undefined;
  if (event.kind !== 'artifact-update') return before;
  const text = partsText(event.artifact.parts);
  return tailOf(lastLine((event.append ? (before ?? '') : '') + text), keptText);
}

function lastLine(text: string): string {
  return text.split('\n').findLast((line) => line.trim() !== '') ?? '';
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
  if (row.outcome !== undefined) return row;
  return { ...row, outcome: { success: false, text: 'cut off' }, ...endedBelow(row) };
}

/** Nothing runs below a call that is over. */
function endedBelow({ below }: ToolRow): Pick<ToolRow, 'below'> {
  return below ? { below: { ...below, tools: below.tools.map(cutOff) } } : {};
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
  return rows.map((row) => {
    if (!isOpen(row)) return row;
    return { ...finishedRow(event, row.startedAt), attempt: row.attempt, ...endedBelow(row) };
  });
}

const nameColumns = 12;
const longestName = 24;
const argumentShare = 0.6;

export interface LineOptions {
  readonly style: Style;
  /** A line takes one column less at most. */
  readonly columns: number;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** The progress as lines that are redrawn: each running or just finished call, else what the turn waits for. */
export function progressLines(progress: Progress, options: LineOptions & { readonly rows: number }): readonly string[] {
  const { style, now } = options;
  if (progress.tools.length > 0) return folded(progress.tools, options);
  if (progress.waiting === undefined) return [];
  const label = `${progress.waiting.label}  ${elapsed(now - progress.waiting.since)}`;
  return [`  ${spinner(style, now)} ${style.dim(label)}`];
}

/** How many calls of a child turn are redrawn. */
const drawnBelow = 4;

/** A call, and what its child turn does, indented below it: its last calls, and what it says or waits for. */
export function toolRowLines(row: ToolRow, options: LineOptions): readonly string[] {
  const { below } = row;
  if (!below) return [toolRowLine(row, options)];
  const { style } = options;
  const inner = { ...options, columns: options.columns - indent.length };
  const shown = row.outcome ? below.tools : below.tools.slice(-drawnBelow);
  const left = below.left + below.tools.length - shown.length;
  const said = row.outcome ? [] : activityLines(below, inner);
  const lines = [
    ...(left > 0 ? [style.dim(`  ${style.glyphs.dot} ${left} more before`)] : []),
    ...shown.flatMap((each) => toolRowLines(each, inner)),
    ...said,
  ];
  return [toolRowLine(row, options), ...lines.map((line) => indent + line)];
}

const indent = '  ';

/** What the agent of a child turn says, or waits for. */
function activityLines(
  { agentId, text, waiting }: ChildProgress,
  { style, columns, now }: LineOptions,
): readonly string[] {
  const { dot, ellipsis } = style.glyphs;
  const said = waiting ? `${waiting.label}  ${elapsed(now - waiting.since)}` : oneLine(text ?? '');
  if (said === '') return [];
  const room = columns - 1 - columnsOf(`  ${dot} ${agentId}: `);
  return [style.dim(`  ${dot} ${agentId}: ${waiting ? cut(said, room, ellipsis) : cutStart(said, room, ellipsis)}`)];
}

/** One call: its name, its arguments, and its result or how long it has been running. */
export function toolRowLine(row: ToolRow, options: LineOptions): string {
  const { style, now } = options;
  const time = timeOf(row, now);
  const name = pad(cut(row.toolName, longestName, style.glyphs.ellipsis), nameColumns);
  const room = options.columns - 1 - columnsOf(`  x ${name}  `) - columnsOf(`  ${time}`);
  const said = row.outcome === undefined ? (row.note ?? '') : row.outcome.text;
  const body = bodyOf({ given: row.arguments, said, room, style, failed: row.outcome?.success === false });
  const tail = time === '' ? '' : `  ${style.dim(time)}`;
  return `  ${markOf(row, options)} ${style.bold(name)}  ${body}${tail}`;
}

function timeOf({ outcome, startedAt, attempt }: ToolRow, now: number): string {
  const again = attempt > 1 ? `, attempt ${attempt}` : '';
  if (outcome === undefined) return elapsed(now - startedAt) + again;
  return outcome.durationMs === undefined ? '' : duration(outcome.durationMs) + again;
}

/** A call that begins, for an output where lines stay as they are. */
export function plainStart(row: ToolRow, style: Style): string {
  return `  ${style.glyphs.dot} ${row.toolName} ${cut(row.arguments, 100, style.glyphs.ellipsis)}${row.attempt > 1 ? `, attempt ${row.attempt}` : ''}`.trimEnd();
}

function folded(rows: readonly ToolRow[], options: LineOptions & { readonly rows: number }): readonly string[] {
  const most = Math.max(1, options.rows - 3);
  const all = rows.flatMap((row) => toolRowLines(row, options));
  const lines = all.slice(0, most);
  const left = all.length - lines.length;
  return left === 0 ? lines : [...lines, options.style.dim(`    and ${left} more`)];
}

interface Body {
  readonly given: string;
  readonly said: string;
  readonly room: number;
  readonly style: Style;
  readonly failed: boolean;
}

function bodyOf({ given, said, room, style, failed }: Body): string {
  const { arrow, ellipsis } = style.glyphs;
  if (said === '') return cut(given, room, ellipsis);
  if (given === '') return paintSaid(cut(said, room, ellipsis), style, failed);
  const left = cut(given, Math.max(room - columnsOf(said) - 4, Math.floor(room * argumentShare)), ellipsis);
  const right = cut(said, room - columnsOf(left) - columnsOf(arrow) - 2, ellipsis);
  return `${left} ${style.dim(arrow)} ${paintSaid(right, style, failed)}`;
}

function paintSaid(text: string, style: Style, failed: boolean): string {
  return failed ? style.red(text) : style.cyan(text);
}

function markOf(row: ToolRow, { style, now }: LineOptions): string {
  if (row.outcome === undefined) return spinner(style, now);
  return row.outcome.success ? style.green(style.glyphs.done) : style.red(style.glyphs.failed);
}

function spinner(style: Style, now: number): string {
  const frames = style.glyphs.spinner;
  return style.yellow(frames[Math.floor(now / 80) % frames.length] ?? '');
}
