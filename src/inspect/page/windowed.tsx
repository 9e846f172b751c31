import type { ComponentChildren, RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

interface WindowedProps {
  readonly label: string;
  readonly count: number;
  /** Of a row that is closed. Pixels. */
  readonly height: number;
  /** What open rows have beside that, by their index. Pixels. */
  readonly open?: ReadonlyMap<number, number>;
  readonly row: (index: number) => ComponentChildren;
  /** The rows that are on the screen, `end` without the last. */
  readonly onRange?: (start: number, end: number) => void;
  /** A row to bring to the middle of the screen. */
  readonly target?: number | undefined;
}

/** Rows beside the screen that are there already. */
const overscan = 6;
const none: ReadonlyMap<number, number> = new Map();

/** Where rows of one height begin, some of which are open. Pixels. */
function layoutOf(height: number, open: ReadonlyMap<number, number>) {
  const opened = [...open].sort(([one], [other]) => one - other);
  return {
    topOf: (index: number) => opened.reduce((top, [at, more]) => (at < index ? top + more : top), index * height),
    indexAt(y: number) {
      let before = 0;
      for (const [at, more] of opened) {
        const top = at * height + before;
        if (top > y) break;
        if (y < top + height + more) return at;
        before += more;
      }
      return Math.floor((y - before) / height);
    },
  };
}

/** The rows that are on the screen, `end` without the last, and a function that measures them again. */
function useRange(list: RefObject<HTMLElement | null>, count: number, indexAt: (y: number) => number) {
  const [range, setRange] = useState({ start: 0, end: 30 });
  const measure = () => {
    const box = list.current?.getBoundingClientRect();
    if (!box) return;
    const start = Math.max(0, Math.min(count, indexAt(-box.top) - overscan));
    const end = Math.max(start, Math.min(count, indexAt(innerHeight - box.top) + 1 + overscan));
    setRange((before) => (before.start === start && before.end === end ? before : { start, end }));
  };
  const latest = useRef(measure);
  latest.current = measure;
  useLayoutEffect(measure);
  useEffect(() => {
    let frame = 0;
    const later = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => latest.current());
    };
    addEventListener('scroll', later, { passive: true });
    addEventListener('resize', later);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener('scroll', later);
      removeEventListener('resize', later);
    };
  }, []);
  return { start: range.start, end: Math.min(range.end, count), measure };
}

/** Moves the focus from row to row, by the keys of a list. `show` brings a row to the screen, where it may not be yet. */
function useRowKeys(list: RefObject<HTMLElement | null>, count: number, show: (index: number) => void) {
  const wanted = useRef<number | undefined>(undefined);
  const focus = () => {
    const row = wanted.current === undefined ? null : list.current?.querySelector(`[data-index="${wanted.current}"]`);
    const control = row?.querySelector<HTMLElement>('button, a');
    if (!control) return;
    wanted.current = undefined;
    control.focus({ preventScroll: true });
  };
  useLayoutEffect(focus);
  return (event: KeyboardEvent) => {
    const at = event.target instanceof HTMLElement ? event.target.closest<HTMLElement>('[data-index]') : null;
    if (!at || event.altKey || event.ctrlKey || event.metaKey) return;
    const index = Number(at.dataset['index']);
    const next = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: count - 1 }[event.key];
    if (next === undefined || next < 0 || next >= count) return;
    event.preventDefault();
    wanted.current = next;
    show(next);
    focus();
  };
}

/** A list of any length of which only the rows on the screen exist. Arrow keys, Home and End move the focus from row to row. */
export function Windowed({ label, count, height, open = none, row, onRange, target }: WindowedProps) {
  const list = useRef<HTMLDivElement>(null);
  const { topOf, indexAt } = layoutOf(height, open);
  const { start, end, measure } = useRange(list, count, indexAt);
  /** Scrolls until a row is that far from the edges of the screen. */
  const show = (index: number, above: number, below: number) => {
    const y = (list.current?.getBoundingClientRect().top ?? 0) + topOf(index);
    const over = y + height + below - innerHeight;
    if (y < above) scrollBy(0, y - above);
    else if (over > 0) scrollBy(0, over);
    measure();
  };
  const onKeyDown = useRowKeys(list, count, (index) => show(index, 96, 96));
  useEffect(() => onRange?.(start, end), [start, end, onRange]);
  // Only another target moves the page.
  useEffect(() => {
    if (target !== undefined && target < count) show(target, innerHeight / 3, innerHeight / 3);
  }, [target]);
  const shown = Array.from({ length: Math.max(0, end - start) }, (_, offset) => start + offset);
  return (
    // biome-ignore lint/a11y/useSemanticElements: an ul that is positioned loses its role in some browsers
    <div
      ref={list}
      role="list"
      aria-label={label}
      class="windowed"
      style={{ height: `${topOf(count)}px` }}
      onKeyDown={onKeyDown}
    >
      {shown.map((index) => (
        // biome-ignore lint/a11y/useSemanticElements: as above
        <div
          key={index}
          role="listitem"
          aria-setsize={count}
          aria-posinset={index + 1}
          data-index={index}
          style={{ transform: `translateY(${topOf(index)}px)`, height: `${height + (open.get(index) ?? 0)}px` }}
        >
          {row(index)}
        </div>
      ))}
    </div>
  );
}
