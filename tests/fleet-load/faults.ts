/** What was done to the processes of a run. Times: milliseconds since 1970. */
export interface Faults {
  readonly workers: WorkerFault[];
  /** The lock of the turn's job was deleted while a tool of the turn ran. */
  readonly locks: { readonly taskId: string; readonly at: number }[];
  readonly outages: { readonly from: number; to: number }[];
}

/** A worker was killed, or stopped until `resumedAt`. */
export interface WorkerFault {
  readonly pid: number;
  readonly at: number;
  readonly resumedAt?: number;
  /** Jobs that some worker had after the kill, each with the queue's name of that worker. Workers take jobs before they know of them. */
  active?: readonly ActiveJob[];
}

export interface ActiveJob {
  readonly task: string;
  readonly worker: string;
}

/**
 * When workers were killed that had a turn's job, for each turn: also one that was just being given it, and had not noted that. `tookLast`: the process
 * that noted last, by then, that it has a turn.
 */
export function killsOf({ workers }: Faults, tookLast: (task: string, by: number) => number | undefined) {
  const pids = new Map<string, Map<number, number>>();
  for (const { at, active = [] } of workers)
    for (const { task, worker } of active) {
      const pid = tookLast(task, at);
      if (pid === undefined) continue;
      const counts = pids.get(worker) ?? new Map<number, number>();
      pids.set(worker, counts.set(pid, (counts.get(pid) ?? 0) + 1));
    }
  const kills = new Map<string, number[]>();
  for (const { pid, at, active = [] } of workers)
    for (const { task, worker } of active) {
      const [[likely] = []] = [...(pids.get(worker) ?? [])].sort(([, one], [, other]) => other - one);
      if (likely === pid) kills.set(task, [...(kills.get(task) ?? []), at]);
    }
  return kills;
}

/** How long after its restart clients may take to connect again. */
const reconnectMs = 2_000;

/** When Redis, if it was away in between, was back for its clients; else the first time. */
export function bornAgain({ outages }: Faults, from: number, to: number): number {
  const backAt = outages.flatMap((outage) => (outage.from <= to && outage.to >= from ? [outage.to + reconnectMs] : []));
  return Math.max(from, ...backAt);
}

/** Whether Redis was away, or had just come back, at some time in between. */
export function isInOutage({ outages }: Faults, from: number, to: number): boolean {
  return outages.some((outage) => outage.from <= to && outage.to + reconnectMs >= from);
}
