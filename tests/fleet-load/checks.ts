import type { JournalRecord } from 'millrace';
import { isTerminal } from 'millrace/internals';
import { violationsOf } from '../crash/invariants.ts';
import type { Deed } from '../crash/workload/world.ts';
import { dispatchedTwice, wakeUpsLost } from './dispatch.ts';
import { bornAgain, type Faults, isInOutage, killsOf } from './faults.ts';
import type { LoadDeed } from './ledger.ts';
import { type LoadTurn, loadPlan } from './turns.ts';

/** All that is left of a run. */
export interface Remains {
  readonly turns: readonly LoadTurn[];
  readonly journals: ReadonlyMap<string, readonly JournalRecord[]>;
  readonly deeds: readonly LoadDeed[];
  readonly faults: Faults;
  readonly leaseMs: number;
  readonly lockMs: number;
  /** Turns that run at the same time, over all workers. */
  readonly places: number;
}

export interface Findings {
  readonly violations: readonly string[];
  /** From each kill to the new owner of each turn that the process had, in milliseconds, sorted. */
  readonly takeovers: readonly number[];
  /** Of the takeovers: those in which Redis was away. Their time counts from when it was back. */
  readonly inOutage: number;
  /** How often a worker stood still for longer than half a lease. */
  readonly stalls: number;
  /** For how long a turn of each tenant waited for a worker, median, in milliseconds. */
  readonly waits: Readonly<Record<LoadTurn['tenant'], number>>;
}

/** What models and tools did for a turn, and which process it was. */
interface Act {
  readonly pid: number;
  readonly at: number;
}

/** Compares journals and ledgers with what a fleet promises. `boundMs`: of takeovers. */
export function findingsOf(remains: Remains, boundMs: number): Findings {
  const { turns, journals, deeds, faults, leaseMs, lockMs, places } = remains;
  const stalls = deeds.flatMap((deed) => (deed.type === 'stalled' && deed.ms > leaseMs / 2 ? [deed] : []));
  const stood = deeds.filter(({ type }) => type === 'stalled');
  const paused = new Set([
    ...faults.workers.flatMap(({ pid, resumedAt }) => (resumedAt === undefined ? [] : [pid])),
    ...stalls.map(({ pid }) => pid),
  ]);
  const ofTask = byTask(deeds);
  const killedWith = killsOf(faults, (task, by) => {
    const took = (ofTask.get(task) ?? []).flatMap((deed) => (deed.type === 'took' && deed.at <= by ? [deed] : []));
    return took.sort((a, b) => b.at - a.at)[0]?.pid;
  });
  const violations: string[] = [];
  const takeovers: number[] = [];
  let inOutage = 0;
  for (const { taskId, seed } of turns) {
    const records = journals.get(taskId) ?? [];
    const own = ofTask.get(taskId) ?? [];
    violations.push(
      ...violationsOf({ taskId, plan: loadPlan(seed, lockMs), records, deeds: own.filter(isDeed), paused }),
    );
    if (!records.some(isTerminal)) continue;
    const acts = actsOf(own);
    const lost = takeoversOf(records, own, faults, killedWith.get(taskId) ?? []);
    for (const { from, to } of lost) {
      const ms = to - bornAgain(faults, from, to);
      if (isInOutage(faults, from, to)) inOutage++;
      else takeovers.push(ms);
      const most = boundMs + longestStall(stood, from, to);
      if (ms > most) violations.push(`${taskId}: a takeover takes at most ${most} ms: it took ${ms} ms`);
    }
    for (const when of unexplained(records, acts, remains, stalls))
      violations.push(`${taskId}: a turn changes its owner only where that died: it was resumed ${when}`);
    violations.push(...observedWrong(taskId, records, own));
    violations.push(
      ...wakeUpsLost({ taskId, records, deeds: own, killed: killedWith.get(taskId) ?? [] }, faults, boundMs),
    );
  }
  const all = turns.map(({ taskId }) => ({
    taskId,
    records: journals.get(taskId) ?? [],
    deeds: ofTask.get(taskId) ?? [],
    killed: killedWith.get(taskId) ?? [],
  }));
  violations.push(...dispatchedTwice(all, faults, places));
  const { broken, waits } = sharesOf(remains, ofTask, killedWith);
  violations.push(...broken);
  return { violations, takeovers: takeovers.sort((a, b) => a - b), inOutage, stalls: stalls.length, waits };
}

