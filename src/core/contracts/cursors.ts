import { AgentLoopError } from './errors.ts';
import type { AgentEvent } from './events.ts';
import { shownValue } from './values.ts';

const cursorPattern = /^(\d+)-(\d+)\.(\d+)$/;

/** Whether an event comes after a cursor; always true for a delta, which has none. Throws `INVALID_INPUT` for an invalid cursor. */
export function isAfterCursor(cursor: string): (event: AgentEvent) => boolean {
  const from = placeOf(cursor);
  return (event) => {
    if (event.cursor === undefined) return true;
    const { seq, n } = placeOf(event.cursor);
    return seq > from.seq || (seq === from.seq && n > from.n);
  };
}

/** The record of a cursor; 0 without a cursor. Throws `INVALID_INPUT` for an invalid cursor. */
export function seqOf(cursor: string | undefined): number {
  return cursor === undefined ? 0 : placeOf(cursor).seq;
}

function placeOf(cursor: string): { readonly seq: number; readonly n: number } {
  const match = typeof cursor === 'string' ? cursorPattern.exec(cursor) : undefined;
  if (match) return { seq: Number(match[1]), n: Number(match[3]) };
  throw new AgentLoopError(
    'INVALID_INPUT',
    `${shownValue(cursor)} is not a cursor; pass the cursor of an event, e.g. "12-1.2".`,
  );
}
