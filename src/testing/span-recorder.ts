import { trace } from '@opentelemetry/api';
import type { NodeTracerProvider, ReadableSpan, Span, SpanProcessor } from '@opentelemetry/sdk-trace-node';
import { AgentLoopError } from '../core/contracts/index.ts';
import { loadSdk } from '../observability/load-sdk.ts';
import { dropIdGenerator, turnIdGenerator } from '../observability/spans/chosen-ids.ts';

/** What {@link recordSpans} gives. */
export interface SpanRecorder {
  readonly provider: NodeTracerProvider;
  /** How many spans were started and how many have ended. */
  readonly started: number;
  /** Spans that have ended. */
  readonly ended: number;
  /** The spans that have ended, in the order in which they were started. */
  spans(): readonly ReadableSpan[];
  /** The spans that have ended, in the order in which they ended. */
  inOrderOfEnd(): readonly ReadableSpan[];
  /** The names of the spans that were started and have not ended, in that order. */
  open(): readonly string[];
  /**
   * The names of all spans as text: one a line, two spaces in for each level, children in the order in which they were
   * started. A span whose parent was not recorded stands at the top; one that has not ended is marked ` (open)`.
   */
  tree(): string;
  /** Forgets what was recorded so far. */
  clear(): void;
  /** Takes the provider off again and shuts it down. The second call does nothing. */
  dispose(): Promise<void>;
}

/**
 * Records every span in memory, sampled or not, as the process's global tracer provider. Registers no context manager, so
 * a span has a parent only where one was passed explicitly, and ids as with `startTracing`. Errors with `CONFLICT` where another provider is registered, with
 * `MISSING_PACKAGE` without `@opentelemetry/sdk-trace-node`.
 * Memory grows with the number of spans until `clear` or `dispose`.
 */
export function recordSpans(): SpanRecorder {
  const { AlwaysOnSampler, NodeTracerProvider } = loadSdk('@opentelemetry/sdk-trace-node');
  const processor = new RecordingProcessor();
  const idGenerator = turnIdGenerator();
  const provider = new NodeTracerProvider({ idGenerator, sampler: new AlwaysOnSampler(), spanProcessors: [processor] });
  if (!trace.setGlobalTracerProvider(provider)) {
    throw new AgentLoopError('CONFLICT', 'A tracer provider is registered already; dispose of that recorder first.');
  }
  let disposed: Promise<void> | undefined;
  return {
    provider,
    get started() {
      return processor.spans.length;
    },
    get ended() {
      return processor.spans.filter((span) => span.ended).length;
    },
    spans: () => processor.spans.filter((span) => span.ended),
    inOrderOfEnd: () => [...processor.ended],
    open: () => processor.spans.filter((span) => !span.ended).map((span) => span.name),
    tree: () => treeOf(processor.spans),
    clear: () => {
      processor.spans = [];
      processor.ended = [];
    },
    dispose: () => {
      if (disposed === undefined) {
        trace.disable();
        dropIdGenerator();
        disposed = provider.shutdown();
      }
      return disposed;
    },
  };
}

class RecordingProcessor implements SpanProcessor {
  spans: ReadableSpan[] = [];
  ended: ReadableSpan[] = [];

  onStart(span: Span): void {
    this.spans.push(span);
  }

  onEnd(span: ReadableSpan): void {
    this.ended.push(span);
  }

  forceFlush(): Promise<void> {
    return Promise.resolve();
  }

  shutdown(): Promise<void> {
    return Promise.resolve();
  }
}

function treeOf(spans: readonly ReadableSpan[]): string {
  const children = new Map<string, ReadableSpan[]>(spans.map((span) => [span.spanContext().spanId, []]));
  const roots: ReadableSpan[] = [];
  for (const span of spans) (children.get(span.parentSpanContext?.spanId ?? '') ?? roots).push(span);
  const lines: string[] = [];
  const draw = (siblings: readonly ReadableSpan[], depth: number): void => {
    for (const span of siblings) {
      lines.push(`${'  '.repeat(depth)}${span.name}${span.ended ? '' : ' (open)'}`);
      draw(children.get(span.spanContext().spanId) ?? [], depth + 1);
    }
  };
  draw(roots, 0);
  return lines.join('\n');
}
