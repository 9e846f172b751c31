import { useCallback, useRef, useState } from 'preact/hooks';
import type { RecordLine } from '../wire.ts';
import { get, taskPath } from './api.ts';
import { clock } from './format.ts';
import { Json } from './json.tsx';
import { Button, Copy, Fault, useApi } from './parts.tsx';
import { Windowed } from './windowed.tsx';

const page = 200;
const rowHeight = 36;
const openHeight = 420;

interface RecordsProps {
  readonly taskId: string;
  readonly count: number;
  readonly marked: ReadonlySet<number>;
  /** The seq of a record that is shown open. */
  readonly target?: number | undefined;
}

/** The records of a turn, read page by page as they come into view. */
export function Records({ taskId, count, marked, target }: RecordsProps) {
  const lines = useRef(new Map<number, RecordLine>());
  const asked = useRef(new Set<number>());
  const [, draw] = useState(0);
  const [error, setError] = useState<unknown>();
  const [open, setOpen] = useState<ReadonlyMap<number, number>>(
    () => new Map(target === undefined ? [] : [[target - 1, openHeight]]),
  );
  const onRange = useCallback(
    (start: number, end: number) => {
      for (let at = start - (start % page); at < end; at += page) {
        // The last page is read again as it grows.
        const key = at + page > count ? -count : at;
        if (asked.current.has(key)) continue;
        asked.current.add(key);
        get<{ readonly records: readonly RecordLine[] }>(
          `${taskPath(taskId)}/records?from=${at + 1}&limit=${page}`,
        ).then(
          ({ records }) => {
            for (const line of records) lines.current.set(line.seq, line);
            draw((times) => times + 1);
          },
          (thrown) => {
            asked.current.delete(key);
            setError(thrown);
          },
        );
      }
    },
    [taskId, count],
  );
  const toggle = (index: number) => {
    const next = new Map(open);
    if (!next.delete(index)) next.set(index, openHeight);
    setOpen(next);
  };
  return (
    <>
      <Fault error={error} />
      <Windowed
        label="Records"
        count={count}
        height={rowHeight}
        open={open}
        onRange={onRange}
        target={target === undefined ? undefined : target - 1}
        row={(index) => (
          <>
            <Button class="record" aria-expanded={open.has(index)} onClick={() => toggle(index)}>
              <span class="number">{index + 1}</span>
              <Line line={lines.current.get(index + 1)} differs={marked.has(index + 1)} />
            </Button>
            {open.has(index) && <Opened taskId={taskId} seq={index + 1} />}
          </>
        )}
      />
    </>
  );
}

function Line({ line, differs }: { readonly line: RecordLine | undefined; readonly differs: boolean }) {
  if (!line) return <span class="dim">…</span>;
  return (
    <>
      <span class="name">
        {line.type}
        {differs && <span class="bad"> Differs</span>}
      </span>
      <span class="summary">{line.subject}</span>
      <time class="number">{clock(line.at)}</time>
    </>
  );
}

function Opened({ taskId, seq }: { readonly taskId: string; readonly seq: number }) {
  const [isWhole, setWhole] = useState(false);
  const { data, error } = useApi<object>(`${taskPath(taskId)}/records/${seq}${isWhole ? '?whole' : ''}`);
  const isCut = !isWhole && JSON.stringify(data ?? '').includes(' characters more)');
  return (
    <section class="opened" tabIndex={0} aria-label={`Record ${seq}`}>
      <Fault error={error} />
      {data && (
        <>
          <p class="about">
            <Copy label="Copy as JSON" text={() => JSON.stringify(data, null, 2)} />
            {isCut && (
              <Button class="quiet" onClick={() => setWhole(true)}>
                Load long values
              </Button>
            )}
          </p>
          <Json value={data} open={2} />
        </>
      )}
    </section>
  );
}
