/** Numbers that a seed determines (mulberry32), so that what was drawn once can be drawn again. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** From 0 up to 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let value = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number, both ends included. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(items: readonly [T, ...T[]]): T {
    return items[this.int(0, items.length - 1)] ?? items[0];
  }

  /** A seed for something that draws for itself. */
  seed(): number {
    return this.int(0, 2 ** 31 - 1);
  }
}

/** A seed of its own for each part of a run, whatever the other parts draw. */
export function seedOf(seed: number, ...part: readonly (string | number)[]): number {
  let hash = seed | 0;
  for (const character of part.join('/')) hash = Math.imul(hash ^ character.charCodeAt(0), 0x01000193);
  return hash >>> 1;
}
