import type { ComponentChildren } from 'preact';
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

/** A list of any length of which only the rows on the screen exist. Arrow keys, Home and End move the focus from row to row. */
export function Windowed({ label, count, height, open = none, row, onRange, target }: WindowedProps) {
  const list = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ start: 0, end: 30 });
  const focus = useRef<number | undefined>(undefined);
  const opened = [...open].sort(([one], [other]) => one - other);
  const topOf = (index: number) => opened.reduce((top, [at, more]) => (at < index ? top + more : top), index * height);
  const indexAt = (y: number) => {
    let before = 0;
    for (const [at, more] of opened) {
      const top = at * height + before;
      if (top > y) break;
      if (y < top + height + more) return at;
      before += more;
    }
    return Math.floor((y - before) / height);
  };
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
  const end = Math.min(range.end, count);
  useEffect(() => onRange?.(range.start, end), [range.start, end, onRange]);
  useLayoutEffect(() => {
    if (focus.current === undefined) return;
    const wanted = list.current?.querySelector<HTMLElement>(
      `[data-index="${focus.current}"] button, [data-index="${focus.current}"] a`,
    );
    if (!wanted) return;
    focus.current = undefined;
    wanted.focus({ preventScroll: true });
  });
  const show = (index: number, place: 'near' | 'middle') => {
    const box = list.current?.getBoundingClientRect();
    if (!box) return;
    const y = box.top + topOf(index);
    const margin = place === 'middle' ? innerHeight / 3 : 96;
    if (y < margin) scrollBy(0, y - margin);
    else if (y + height > innerHeight - (place === 'middle' ? margin : 16))
      scrollBy(0, y + height - innerHeight + margin);
    latest.current();
  };
  // Only another target moves the page.
  useEffect(() => {
    if (target !== undefined && target < count) show(target, 'middle');
  }, [target]);
  const move = (event: KeyboardEvent) => {
    const at = event.target instanceof HTMLElement ? event.target.closest<HTMLElement>('[data-index]') : null;
    if (!at || event.altKey || event.ctrlKey || event.metaKey) return;
    const index = Number(at.dataset['index']);
    const next = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: count - 1 }[event.key];
    if (next === undefined || next < 0 || next >= count) return;
    event.preventDefault();
    focus.current = next;
    show(next, 'near');
    setRange((before) => ({ ...before }));
  };
  const shown = Array.from({ length: Math.max(0, end - range.start) }, (_, offset) => range.start + offset);
  return (
    // biome-ignore lint/a11y/useSemanticElements: an ul that is positioned loses its role in some browsers
    <div
      ref={list}
      role="list"
      aria-label={label}
      class="windowed"
      style={{ height: `${topOf(count)}px` }}
      onKeyDown={move}
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
