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

/** What a killed worker had, also what it was just being given and had not noted. `tookLast`: the process that noted last that it has a turn. */
export function jobsLostWith({ pid, active = [] }: WorkerFault, tookLast: (task: string) => number | undefined) {
  const names = new Set(active.flatMap(({ task, worker }) => (tookLast(task) === pid ? [worker] : [])));
  return active.flatMap(({ task, worker }) => (names.has(worker) ? [task] : []));
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
