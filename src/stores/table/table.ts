import { SortedParts } from './sorted-parts.ts';

/** A part of a key. Numbers come before strings. */
export type KeyPart = string | number;

/** Parts in order: keys with a common prefix are adjacent. Strings must be ASCII if their order matters. */
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
  /** The maximum number of entries. Default: all. */
  readonly limit?: number | undefined;
}

/**
 * A transaction for both synchronous and asynchronous tables: a generator that yields each promise to await
 * before it continues. In a synchronous table it yields nothing.
 */
export type Steps<T> = Generator<PromiseLike<unknown>, T, undefined>;

/** The rows of a table within a transaction. Later reads of the same transaction see `put` and `remove`. */
export interface Rows {
  get(key: TableKey): Steps<string | undefined>;
  /** The entries whose keys begin with `prefix`, in order. */
  range(prefix: TableKey, range?: TableRange): Steps<readonly TableEntry[]>;
  put(key: TableKey, value: string): void;
  /** Does nothing if there is none. */
  remove(key: TableKey): void;
}

export type Body<T> = (rows: Rows) => Steps<T>;

/** Whether calls answer at once or with a promise. */
export type Timing = 'now' | 'later';

export type Answer<When extends Timing, T> = When extends 'now' ? T : Promise<T>;

/**
 * Rows of strings in the order of their keys: the one interface that a backend implements for the stores of messages, caches and push registrations.
 *
 * `prepare` runs at once and outside of the transaction: it validates and encodes arguments. The body that it returns sees one
 * snapshot; its writes are atomic, and writing bodies are serialized. A body may run more than
 * once. It may throw only before its first `put` or `remove`. Exceptions of `prepare` and the body reach the caller: thrown if the
 * call is synchronous, as a rejection if it returns a promise.
 */
export interface Table<Read extends Timing = Timing, Write extends Timing = Timing> {
  read<T>(prepare: () => Body<T>): Answer<Read, T>;
  /** Answers once the writes are as durable as the table provides. */
  write<T>(prepare: () => Body<T>): Answer<Write, T>;
}

/** For synchronous `Rows`. */
// biome-ignore lint/correctness/useYield: there is nothing to wait for.
export function* found<T>(value: T): Steps<T> {
  return value;
}

/** Runs steps that yield nothing. */
export function atOnce<T>(steps: Steps<T>): T {
  const step = steps.next();
  if (step.done === true) return step.value;
  throw new TypeError('A transaction of a table that answers at once waited for something.');
}

/** Runs steps, and awaits what they yield. */
export async function awaited<T>(steps: Steps<T>): Promise<T> {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await step.value;
  }
}

/** A node of the key tree: the value of the key that ends here, and longer keys. */
interface Node {
  value?: string | undefined;
  below?: Branch;
}

interface Branch {
  readonly nodes: Map<KeyPart, Node>;
  /** The keys of `nodes`. */
  readonly order: SortedParts;
}

/** A table in the memory of this process. Keys with a common prefix share a branch, whose order `SortedParts` keeps: a write costs about the same in a large table. */
export class MemoryTable implements Table<'now', 'now'> {
  readonly #root: Node = {};
  readonly #rows: Rows = {
    get: (key) => found(nodeAt(this.#root, key)?.value),
    range: (prefix, { from, to, limit = Number.POSITIVE_INFINITY } = {}) => {
      const entries: TableEntry[] = [];
      const node = nodeAt(this.#root, prefix);
      if (node?.value !== undefined && from === undefined) entries.push({ key: [...prefix], value: node.value });
      for (const part of node?.below?.order.slice({ from, to, limit }) ?? [])
        collect(node?.below?.nodes.get(part), [...prefix, part], entries);
      return found(entries.slice(0, limit));
    },
    put: (key, value) => {
      let node = this.#root;
      for (const part of key) {
        node.below ??= { nodes: new Map(), order: new SortedParts() };
        const { nodes, order } = node.below;
        const next = nodes.get(part) ?? {};
        if (!nodes.has(part)) order.add(part);
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
  for (const part of node?.below?.order.slice() ?? []) collect(node?.below?.nodes.get(part), [...key, part], into);
}

/** Removes empty branches. */
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
  node.below.order.remove(part);
  if (node.below.order.isEmpty) delete node.below;
}
