import { type HrTime, type Link, SpanStatusCode } from '@opentelemetry/api';
import type { ReadableSpan } from '@opentelemetry/sdk-trace-node';
import { attribute } from './attributes.ts';

/** An ended span as plain data: the input of the waterfall. */
export interface FinishedSpan {
  readonly name: string;
  /** 32 lower-case hexadecimal digits. */
  readonly traceId: string;
  /** 16 lower-case hexadecimal digits. */
  readonly spanId: string;
  /** Absent on the root of a trace. */
  readonly parentSpanId?: string;
  /** Milliseconds since 1970, with fractions. */
  readonly startMs: number;
  /** Milliseconds since 1970. */
  readonly endMs: number;
  /** As they were set. */
  readonly attributes: Readonly<Record<string, unknown>>;
  /** The linked spans. Absent if there are none. */
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly status: { readonly code: 'unset' | 'ok' | 'error'; readonly message?: string };
}

/** A span of the SDK as plain data. */
export function finishedSpan(span: ReadableSpan): FinishedSpan {
  const { traceId, spanId } = span.spanContext();
  const parentSpanId = span.parentSpanContext?.spanId;
  const { code, message } = span.status;
  const word = code === SpanStatusCode.ERROR ? 'error' : code === SpanStatusCode.OK ? 'ok' : 'unset';
  return {
    name: span.name,
    traceId,
    spanId,
    ...(parentSpanId !== undefined && { parentSpanId }),
    startMs: millisecondsOf(span.startTime),
    endMs: millisecondsOf(span.endTime),
    attributes: span.attributes,
    ...(span.links.length > 0 && { links: span.links.map(linked) }),
    status: message === undefined ? { code: word } : { code: word, message },
  };
}

function linked({ context }: Link): { readonly traceId: string; readonly spanId: string } {
  return { traceId: context.traceId, spanId: context.spanId };
}

function millisecondsOf([seconds, nanoseconds]: HrTime): number {
  return seconds * 1e3 + nanoseconds / 1e6;
}

/** A span in the tree of its trace. */
export interface SpanNode<S extends FinishedSpan = FinishedSpan> {
  readonly span: S;
  /** By start, then in the order given. */
  readonly children: readonly SpanNode<S>[];
}

/** The spans as trees. A span whose parent is missing is a root: its parent is the caller's, or was not recorded. */
export function spanTree<S extends FinishedSpan>(spans: readonly S[]): readonly SpanNode<S>[] {
  const nodes = new Map<string, { readonly span: S; readonly children: SpanNode<S>[] }>();
  const ordered = [...spans].sort((one, other) => one.startMs - other.startMs);
  for (const span of ordered) nodes.set(keyOf(span, span.spanId), { span, children: [] });
  const roots: SpanNode<S>[] = [];
  for (const node of nodes.values()) {
    const { parentSpanId } = node.span;
    const parent = parentSpanId === undefined ? undefined : nodes.get(keyOf(node.span, parentSpanId));
    (parent?.children ?? roots).push(node);
  }
  return roots;
}

function keyOf(span: FinishedSpan, spanId: string): string {
  return `${span.traceId}:${spanId}`;
}

/** The names of the spans as an indented list, two spaces per level: a tree that a test can compare. */
export function spanOutline(spans: readonly FinishedSpan[]): string {
  const linesOf = (node: SpanNode, indent: string): readonly string[] => [
    indent + node.span.name,
    ...node.children.flatMap((child) => linesOf(child, `${indent}  `)),
  ];
  return spanTree(spans)
    .flatMap((root) => linesOf(root, ''))
    .join('\n');
}

/** How a waterfall is drawn. */
export interface WaterfallOptions {
  /** Columns of the terminal, at least 20; no line is longer. */
  readonly width: number;
  /** Whether escape sequences color it. Default false. */
  readonly color?: boolean | undefined;
  /** False draws with ASCII only. Default true. */
  readonly unicode?: boolean | undefined;
}

interface Row {
  readonly span: FinishedSpan;
  /** The tree's lines and the span's name. */
  readonly label: string;
  readonly duration: string;
  readonly note: string;
}

interface Columns {
  readonly label: number;
  /** 0 if there is no room for bars; likewise `note`. */
  readonly bar: number;
  readonly duration: number;
  readonly note: number;
}

