import type { FleetBench } from './fleet-bench.ts';

interface JobEvent {
  readonly event: string;
  readonly jobId: string;
}

/** What happens to the jobs of the agent `ada` from now on, in order: BullMQ notes it in the command that does it. */
export function jobEvents({ redis, nameOfTest }: FleetBench): () => Promise<readonly JobEvent[]> {
  const stream = `{${nameOfTest}}:ada:events`;
  const [last = '0'] = redis.server.cli('XREVRANGE', stream, '+', '-', 'COUNT', '1').split('\n');
  return async () => {
    const lines = (await redis.server.cliLater('XRANGE', stream, `(${last}`, '+')).split('\n');
    const starts = lines.flatMap((line, index) => (/^\d+-\d+$/.test(line) ? [index] : []));
    return starts.map((start, index) => {
      const fields = lines.slice(start + 1, starts[index + 1]);
      const field = (name: string) => fields[fields.indexOf(name) + 1] ?? '';
      return { event: field('event'), jobId: field('jobId') };
    });
  };
}

/** Of each job that came back from a dead worker, how many that waited began before it had a new owner. */
export function overtaking(events: readonly JobEvent[]): readonly number[] {
  const back = new Map<string, { readonly from: number; to: number; isOwned: boolean }>();
  let begun = 0;
  for (const { event, jobId } of events) {
    const job = back.get(jobId);
    if (event === 'stalled' && job === undefined) back.set(jobId, { from: begun, to: begun, isOwned: false });
    else if (event === 'active' && job === undefined) begun++;
    if (job !== undefined && (event === 'active' || event === 'delayed')) job.isOwned = event === 'active';
    for (const each of back.values()) if (!each.isOwned) each.to = begun;
  }
  return [...back.values()].map(({ from, to }) => to - from);
}
