/** What was measured of one process over time. Bytes. */
export class MemorySamples {
  readonly #heap: number[] = [];
  readonly #rss: number[] = [];

  add(heap: number, rss: number): void {
    this.#heap.push(heap);
    this.#rss.push(rss);
  }

  get last(): string {
    return `heap ${mebibytes(this.#heap.at(-1) ?? 0)}, RSS ${mebibytes(this.#rss.at(-1) ?? 0)}`;
  }

  /** One sentence each for heap and RSS that grew behind the first third of the time; none where both are flat. */
  growth(): readonly string[] {
    return [
      ...growthOf('heap', this.#heap, { share: 0.15, bytes: 8 * 2 ** 20 }),
      ...growthOf('RSS', this.#rss, { share: 0.25, bytes: 40 * 2 ** 20 }),
    ];
  }

  /** The median of each tenth of the time. */
  get course(): string {
    return `heap ${tenths(this.#heap)}; RSS ${tenths(this.#rss)} MiB`;
  }
}

interface Allowance {
  readonly share: number;
  readonly bytes: number;
}

/** The second third against the last: the first is the start-up. What grows without end grows between them. */
function growthOf(what: string, samples: readonly number[], allowed: Allowance): readonly string[] {
  const third = Math.floor(samples.length / 3);
  if (third < 3) return [`memory: ${samples.length} samples of ${what} are too few to tell; take more minutes`];
  const [before, after] = [medianOf(samples.slice(third, 2 * third)), medianOf(samples.slice(2 * third))];
  const most = before + Math.max(before * allowed.share, allowed.bytes);
  return after <= most ? [] : [`memory: ${what} grew from ${mebibytes(before)} to ${mebibytes(after)}`];
}

function medianOf(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;
}

function tenths(samples: readonly number[]): string {
  const size = Math.max(1, Math.ceil(samples.length / 10));
  const pieces = Array.from({ length: Math.ceil(samples.length / size) }, (_, n) =>
    samples.slice(n * size, (n + 1) * size),
  );
  return pieces.map((piece) => Math.round(medianOf(piece) / 2 ** 20)).join(' ');
}

function mebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(0)} MiB`;
}
