interface Change<T> {
  readonly index: number;
  readonly before: T;
  readonly newer: PersistentArray<T>;
}

/**
 * An array of fixed length with cheap versions: `with` gives a new version in O(1), and this one keeps its elements. The newest version holds
 * them all; an older one holds what was changed first since then, and the version with that change. So the versions just before the newest
 * are read nearly as fast, and old ones cost a step for each change since.
 */
export class PersistentArray<T> {
  readonly length: number;
  /** Of the newest version. */
  private elements: T[] | undefined;
  private change: Change<T> | undefined;
  private copy: readonly T[] | undefined;

  /** Takes the array over. */
  constructor(elements: T[]) {
    this.length = elements.length;
    this.elements = elements;
    this.change = undefined;
    this.copy = undefined;
  }

  at(index: number): T | undefined {
    let version: PersistentArray<T> = this;
    while (version.change) {
      if (version.change.index === index) return version.change.before;
      version = version.change.newer;
    }
    return version.elements?.[index];
  }

  /** A version with another element at `index`. Of a version that has a newer one already: O(length). */
  with(index: number, element: T): PersistentArray<T> {
    const elements = this.elements ?? [...this.list];
    const newer = new PersistentArray(elements);
    if (this.elements) {
      this.change = { index, before: elements[index] as T, newer };
      this.elements = undefined;
    }
    elements[index] = element;
    return newer;
  }

  /** All elements, as an array that does not change. Copied once for a version. */
  get list(): readonly T[] {
    this.copy ??= this.#copied();
    return this.copy;
  }

  #copied(): readonly T[] {
    let version: PersistentArray<T> = this;
    const changes: Change<T>[] = [];
    while (version.change) {
      changes.push(version.change);
      version = version.change.newer;
    }
    const list = (version.elements ?? []).slice();
    for (const { index, before } of changes.reverse()) list[index] = before;
    return list;
  }
}
