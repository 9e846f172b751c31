import type { JournalRecord } from 'millrace';
import { bornAgain, type Faults } from './faults.ts';
import type { LoadDeed } from './ledger.ts';

/** Of one turn. */
export interface TurnRemains {
  readonly taskId: string;
  readonly records: readonly JournalRecord[];
  readonly deeds: readonly LoadDeed[];
  /** When workers were killed that had its job. */
  readonly killed: readonly number[];
}

/** An answer wakes its turn: nobody waits for a sweep. Where a worker died that had the turn, the time counts from then. */
export function wakeUpsLost({ taskId, records, deeds, killed }: TurnRemains, faults: Faults, boundMs: number) {
  return deeds.flatMap((deed) => {
    if (deed.type !== 'answered') return [];
    // Whoever answers a turn that nobody has writes the answer into its journal.
    const answered = records.findIndex(({ type }) => type === 'turn.answered');
    const to = answered < 0 ? undefined : records[answered + 1]?.at;
    if (to === undefined) return [`${taskId}: an answered turn continues: it did not`];
    const pids = new Set(deeds.flatMap((each) => (each.type === 'took' ? [each.pid] : [])));
    const died = faults.workers.filter(({ pid, at }) => pids.has(pid) && at >= deed.at && at <= to);
    const lost = killed.filter((at) => at >= deed.at && at <= to);
    const from = Math.max(deed.at, ...lost, ...died.map(({ at }) => at));
    const ms = to - bornAgain(faults, from, to);
    return ms > boundMs ? [`${taskId}: an answered turn continues within ${boundMs} ms: it took ${ms} ms`] : [];
  });
}

/**
 * Workers had a turn's job no more often than it was to be looked at: once, and once more for each answer, each lost worker and each lost lock. A sweep or a
 * gateway that submits again may add a job a moment after a turn ended, so a few of all are let pass.
 */
export function dispatchedTwice(turns: readonly TurnRemains[], faults: Faults, places: number): readonly string[] {
  const again = turns.filter(({ taskId, records, deeds }) => {
    const runs = deeds.filter(({ type }) => type === 'run').length;
    const resumed = records.filter(({ type }) => type === 'turn.resumed').length;
    const answers = deeds.filter(({ type }) => type === 'answered').length;
    const locks = faults.locks.filter((lock) => lock.taskId === taskId).length;
    const pids = new Set(deeds.flatMap((deed) => (deed.type === 'took' ? [deed.pid] : [])));
    const lost = faults.workers.filter(({ pid }) => pids.has(pid)).length;
    return runs > 1 + resumed + 2 * answers + 2 * locks + lost;
  });
  const most = places + Math.ceil(turns.length / 20);
  if (again.length <= most) return [];
  return [`a turn is dispatched once: ${again.length} of ${turns.length} turns were dispatched again, ${most} may be`];
}