/** What stood still could not take anything over. */
function longestStall(stood: readonly LoadDeed[], from: number, to: number): number {
  const within = stood.flatMap((deed) =>
    deed.type === 'stalled' && deed.at >= from && deed.at - deed.ms <= to ? [deed.ms] : [],
  );
  return Math.max(0, ...within);
}

function byTask(deeds: readonly LoadDeed[]): ReadonlyMap<string, readonly LoadDeed[]> {
  const ofTask = new Map<string, LoadDeed[]>();
  for (const deed of deeds) {
    if (!('task' in deed)) continue;
    const own = ofTask.get(deed.task);
    if (own) own.push(deed);
    else ofTask.set(deed.task, [deed]);
  }
  return ofTask;
}

function isDeed(deed: LoadDeed): deed is Deed {
  return deed.type === 'start' || deed.type === 'end' || deed.type === 'model';
}

function actsOf(deeds: readonly LoadDeed[]): readonly Act[] {
  const acts = deeds.flatMap((deed) => (deed.type === 'start' || deed.type === 'model' ? [deed] : []));
  return acts.sort((a, b) => a.at - b.at);
}

/** For each worker that was killed or stopped while it had the turn: from then until the turn was resumed. */
function takeoversOf(
  records: readonly JournalRecord[],
  deeds: readonly LoadDeed[],
  { workers }: Faults,
  killedWith: readonly number[],
) {
  const acts = actsOf(deeds);
  const taken = deeds.flatMap((deed) => (deed.type === 'took' ? [deed] : []));
  const endedAt = records.find(isTerminal)?.at ?? Number.POSITIVE_INFINITY;
  return workers.flatMap(({ pid, at: from }) => {
    if (endedAt <= from) return [];
    // Nobody has a turn that waits for its answer.
    const last = records.findLast(({ at }) => at <= from);
    if (last && isAnswered(last)) return [];
    if (acts.findLast(({ at }) => at <= from)?.pid !== pid) return [];
    // A turn of one epoch was not taken over: what its owner had sent ended it, or the owner itself, which was stopped and continued.
    const to = records.find(({ epoch, at }) => epoch !== last?.epoch && at >= from)?.at;
    if (to === undefined) return [];
    // The next ones may have died with its job, too, while they waited for the lease.
    const lostAgain = workers.filter((next) => {
      const isNext = next.at > from && next.at <= to;
      return isNext && taken.some((took) => took.pid === next.pid && took.at >= from && took.at <= next.at);
    });
    const killedAgain = killedWith.filter((at) => at > from && at <= to);
    return [{ from: Math.max(from, ...killedAgain, ...lostAgain.map(({ at }) => at)), to }];
  });
}

/** When a worker asked for the lease of a turn for the first time. */
function takenAt(deeds: readonly LoadDeed[]): number | undefined {
  const times = deeds.flatMap((deed) => (deed.type === 'took' ? [deed.at] : []));
  return times.length === 0 ? undefined : Math.min(...times);
}

/** When a turn was resumed although its owner was well. */
function unexplained(
  records: readonly JournalRecord[],
  acts: readonly Act[],
  { faults, leaseMs }: Remains,
  stalls: readonly { readonly pid: number; readonly ms: number; readonly at: number }[],
): readonly string[] {
  return records.flatMap(({ type, at }, index) => {
    const before = records[index - 1];
    if (type !== 'turn.resumed' || before === undefined || isAnswered(before)) return [];
    const from = before.at;
    const ownedFrom = records.slice(0, index).findLast((record) => record.type === 'turn.resumed')?.at ?? 0;
    // The new owner may call its model in the millisecond of its record.
    const pid = acts.findLast((act) => act.at < at && act.at >= ownedFrom)?.pid;
    // One that was killed between its lease and its first model call did nothing that anybody noted.
    const isOwner = (other: number) => pid === undefined || other === pid;
    const earliest = pid === undefined ? from - leaseMs : from;
    const died = faults.workers.some(
      (fault) => isOwner(fault.pid) && fault.at <= at && (fault.resumedAt ?? at) >= earliest,
    );
    const stood = stalls.some((stall) => isOwner(stall.pid) && stall.at >= from && stall.at - stall.ms <= at);
    return died || stood || isInOutage(faults, from, at)
      ? []
      : [`${at - from} ms after its last record, of process ${pid}`];
  });
}

