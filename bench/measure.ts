/** One way to do the work that is measured. */
export interface Contender {
  readonly name: string;
  readonly run: () => Promise<unknown>;
}

/** CPU time of one run, over all rounds. Microseconds. */
export interface Timing {
  readonly name: string;
  readonly median: number;
  readonly least: number;
}

const rounds = 9;
const sampleMs = 40;

/**
 * Runs contenders in turn, round after round, so that whatever else the machine does falls on all of them, and measures the CPU
 * time of the process, garbage collection included. None is forced in between: that makes V8 throw compiled code away. A sample is as
 * many runs as take about 40 ms. `warmUpMs` is CPU time for each contender.
 */
export async function race(contenders: readonly Contender[], warmUpMs = 500): Promise<readonly Timing[]> {
  const lanes: { readonly contender: Contender; readonly repeats: number; readonly samples: number[] }[] = [];
  for (const contender of contenders)
    lanes.push({ contender, repeats: await warmUp(contender, warmUpMs), samples: [] });
  for (let round = 0; round < rounds; round++) {
    for (const { contender, repeats, samples } of lanes) {
      samples.push((await cpuTime(contender, repeats)) / repeats);
    }
  }
  return lanes.map(({ contender, samples }) => ({
    name: contender.name,
    median: medianOf(samples),
    least: Math.min(...samples),
  }));
}

/** Runs a contender until it is compiled, and finds out how often it runs in a sample. */
async function warmUp(contender: Contender, warmUpMs: number): Promise<number> {
  for (let spent = 0; spent < warmUpMs * 1000; ) spent += await cpuTime(contender, 1);
  let repeats = 1;
  while ((await cpuTime(contender, repeats)) < (sampleMs * 1000) / 2) repeats *= 2;
  return repeats;
}

async function cpuTime(contender: Contender, repeats: number): Promise<number> {
  const before = process.cpuUsage();
  for (let n = 0; n < repeats; n++) await contender.run();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

export function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2;
}
