import { useMemo, useState } from 'preact/hooks';
import type { JournalRecord } from '../../core/journal/index.ts';
import type { ShownRow } from '../wire.ts';
import { taskPath } from './api.ts';
import { clock, duration, grouped, shownState } from './format.ts';
import { Json } from './json.tsx';
import { Button, Fault, useApi, useNow } from './parts.tsx';
import { linkTo } from './place.ts';
import { Windowed } from './windowed.tsx';

const rowHeight = 40;
const openHeight = 380;
/** Longer silences are drawn this long. Milliseconds, at least; else a twentieth of the work. */
const longestGapMs = 2_000;

/** Times on an axis from 0 to 1 without long silences. */
interface Axis {
  place(time: number): number;
  readonly idleMs: number;
}

function axisOf(rows: readonly ShownRow[], now: number): Axis {
  const spans = rows
    .map(({ at, ms, state }) => [at, at + (ms ?? (state === 'running' ? Math.max(0, now - at) : 0))] as const)
    .sort(([one], [other]) => one - other);
  const busyParts: (readonly [start: number, end: number])[] = [];
  let busy = 0;
  for (const [start, end] of spans) {
    const last = busyParts.at(-1);
    if (last && start <= last[1]) busyParts[busyParts.length - 1] = [last[0], Math.max(last[1], end)];
    else busyParts.push([start, end]);
  }
  for (const [start, end] of busyParts) busy += end - start;
  const most = Math.max(longestGapMs, busy / 20);
  // The place of each busy part, with silences cut.
  const marks: (readonly [time: number, place: number])[] = [];
  let place = 0;
  let idleMs = 0;
  for (const [index, [start, end]] of busyParts.entries()) {
    const gap = start - (busyParts[index - 1]?.[1] ?? start);
    if (gap > most) idleMs += gap - most;
    place += Math.min(gap, most);
    marks.push([start, place]);
    place += end - start;
    marks.push([end, place]);
  }
  const whole = Math.max(1, place);
  return {
    idleMs,
    place(time) {
      let low = 0;
      let high = marks.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if ((marks[middle]?.[0] ?? 0) <= time) low = middle;
        else high = middle - 1;
      }
      const [from, at] = marks[low] ?? [time, 0];
      const next = marks[low + 1]?.[1] ?? whole;
      return Math.min(Math.max(0, Math.min(at + time - from, next)) / whole, 1);
    },
  };
}

interface TimelineProps {
  readonly taskId: string;
  readonly rows: readonly ShownRow[];
  readonly text: string;
  readonly isOver: boolean;
  readonly marked: ReadonlySet<number>;
}

export function Timeline({ taskId, rows, text, isOver, marked }: TimelineProps) {
  const now = useNow();
  const [open, setOpen] = useState<ReadonlyMap<number, number>>(new Map());
  const runs = rows.some(({ state }) => state === 'running');
  const until = runs ? now : 0;
  const axis = useMemo(() => axisOf(rows, until), [rows, until]);
  const toggle = (index: number) => {
    const next = new Map(open);
    if (!next.delete(index)) next.set(index, openHeight);
    setOpen(next);
  };
  if (rows.length === 0) return <p class="hint">{isOver ? 'Nothing happened.' : 'Nothing happened yet.'}</p>;
  return (
    <>
      {axis.idleMs > 0 && (
        <p class="hint">{duration(axis.idleMs)} in which nothing happened are left out of the bars.</p>
      )}
      <Windowed
        label="Timeline"
        count={rows.length}
        height={rowHeight}
        open={open}
        row={(index) => {
          const row = rows[index];
          if (!row) return null;
          const differs = marked.has(row.seq) || (row.end !== undefined && marked.has(row.end));
          const isOpen = open.has(index);
          return (
            <>
              <Row row={row} axis={axis} now={now} differs={differs} isOpen={isOpen} onToggle={() => toggle(index)} />
              {isOpen && <Opened taskId={taskId} row={row} />}
            </>
          );
        }}
      />
      {text !== '' && (
        <p class="live" aria-live="off">
          {text}
        </p>
      )}
    </>
  );
}

