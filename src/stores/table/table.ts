/** A part of a key. Numbers come before strings. */
export type KeyPart = string | number;

/** Parts in order: keys with a common beginning stand together. Strings are of ASCII where their order matters. */
export type TableKey = KeyPart[];

export interface TableEntry {
  readonly key: TableKey;
  readonly value: string;
}

export interface TableRange {
  /** The first value of the part after the prefix. Default: from the prefix itself on. */
  readonly from?: KeyPart | undefined;
  /** The value of that part to end before. Default: to the last key with the prefix. */
  readonly to?: KeyPart | undefined;
  /** How many entries at most. Default: all. */
  readonly limit?: number | undefined;
}

/**
 * A transaction, written once for tables that answer at once and for those that do not: a generator that yields what has to be awaited
 * before it continues. In a table that answers at once it yields nothing.
 */
export type Steps<T> = Generator<PromiseLike<unknown>, T, undefined>;

/** The rows of a table inside a transaction. `put` and `remove` are seen by later reads of the same transaction. */
export interface Rows {
  get(key: TableKey): Steps<string | undefined>;
  /** The entries whose keys begin with `prefix`, in order. */
  range(prefix: TableKey, range?: TableRange): Steps<readonly TableEntry[]>;
  put(key: TableKey, value: string): void;
  /** Does nothing where there is none. */
  remove(key: TableKey): void;
}

export type Body<T> = (rows: Rows) => Steps<T>;

/** Whether calls answer at once or with a promise. */
export type Timing = 'now' | 'later';

export type Answer<When extends Timing, T> = When extends 'now' ? T : Promise<T>;

/**
 * Rows of strings in the order of their keys: what a backend implements, once, for the stores of messages, caches and push registrations.
 *
 * `prepare` runs at once and outside of the transaction: arguments are checked and encoded there. The body that it returns sees one
 * snapshot; what it writes is there as a whole or not at all, and bodies that write run as if one after the other. A body may run more than
 * once. One that throws has to do so before its first `put` or `remove`. What `prepare` or the body throws, the caller gets: thrown where the
 * call answers at once, as a rejection where it answers with a promise.
 */
export interface Table<Read extends Timing = Timing, Write extends Timing = Timing> {
  read<T>(prepare: () => Body<T>): Answer<Read, T>;
  /** Answers once what was written is as durable as the table keeps anything. */
  write<T>(prepare: () => Body<T>): Answer<Write, T>;
}

/** For `Rows` that answer at once. */
// biome-ignore lint/correctness/useYield: there is nothing to wait for.
export function* found<T>(value: T): Steps<T> {
  return value;
}

/** Runs steps that wait for nothing. */
export function atOnce<T>(steps: Steps<T>): T {
  const step = steps.next();
  if (step.done === true) return step.value;
  throw new TypeError('A transaction of a table that answers at once waited for something.');
}

/** Runs steps, and waits for what they yield. */
export async function awaited<T>(steps: Steps<T>): Promise<T> {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await step.value;
  }
}

/** Of a part of a key: the value of the key that ends here, and the keys that continue. */
interface Node {
  value?: string | undefined;
  below?: Branch;
}

interface Branch {
  readonly nodes: Map<KeyPart, Node>;
  /** The keys of `nodes`, sorted. */
  readonly order: KeyPart[];
}

/** A table in the memory of this process. Keys with a common beginning share a branch, so that a write costs the same in a large table. */
export class MemoryTable implements Table<'now', 'now'> {
  readonly #root: Node = {};
  readonly #rows: Rows = {
    get: (key) => found(nodeAt(this.#root, key)?.value),
    range: (prefix, { from, to, limit = Number.POSITIVE_INFINITY } = {}) => {
      const entries: TableEntry[] = [];
      const node = nodeAt(this.#root, prefix);
      if (node?.value !== undefined && from === undefined) entries.push({ key: [...prefix], value: node.value });
      const { nodes, order } = node?.below ?? { nodes: new Map<KeyPart, Node>(), order: [] };
      for (let index = from === undefined ? 0 : placeIn(order, from); index < order.length; index++) {
        const part = order[index] ?? '';
        if (entries.length >= limit || (to !== undefined && !isBefore(part, to))) break;
        collect(nodes.get(part), [...prefix, part], entries);
      }
      return found(entries.slice(0, limit));
    },
    put: (key, value) => {
      let node = this.#root;
      for (const part of key) {
        node.below ??= { nodes: new Map(), order: [] };
        const { nodes, order } = node.below;
        const next = nodes.get(part) ?? {};
        if (!nodes.has(part)) order.splice(placeIn(order, part), 0, part);
        nodes.set(part, next);
        node = next;
      }
      node.value = value;
    },
    remove: (key) => remove(this.#root, key, 0),
  };

  read<T>(prepare: () => Body<T>): T {
    return atOnce(prepare()(this.#rows));
  }

  write<T>(prepare: () => Body<T>): T {
    return atOnce(prepare()(this.#rows));
  }
}

function nodeAt(root: Node, key: TableKey): Node | undefined {
  let node: Node | undefined = root;
  for (const part of key) node = node?.below?.nodes.get(part);
  return node;
}

function collect(node: Node | undefined, key: TableKey, into: TableEntry[]): void {
  if (node?.value !== undefined) into.push({ key, value: node.value });
  for (const part of node?.below?.order ?? []) collect(node?.below?.nodes.get(part), [...key, part], into);
}

/** Leaves no branch without entries. */
function remove(node: Node, key: TableKey, depth: number): void {
  const part = key[depth];
  if (part === undefined) {
    node.value = undefined;
    return;
  }
  const next = node.below?.nodes.get(part);
  if (!node.below || !next) return;
  remove(next, key, depth + 1);
  if (next.value !== undefined || next.below) return;
  node.below.nodes.delete(part);
  node.below.order.splice(placeIn(node.below.order, part), 1);
  if (node.below.order.length === 0) delete node.below;
}

/** The index of a part in a sorted array, or where it belongs. */
function placeIn(order: readonly KeyPart[], part: KeyPart): number {
  let [low, high] = [0, order.length];
  // Most parts are new and the last: numbers that grow, times.
  const last = order.at(-1);
  if (last === undefined || isBefore(last, part)) return high;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(order[middle] ?? '', part)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function isBefore(one: KeyPart, other: KeyPart): boolean {
  if (typeof one === typeof other) return one < other;
  return typeof one === 'number';
}
