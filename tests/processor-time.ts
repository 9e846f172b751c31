const mostRuns = 7;

interface Compared {
  readonly run: () => unknown;
  readonly base: () => unknown;
  /** Ten times and more above what linear time takes, and far below what quadratic time would. */
  readonly most: number;
}

/**
 * How many times the processor time of `base` that of `run` is. Each is the least of up to seven runs, as what else a busy machine does is
 * added to the others; once it is below `most`, that is the outcome.
 */
export async function timesAsLong({ run, base, most }: Compared): Promise<number> {
  let [least, leastOfBase] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let runs = 0; runs < mostRuns && !(least < most * leastOfBase); runs++) {
    leastOfBase = Math.min(leastOfBase, await processorMs(base));
    least = Math.min(least, await processorMs(run));
  }
  return least / leastOfBase;
}

/** So many characters of paragraphs, with the marks that prose has. */
export function prose(length: number): string {
  const sentence = 'The plan of the *second* week, as agreed, is to read 12 files and then to write a report. ';
  const paragraph = `${sentence.repeat(5)}\n\n`;
  return paragraph.repeat(Math.ceil(length / paragraph.length)).slice(0, length);
}

async function processorMs(run: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}
