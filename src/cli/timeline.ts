import { AgentLoopError, type TaskStateStore, textOf, type Usage } from '../core/contracts/index.ts';
import {
  type CallRow,
  extendTimeline,
  isSettled,
  type ModelRow,
  type Timeline,
  type TimelineRow,
} from '../inspect/timeline.ts';
import { columnsOf, cut, pad } from './columns.ts';
import { count, duration, elapsed, localTime, oneLine, resultLine } from './format.ts';
import { type LineOptions, toolRowLine } from './progress.ts';
import type { Style } from './terminal.ts';

/** A timeline with those of the child turns of its calls, by their task ids. */
export interface TimelineTree {
  readonly timeline: Timeline;
  readonly below: ReadonlyMap<string, TimelineTree>;
}

/** Reads what is new of the child turns that the calls of a timeline name, at any depth. One that does not exist is left out. */
export async function withChildren(
  store: Pick<TaskStateStore, 'read'>,
  timeline: Timeline,
  known: TimelineTree['below'] = new Map(),
): Promise<TimelineTree> {
  const below = new Map(known);
  for (const row of timeline.rows) {
    if (row.type !== 'tool' || !row.child) continue;
    const { taskId } = row.child;
    const before = below.get(taskId);
    if (before?.timeline.state.isComplete) continue;
    const records = await recordsFrom(store, taskId, (before?.timeline.state.seq ?? 0) + 1);
    const after = records.reduce<Timeline | undefined>(extendTimeline, before?.timeline);
    if (after) below.set(taskId, await withChildren(store, after, before?.below));
  }
  return { timeline, below };
}

async function recordsFrom(store: Pick<TaskStateStore, 'read'>, taskId: string, from: number) {
  try {
    return await store.read(taskId, { from });
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return [];
    throw error;
  }
}

const timeColumns = 9;
const nameColumns = 12;

/** `modelName`: what calls of the model are shown as; default `model`. */
interface RowOptions extends LineOptions {
  readonly modelName?: string;
}

/** The lines of a timeline, and how many of them, from the first, will not change any more. */
interface TimelineLines {
  readonly lines: readonly string[];
  readonly settled: number;
}

/** Who ran what, and what was asked. */
export function headLines({ state }: Timeline, { style, columns }: Omit<LineOptions, 'now'>): readonly string[] {
  const { taskId, agentId, contextId, createdAt, given, parent } = state.turn;
  const { dot, ellipsis } = style.glyphs;
  const started = localTime(new Date(createdAt).toISOString());
  const origin = parent ? `child turn of ${parent.taskId}` : `context ${contextId}`;
  const about = [started, `agent ${agentId}`, origin].join(` ${dot} `);
  const asked = state.messages.slice(0, given).findLast(({ role }) => role === 'user');
  const prompt = cut(oneLine(textOf(asked?.content)), columns - 3, ellipsis);
  return [
    `${style.bold(`task ${taskId}`)} ${style.dim(cut(`${dot} ${about}`, columns - 7 - taskId.length, ellipsis))}`,
    ...(prompt === '' ? [] : [`${style.cyan(style.glyphs.prompt)} ${style.bold(prompt)}`]),
    '',
  ];
}

/**
 * What happened, a line each, with the time since the start of the turn. What child turns did is indented below their calls; a child turn
 * that several attempts of a call continue comes below the first.
 */
export function timelineLines({ timeline, below }: TimelineTree, options: LineOptions): TimelineLines {
  const { rows, state } = timeline;
  const shown = new Set<string>();
  const lines: string[] = [];
  let settled: number | undefined;
  for (const row of rows) {
    if (!isSettled(row)) settled ??= lines.length;
    if (row.type === 'model' && row.attempt === 1) lines.push(options.style.bold(`iteration ${row.iteration}`));
    lines.push(rowLine(row, { startedAt: state.turn.createdAt, depth: 0 }, options));
    const child = childOf(row, below, shown);
    if (child) {
      if (!child.timeline.state.isComplete) settled ??= lines.length;
      lines.push(...linesBelow(child, { startedAt: state.turn.createdAt, depth: 1 }, options));
    }
  }
  return { lines, settled: settled ?? lines.length };
}

