import { afterEach, beforeEach, expect } from '@jest/globals';
import { SpanStatusCode } from '@opentelemetry/api';
import type { ReadableSpan } from '@opentelemetry/sdk-trace-node';
import { recordSpans, type SpanRecorder } from 'millrace/testing';

/** Records the spans of each test of a file, and checks after it that every one has ended, none of them after its parent. */
export function recordedSpans(): SpanRecorder {
  let recorder: SpanRecorder;
  beforeEach(() => {
    recorder = recordSpans();
  });
  afterEach(async () => {
    await recorder.dispose();
    expect(recorder.open()).toEqual([]);
    expect(recorder.ended).toBe(recorder.started);
    expect(outlivingTheirParents(recorder.inOrderOfEnd())).toEqual([]);
  });
  return {
    get provider() {
      return recorder.provider;
    },
    get started() {
      return recorder.started;
    },
    get ended() {
      return recorder.ended;
    },
    spans: () => recorder.spans(),
    inOrderOfEnd: () => recorder.inOrderOfEnd(),
    open: () => recorder.open(),
    tree: () => recorder.tree(),
    clear: () => recorder.clear(),
    dispose: () => recorder.dispose(),
  };
}

/** The names of the spans that ended behind the span above them; `spans` in the order in which they ended. */
export function outlivingTheirParents(spans: readonly ReadableSpan[]): readonly string[] {
  const over = new Set<string>();
  const outliving: string[] = [];
  for (const span of spans) {
    if (over.has(span.parentSpanContext?.spanId ?? '')) outliving.push(span.name);
    over.add(span.spanContext().spanId);
  }
  return outliving;
}

/** How a span says that things went. */
export function endingOf(span: ReadableSpan) {
  const { status, events, attributes } = span;
  return {
    status: SpanStatusCode[status.code],
    errorType: attributes['error.type'],
    exceptions: events.filter(({ name }) => name === 'exception').map((each) => each.attributes?.['exception.message']),
    outcome: attributes['millrace.outcome'],
  };
}

export const unset = { status: 'UNSET', errorType: undefined, exceptions: [], outcome: undefined };
export const canceled = { ...unset, outcome: 'canceled' };
