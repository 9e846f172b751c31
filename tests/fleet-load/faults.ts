/** What was done to the processes of a run. Times: milliseconds since 1970. */
export interface Faults {
  /** Workers that were killed, or stopped until `resumedAt`. */
  readonly workers: { readonly pid: number; readonly at: number; readonly resumedAt?: number }[];
  /** The lock of the turn's job was deleted while a tool of the turn ran. */
  readonly locks: { readonly taskId: string; readonly at: number }[];
  readonly outages: { readonly from: number; to: number }[];
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
