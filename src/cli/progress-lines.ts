import { duration, elapsed } from './duration.ts';
import { columnsOf, cut, cutStart, oneLine, pad } from './one-line.ts';
import type { ChildProgress, Progress, ToolRow } from './progress.ts';
import type { Style } from './style.ts';

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
