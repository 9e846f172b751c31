import type { FinishedSpan } from './finished-span.ts';

export interface SpanNode<S extends FinishedSpan = FinishedSpan> {
  readonly span: S;
  /** By start, then in the order given. */
  readonly children: readonly SpanNode<S>[];
}

/** The spans as trees. A span whose parent is not among them is a root: its parent is the caller's, or was not recorded. */
export function spanTree<S extends FinishedSpan>(spans: readonly S[]): readonly SpanNode<S>[] {
  const nodes = new Map<string, { readonly span: S; readonly children: SpanNode<S>[] }>();
  const ordered = [...spans].sort((one, other) => one.startMs - other.startMs);
  for (const span of ordered) nodes.set(keyOf(span, span.spanId), { span, children: [] });
  const roots: SpanNode<S>[] = [];
  for (const node of nodes.values()) {
    const { parentSpanId } = node.span;
    const parent = parentSpanId === undefined ? undefined : nodes.get(keyOf(node.span, parentSpanId));
    (parent?.children ?? roots).push(node);
  }
  return roots;
}

function keyOf(span: FinishedSpan, spanId: string): string {
  return `${span.traceId}:${spanId}`;
}

/** The names of the spans as an indented list, two blanks a level: a tree that a test can compare at a glance. */
export function spanOutline(spans: readonly FinishedSpan[]): string {
  const linesOf = (node: SpanNode, indent: string): readonly string[] => [
    indent + node.span.name,
    ...node.children.flatMap((child) => linesOf(child, `${indent}  `)),
  ];
  return spanTree(spans)
    .flatMap((root) => linesOf(root, ''))
    .join('\n');
}