interface Place {
  readonly startedAt: number;
  /** 0 for the turn itself. */
  readonly depth: number;
}

function linesBelow({ timeline, below }: TimelineTree, place: Place, given: LineOptions): readonly string[] {
  const shown = new Set<string>();
  const options = { ...given, modelName: cut(oneLine(timeline.state.turn.agentId), nameColumns, '') };
  return timeline.rows.flatMap((row) => {
    const child = childOf(row, below, shown);
    const deeper = child ? linesBelow(child, { ...place, depth: place.depth + 1 }, options) : [];
    return [rowLine(row, place, options), ...deeper];
  });
}

/** The child turn of a call, once. */
function childOf(row: TimelineRow, below: TimelineTree['below'], shown: Set<string>): TimelineTree | undefined {
  if (row.type !== 'tool' || !row.child || shown.has(row.child.taskId)) return undefined;
  shown.add(row.child.taskId);
  return below.get(row.child.taskId);
}

function rowLine(row: TimelineRow, { startedAt, depth }: Place, options: RowOptions): string {
  const time = duration(Math.max(0, row.at - startedAt)).padStart(timeColumns);
  const indent = '  '.repeat(depth);
  const inner = { ...options, columns: options.columns - timeColumns - indent.length };
  return `${options.style.dim(time)}${indent}${bodyOf(row, inner)}`;
}

function bodyOf(row: TimelineRow, options: RowOptions): string {
  switch (row.type) {
    case 'model':
      return modelLine(row, options);
    case 'tool':
      return toolLine(row, options);
    case 'moment':
      return `  ${options.style.dim(options.style.glyphs.dot)} ${cut(oneLine(row.what), options.columns - 5, options.style.glyphs.ellipsis)}`;
  }
}

function modelLine({ attempt, at, done, cutOff }: ModelRow, options: RowOptions): string {
  const { style, columns, now, modelName = 'model' } = options;
  const name = pad(modelName, nameColumns);
  const again = attempt > 1 ? `, attempt ${attempt}` : '';
  if (done === undefined) {
    return `  ${style.dim(style.glyphs.dot)} ${name}  ${cutOff ? style.red('cut off') : 'is asked'}  ${style.dim((cutOff ? '' : elapsed(now - at)) + again)}`.trimEnd();
  }
  const figures = [duration(done.durationMs) + again, ...(done.usage ? [tokens(done.usage, style)] : [])].join('  ');
  const said = done.text === '' ? `asks for ${count(done.toolCalls, 'call')}` : oneLine(done.text);
  const body = cut(said, columns - 1 - columnsOf(`  x ${name}    `) - columnsOf(figures), style.glyphs.ellipsis);
  return `  ${style.green(style.glyphs.done)} ${name}  ${body}  ${style.dim(figures)}`;
}

function tokens({ promptTokens, completionTokens }: Usage, { glyphs }: Style): string {
  return `${promptTokens.toLocaleString('en-US')}${glyphs.arrow}${completionTokens.toLocaleString('en-US')} tok`;
}

function toolLine(row: CallRow, options: LineOptions): string {
  const given = oneLine(row.arguments);
  const common = { callId: row.callId, toolName: oneLine(row.toolName), arguments: given, startedAt: row.at };
  const outcome = outcomeOf(row, given);
  return toolRowLine({ ...common, attempt: row.attempt, ...(outcome && { outcome }) }, options);
}

function outcomeOf({ done, cutOff, asked }: CallRow, given: string) {
  if (done) {
    const text = done.error === undefined ? resultLine(textOf(done.content), given) : oneLine(done.error.message);
    return { success: done.success, text, durationMs: done.durationMs };
  }
  if (cutOff) return { success: false, text: 'cut off' };
  return asked ? { success: true, text: 'asks' } : undefined;
}