interface Drawing extends WaterfallOptions {
  readonly columns: Columns;
  readonly glyphs: Glyphs;
  readonly startMs: number;
  readonly totalMs: number;
}

const minimumWidth = 20;
const minimumBar = 10;
const minimumLabel = 12;
const gap = '  ';

/**
 * Draws spans as a waterfall: a line each, children below their parent, bars on one time axis, durations, tokens of model calls,
 * and the outcome if it was an error or a cancellation. The axis is the first line; without spans the text is empty. Lines end
 * with a line feed.
 */
export function renderWaterfall(spans: readonly FinishedSpan[], options: WaterfallOptions): string {
  if (spans.length === 0) return '';
  const glyphs = options.unicode === false ? asciiGlyphs : unicodeGlyphs;
  const rows = spanTree(spans).flatMap((root) => rowsOf(root, '', '', glyphs));
  const startMs = least(spans.map((span) => span.startMs));
  const totalMs = -least(spans.map((span) => -span.endMs)) - startMs;
  const columns = columnsOf(rows, Math.max(minimumWidth, options.width));
  const drawing: Drawing = { ...options, columns, glyphs, startMs, totalMs };
  const lines = rows.map((row) => lineOf(row, drawing));
  if (columns.bar > 0) lines.unshift(axisOf(drawing));
  return lines.map((line) => `${line.trimEnd()}\n`).join('');
}

function rowsOf(node: SpanNode, first: string, rest: string, glyphs: Glyphs): readonly Row[] {
  const { span, children } = node;
  const row: Row = {
    span,
    label: first + printable(span.name),
    duration: durationText(span.endMs - span.startMs),
    note: noteOf(span, glyphs),
  };
  const below = children.flatMap((child, index) => {
    const last = index === children.length - 1;
    return rowsOf(
      child,
      rest + (last ? glyphs.corner : glyphs.branch),
      rest + (last ? glyphs.blank : glyphs.pipe),
      glyphs,
    );
  });
  return [row, ...below];
}

function noteOf(span: FinishedSpan, glyphs: Glyphs): string {
  const estimated = span.attributes[attribute.estimatedInputTokens] !== undefined;
  const input = span.attributes[estimated ? attribute.estimatedInputTokens : attribute.usageInputTokens];
  const output = span.attributes[estimated ? attribute.estimatedOutputTokens : attribute.usageOutputTokens];
  const notes: string[] = [];
  if (span.status.code === 'error') notes.push(`${glyphs.failed} ${printable(String(reasonOf(span)))}`);
  else if (span.attributes[attribute.outcome] === 'canceled') notes.push(`${glyphs.canceled} canceled`);
  if (typeof input === 'number' && typeof output === 'number') {
    notes.push(`${estimated ? '~' : ''}${grouped(input)}${glyphs.arrow}${grouped(output)} tok`);
  }
  return notes.join(' ');
}

function reasonOf(span: FinishedSpan): unknown {
  return span.attributes[attribute.errorType] ?? span.status.message ?? 'error';
}

/** Assigns widths to labels, durations and notes; bars get the rest, or nothing if that is too narrow. */
function columnsOf(rows: readonly Row[], width: number): Columns {
  const duration = longest(rows.map((row) => row.duration));
  const note = Math.min(longest(rows.map((row) => row.note)), Math.floor(width * 0.3));
  const label = longest(rows.map((row) => row.label));
  const fixed = gap.length + duration + (note > 0 ? gap.length + note : 0);
  const wanted = Math.min(label, Math.max(minimumLabel, Math.floor(width * 0.35)));
  const bar = width - wanted - gap.length - fixed;
  if (bar >= minimumBar) return { label: wanted, bar, duration, note };
  if (width - fixed >= minimumLabel) return { label: Math.min(label, width - fixed), bar: 0, duration, note };
  return { label: Math.min(label, width - gap.length - duration), bar: 0, duration, note: 0 };
}

function lineOf(row: Row, drawing: Drawing): string {
  const { columns, glyphs } = drawing;
  const color = drawing.color ? colorOf(row.span) : undefined;
  const cells = [fitted(row.label, columns.label, glyphs).padEnd(columns.label)];
  if (columns.bar > 0) {
    const { offset, bar } = barOf(row.span, drawing);
    cells.push(' '.repeat(offset) + painted(bar, color) + ' '.repeat(columns.bar - offset - bar.length));
  }
  cells.push(row.duration.padStart(columns.duration));
  if (columns.note > 0) cells.push(painted(fitted(row.note, columns.note, glyphs), color));
  return cells.join(gap);
}

