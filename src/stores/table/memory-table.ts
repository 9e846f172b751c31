import {
  atOnce,
  type Body,
  found,
  type KeyPart,
  type Rows,
  type Table,
  type TableEntry,
  type TableKey,
} from './table.ts';

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
