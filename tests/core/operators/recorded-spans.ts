import { afterEach, beforeEach, expect } from '@jest/globals';
import { SpanStatusCode } from '@opentelemetry/api';
import type { ReadableSpan } from '@opentelemetry/sdk-trace-node';
import { recordSpans, type SpanRecorder } from '../../../src/testing/span-recorder.ts';

/** Records the spans of each test of a file, and checks after it that every one has ended. */
export function recordedSpans(): SpanRecorder {
  let recorder: SpanRecorder;
  beforeEach(() => {
    recorder = recordSpans();
  });
  afterEach(async () => {
    await recorder.dispose();
    expect(recorder.open()).toEqual([]);
    expect(recorder.ended).toBe(recorder.started);
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
    open: () => recorder.open(),
    tree: () => recorder.tree(),
    clear: () => recorder.clear(),
    dispose: () => recorder.dispose(),
  };
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
