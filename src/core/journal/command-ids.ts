/**
 * The ids of the commands that a turn has followed, in order: append-only, with cheap versions that share one map, each of which sees
 * its own prefix. O(1) an append to the newest version; an append to an older one copies its prefix first.
 */
export class CommandIds {
  static readonly none = new CommandIds(new Map(), 0);
  readonly length: number;
  readonly #places: Map<string, number>;

  private constructor(places: Map<string, number>, length: number) {
    this.#places = places;
    this.length = length;
  }

  /** An id that is there already changes nothing. */
  append(id: string): CommandIds {
    if (this.has(id)) return this;
    const isNewest = this.length > 0 && this.#places.size === this.length;
    const places = isNewest ? this.#places : new Map([...this.#places].slice(0, this.length));
    places.set(id, this.length);
    return new CommandIds(places, this.length + 1);
  }

  has(id: string): boolean {
    return (this.#places.get(id) ?? this.length) < this.length;
  }

  some(matches: (id: string) => boolean): boolean {
    for (const [id, place] of this.#places) {
      if (place >= this.length) return false;
      if (matches(id)) return true;
    }
    return false;
  }
}