/** Whoever answers a turn that is suspended lets anybody resume it. */
function isAnswered({ type }: JournalRecord): boolean {
  return type === 'turn.suspended' || type === 'turn.answered';
}

/** An observer sees every event once and in order, and one end. Turns that nobody observed have no events. */
function observedWrong(taskId: string, records: readonly JournalRecord[], deeds: readonly LoadDeed[]) {
  const seen = deeds.flatMap((deed) => (deed.type === 'seen' ? [deed.cursor] : []));
  const ends = deeds.filter(({ type }) => type === 'closed').length;
  if (seen.length === 0 && ends === 0) return [];
  const broken: string[] = [];
  if (ends !== 1) broken.push(`${taskId}: an observed turn ends once: ${ends} times`);
  const known = new Map(records.map(({ seq, epoch }) => [seq, epoch]));
  let before = { seq: 0, n: 0 };
  for (const cursor of seen) {
    const [, seq = 0, epoch = 0, n = 0] = (/^(\d+)-(\d+)\.(\d+)$/.exec(cursor) ?? []).map(Number);
    if (known.get(seq) !== epoch) broken.push(`${taskId}: an observer sees what is recorded: ${cursor}`);
    const isNext = seq === before.seq ? n === before.n + 1 : seq > before.seq;
    if (!isNext) broken.push(`${taskId}: events come once and in order: ${cursor} after ${before.seq}.${before.n}`);
    before = { seq, n };
  }
  const shown = new Set(seen.map((cursor) => Number(cursor.split('-')[0])));
  for (const { seq, type } of records)
    if (alwaysShown.has(type) && !shown.has(seq))
      broken.push(`${taskId}: no event is missing: of record ${seq}, ${type}`);
  return broken;
}

/** Records that have at least one event. */
const alwaysShown: ReadonlySet<string> = new Set([
  'turn.started',
  'llm.done',
  'tool.intent',
  'tool.result',
  'turn.done',
]);

/** Between the submission of a small tenant's turn and the first worker that takes it, no more turns of the large one begin than turns of its own are before it. */
function sharesOf(
  { turns, faults, places }: Remains,
  ofTask: ReadonlyMap<string, readonly LoadDeed[]>,
  killedWith: ReadonlyMap<string, readonly number[]>,
) {
  const times = turns.flatMap(({ taskId, tenant }) => {
    const own = ofTask.get(taskId) ?? [];
    const submittedAt = own.find((deed) => deed.type === 'submitted')?.at;
    // Not its first model call: a worker that took it, or was just being given it, may have died before that.
    const begunAt = Math.min(takenAt(own) ?? Number.NaN, ...(killedWith.get(taskId) ?? []));
    return submittedAt === undefined || Number.isNaN(begunAt) ? [] : [{ taskId, tenant, submittedAt, begunAt }];
  });
  const large = times.filter(({ tenant }) => tenant === 'large');
  const small = times.filter(({ tenant }) => tenant === 'small').sort((a, b) => a.submittedAt - b.submittedAt);
  const broken = small.flatMap(({ taskId, submittedAt, begunAt }, index) => {
    if (isInOutage(faults, submittedAt, begunAt)) return [];
    const before = large.filter((turn) => turn.begunAt > submittedAt && turn.begunAt < begunAt).length;
    const most = index + 1 + 2 * places;
    if (before <= most) return [];
    return [`${taskId}: a small tenant is not behind a large one: ${before} turns began before it, ${most} may`];
  });
  const wait = (some: typeof times) => medianOf(some.map((turn) => Math.max(0, turn.begunAt - turn.submittedAt)));
  return { broken, waits: { large: wait(large), small: wait(small) } };
}

export function medianOf(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}