interface RowProps {
  readonly row: ShownRow;
  readonly axis: Axis;
  readonly now: number;
  readonly differs: boolean;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

function Row({ row, axis, now, differs, isOpen, onToggle }: RowProps) {
  const { at, ms, kind, state, title, text = '', result, iteration, attempt = 1 } = row;
  const took = ms ?? (state === 'running' ? Math.max(0, now - at) : 0);
  const left = axis.place(at);
  const { label, tone } = shownState(state);
  const summary = result === undefined ? text : `${text === '{}' ? '' : text} → ${result}`;
  return (
    <Button class={`event ${kind}`} aria-expanded={isOpen} onClick={onToggle}>
      <span class="number">{kind === 'model' && attempt === 1 ? iteration : ''}</span>
      <span class={`dot ${tone}`} />
      <span class="name">
        {kind === 'moment' ? <span class="dim">{title}</span> : title}
        {attempt > 1 && <span class="dim"> attempt {attempt}</span>}
      </span>
      <span class="summary">
        {state !== 'done' && <span class={tone}>{label} </span>}
        {differs && <span class="bad">Differs </span>}
        {summary}
      </span>
      <span class="track">
        {kind === 'moment' ? (
          <i class="tick" style={{ left: `${left * 100}%` }} />
        ) : (
          <i
            class={`bar ${tone} ${kind}`}
            style={{ left: `${left * 100}%`, width: `${Math.max(0, axis.place(at + took) - left) * 100}%` }}
          />
        )}
      </span>
      <span class="number">{kind === 'moment' ? '' : duration(took)}</span>
    </Button>
  );
}

/** A row with its records. */
function Opened({ taskId, row }: { readonly taskId: string; readonly row: ShownRow }) {
  const { seq, end, at, child, tokens } = row;
  return (
    <section class="opened" tabIndex={0} aria-label={`Records of ${row.title}`}>
      <p class="about">
        <span>{clock(at)}</span>
        {tokens && (
          <span>
            {grouped(tokens[0])} → {grouped(tokens[1])} tokens
          </span>
        )}
        {row.callId !== undefined && <code>{row.callId}</code>}
        {child !== undefined && <a href={linkTo(['task', child])}>Turn of the sub-agent</a>}
      </p>
      <Essence taskId={taskId} seq={seq} kind={row.kind} />
      {end !== undefined && end !== seq && <Essence taskId={taskId} seq={end} kind={row.kind} />}
    </section>
  );
}

/** What matters of a record: arguments, answer, result; and the record itself. */
function Essence({ taskId, seq, kind }: { readonly taskId: string; readonly seq: number; readonly kind: string }) {
  const { data: record, error } = useApi<JournalRecord>(`${taskPath(taskId)}/records/${seq}`);
  if (!record) return <Fault error={error} />;
  const shown = kind === 'moment' ? undefined : essenceOf(record);
  return (
    <div class="essence">
      <h2>
        {shown?.name ?? record.type}{' '}
        <a class="dim" href={linkTo(['task', taskId], { tab: 'records', record: String(seq) })}>
          record {seq}
        </a>
      </h2>
      {shown?.text !== undefined && shown.text !== '' && <div class="prose">{shown.text}</div>}
      {shown?.json !== undefined && <Json value={shown.json} open={2} />}
      {!shown && <Json value={record} open={1} />}
    </div>
  );
}

function essenceOf(
  record: JournalRecord,
): { readonly name: string; readonly text?: string; readonly json?: unknown } | undefined {
  switch (record.type) {
    case 'tool.intent':
      return { name: 'Arguments', json: record.arguments };
    case 'tool.result':
      if (record.error) return { name: 'Error', text: record.error.message };
      return typeof record.content === 'string'
        ? { name: 'Result', ...readable(record.content) }
        : { name: 'Result', json: record.content };
    case 'llm.done': {
      const calls = record.calls.map(({ call }) => ({
        [call.function.name]: readable(call.function.arguments).json ?? call.function.arguments,
      }));
      const { content } = record.message;
      const text = typeof content === 'string' ? content : '';
      const rest = typeof content === 'string' || content === null || content === undefined ? undefined : content;
      return { name: 'Answer', text, ...(calls.length > 0 ? { json: calls } : rest && { json: rest }) };
    }
    case 'llm.start':
      return {
        name: 'Call',
        json: {
          iteration: record.iteration,
          attempt: record.attempt,
          ...record.options,
          ...(record.tools && { tools: record.tools.map(({ name }) => name) }),
        },
      };
    default:
      return undefined;
  }
}

function readable(text: string): { readonly text?: string; readonly json?: unknown } {
  if (!/^\s*[{[]/.test(text)) return { text };
  try {
    return { json: JSON.parse(text) };
  } catch {
    return { text };
  }
}
