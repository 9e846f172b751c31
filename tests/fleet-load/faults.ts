/** What was done to the processes of a run. Times: milliseconds since 1970. */
export interface Faults {
  /** Workers that were killed, or stopped until `resumedAt`. */
  readonly workers: { readonly pid: number; readonly at: number; readonly resumedAt?: number }[];
  readonly outages: { readonly from: number; to: number }[];
}

/** How long after its restart clients may take to connect again. */
const reconnectMs = 2_000;

/** Whether Redis was away, or had just come back, at some time in between. */
export function isInOutage({ outages }: Faults, from: number, to: number): boolean {
  return outages.some((outage) => outage.from <= to && outage.to + reconnectMs >= from);
}
