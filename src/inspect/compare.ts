import type { JournalRecord } from '../core/journal/index.ts';
import { difference } from '../replay/recording.ts';
import type { Comparison } from './wire.ts';

/** What tells when and by whom a record was written, not what happened. */
const ofWriter: ReadonlySet<string> = new Set(['seq', 'epoch', 'at', 'trace', 'durationMs', 'lostAt', 'waited']);
/** What a first record says of its own task. */
const ofTask: ReadonlySet<string> = new Set([
  'taskId',
  'contextId',
  'forkedFrom',
  'follows',
  'parent',
  'submitted',
  'metadata',
]);

/** Where two turns part: the first record that differs in what happened. */
export function compare(left: readonly JournalRecord[], right: readonly JournalRecord[]): Comparison {
  const length = Math.max(left.length, right.length);
  for (let index = 0; index < length; index++) {
    const [one, other] = [left[index], right[index]];
    const found = difference(one && whatHappened(one), other && whatHappened(other));
    if (!found) continue;
    const { path } = found;
    return {
      same: index,
      seq: index + 1,
      ...(path !== '' && { path }),
      ...(one && { left: one }),
      ...(other && { right: other }),
    };
  }
  return { same: length };
}

function whatHappened(record: JournalRecord): object {
  const isFirst = record.type === 'turn.started';
  return Object.fromEntries(
    Object.entries(record).filter(([name]) => !ofWriter.has(name) && !(isFirst && ofTask.has(name))),
  );
}
