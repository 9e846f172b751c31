import { isLeftCall, isTerminal, type JournalRecord } from '../core/journal/index.ts';

/** The records that one owner of the turn wrote, by index; `to` is exclusive. */
export interface ReplayRun {
  /**
   * How the owner came to the turn: it started it, went on with it, or only wrote something into it that no run of the loop makes here: an
   * answer, a cancel, what the model call took in which it was drained.
   */
  readonly kind: 'start' | 'resume' | 'visit';
  readonly from: number;
  readonly to: number;
  readonly epoch: number;
  /** Whether the owner stopped without a record: it died, was drained, or runs still. */
  readonly dies: boolean;
}

/**
 * The owners that wrote a recording, in order. The copied records of a fork have no owner: the first run of a fork begins after them.
 */
export function runsOf(records: readonly JournalRecord[]): readonly ReplayRun[] {
  const given = givenRecords(records);
  const starts = records.flatMap((record, index) => {
    if (index < given) return [];
    return index === given || isTakenOver(records[index - 1], record) ? [index] : [];
  });
  const resumed = starts.map((from, place) => runAt(records, from, starts[place + 1] ?? records.length));
  if (given > 1) return resumed;
  const [first, ...rest] = resumed;
  if (first === undefined) return [startOf(records, 1)];
  return first.kind === 'start' ? [startOf(records, first.to), ...rest] : [startOf(records, 1), first, ...rest];
}

/** How many records stand at the beginning of a replay: of a fork those that were copied, else only `turn.started`. */
export function givenRecords([first]: readonly JournalRecord[]): number {
  return first?.type === 'turn.started' ? (first.forkedFrom?.records ?? 1) : 1;
}

function isTakenOver(before: JournalRecord | undefined, record: JournalRecord): boolean {
  return (
    record.type === 'turn.resumed' ||
    isLeftCall(record) ||
    (before !== undefined && before.seq > 1 && before.epoch !== record.epoch)
  );
}

function startOf(records: readonly JournalRecord[], to: number): ReplayRun {
  return { ...runAt(records, 0, to), kind: 'start', epoch: records[1]?.epoch ?? 1 };
}

function runAt(records: readonly JournalRecord[], from: number, to: number): ReplayRun {
  const [first, last] = [records[from], records[to - 1]];
  const kind = first?.type === 'turn.resumed' ? 'resume' : from > 1 ? 'visit' : 'start';
  const dies = last === undefined || !(isTerminal(last) || (last.type === 'turn.suspended' && !last.hold));
  return { kind, from, to, epoch: first?.epoch ?? 0, dies };
}