/**
 * A bar starts in the cell in which its span starts and ends in the one in which it ends, to an eighth. A span shorter than a
 * cell is drawn to scale, but never empty.
 */
function barOf(span: FinishedSpan, drawing: Drawing): { readonly offset: number; readonly bar: string } {
  const { columns, glyphs, startMs, totalMs } = drawing;
  const cellsPerMs = totalMs > 0 ? columns.bar / totalMs : 0;
  const offset = Math.min(columns.bar - 1, Math.floor((span.startMs - startMs) * cellsPerMs));
  const cells = (span.endMs - span.startMs) * cellsPerMs;
  const drawn = cells < 1 ? cells : (span.endMs - startMs) * cellsPerMs - offset;
  const steps = glyphs.parts.length + 1;
  const length = Math.max(1, Math.min((columns.bar - offset) * steps, Math.round(drawn * steps)));
  const part = glyphs.parts[(length % steps) - 1] ?? '';
  return { offset, bar: glyphs.full.repeat(Math.floor(length / steps)) + part };
}

function axisOf({ columns, totalMs, color }: Drawing): string {
  const end = durationText(totalMs);
  const middle = durationText(totalMs / 2);
  const half = Math.floor(columns.bar / 2) - 1;
  const ticks = half >= middle.length + end.length ? `0${middle.padStart(half)}` : '0';
  const axis = ticks + end.padStart(columns.bar - ticks.length);
  return ' '.repeat(columns.label) + gap + painted(axis, color ? dim : undefined);
}

const red = 31;
const yellow = 33;
const cyan = 36;
const dim = 2;

function colorOf(span: FinishedSpan): number | undefined {
  if (span.status.code === 'error') return red;
  if (span.attributes[attribute.outcome] === 'canceled') return dim;
  const kind = span.attributes[attribute.spanKind];
  return kind === 'LLM' ? cyan : kind === 'TOOL' ? yellow : undefined;
}

function painted(text: string, code: number | undefined): string {
  return code === undefined || text === '' ? text : `\u001b[${code}m${text}\u001b[0m`;
}

function fitted(text: string, width: number, glyphs: Glyphs): string {
  return text.length <= width ? text : text.slice(0, width - 1) + glyphs.ellipsis;
}

/** Tool names come from the model: characters that move the cursor or change the text direction are replaced by a mark. */
function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
}

function durationText(ms: number): string {
  if (ms < 100) return `${Number(ms.toPrecision(2))} ms`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_995) return `${(ms / 1_000).toFixed(2)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m ${padded(seconds % 60)}s`;
  return `${Math.floor(seconds / 3_600)}h ${padded(Math.floor(seconds / 60) % 60)}m`;
}

function padded(value: number): string {
  return String(value).padStart(2, '0');
}

function grouped(value: number): string {
  return value.toLocaleString('en-US');
}

function longest(texts: readonly string[]): number {
  return texts.reduce((most, text) => Math.max(most, text.length), 0);
}

function least(values: readonly number[]): number {
  return values.reduce((low, value) => Math.min(low, value));
}

/** The characters of a waterfall. */
interface Glyphs {
  /** Before a child that has siblings below it, and below such a child; then the same for the last child. */
  readonly branch: string;
  readonly pipe: string;
  readonly corner: string;
  readonly blank: string;
  readonly full: string;
  /** Parts of a cell, filled from the left, the smallest first. */
  readonly parts: readonly string[];
  readonly ellipsis: string;
  readonly failed: string;
  readonly canceled: string;
  readonly arrow: string;
}

const unicodeGlyphs: Glyphs = {
  branch: '├ ',
  pipe: '│ ',
  corner: '└ ',
  blank: '  ',
  full: '█',
  parts: ['▏', '▎', '▍', '▌', '▋', '▊', '▉'],
  ellipsis: '…',
  failed: '✗',
  canceled: '⊘',
  arrow: '→',
};

const asciiGlyphs: Glyphs = {
  branch: '|-',
  pipe: '| ',
  corner: '`-',
  blank: '  ',
  full: '#',
  parts: [],
  ellipsis: '~',
  failed: 'x',
  canceled: '-',
  arrow: '->',
};
