/** Numbers come before strings. */
type Part = string | number;

interface Slice {
  /** The first part, or the one after it. Default: the first of all. */
  readonly from?: Part | undefined;
  /** The part to end before. Default: to the last one. */
  readonly to?: Part | undefined;
  readonly limit?: number | undefined;
}

/** A block that would have more parts is split. */
const mostInBlock = 64;

/** Different parts of keys, in order. To add or remove one moves few others, however many there are. */
export class SortedParts {
  /** In order, as the parts of each are. None is empty. */
  readonly #blocks: Part[][] = [];

  get isEmpty(): boolean {
    return this.#blocks.length === 0;
  }

  /** `part` must not be there yet. */
  add(part: Part): void {
    const last = this.#blocks.at(-1);
    // Most parts are new and the last: numbers that grow, times.
    if (last === undefined || isBefore(last.at(-1) ?? 0, part)) {
      if (last && last.length < mostInBlock) last.push(part);
      else this.#blocks.push([part]);
      return;
    }
    const at = this.#blockOf(part);
    const block = this.#blocks[at] ?? [];
    block.splice(placeIn(block, part), 0, part);
    if (block.length > mostInBlock) this.#blocks.splice(at + 1, 0, block.splice(mostInBlock / 2));
  }

  /** `part` must be there. */
  remove(part: Part): void {
    const at = this.#blockOf(part);
    const block = this.#blocks[at] ?? [];
    block.splice(placeIn(block, part), 1);
    if (block.length === 0) this.#blocks.splice(at, 1);
  }

  slice({ from, to, limit = Number.POSITIVE_INFINITY }: Slice = {}): readonly Part[] {
    const parts: Part[] = [];
    const first = from === undefined ? 0 : this.#blockOf(from);
    for (let at = first; at < this.#blocks.length; at++) {
      const block = this.#blocks[at] ?? [];
      const start = at === first && from !== undefined ? placeIn(block, from) : 0;
      const end = to === undefined ? block.length : placeIn(block, to);
      for (const part of block.slice(start, Math.min(end, start + limit - parts.length))) parts.push(part);
      if (end < block.length || parts.length >= limit) break;
    }
    return parts;
  }

  /** The index of the first block that does not end before a part. */
  #blockOf(part: Part): number {
    let [low, high] = [0, this.#blocks.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(this.#blocks[middle]?.at(-1) ?? 0, part)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** The index of a part in a sorted array, or its insertion index. */
function placeIn(order: readonly Part[], part: Part): number {
  let [low, high] = [0, order.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(order[middle] ?? 0, part)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function isBefore(one: Part, other: Part): boolean {
  if (typeof one === typeof other) return one < other;
  return typeof one === 'number';
}
