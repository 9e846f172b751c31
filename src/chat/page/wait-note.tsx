import { useEffect, useReducer } from 'preact/hooks';
import { visibleText } from '../../ui/visible-text.ts';
import type { Wait } from './conversation.ts';

/** What the page waits for and how long by now, once that is longer than usual. */
export function WaitNote({ awaited, since, afterMs }: Wait) {
  const [, tick] = useReducer((count: number, _: undefined) => count + 1, 0);
  useEffect(() => {
    const ticking = setInterval(() => tick(undefined), 1_000);
    return () => clearInterval(ticking);
  }, []);
  const ms = Date.now() - since;
  if (ms < afterMs) return null;
  return (
    <p class="note">
      Waiting {Math.floor(ms / 1_000)} s for {visibleText(awaited)}
    </p>
  );
}
