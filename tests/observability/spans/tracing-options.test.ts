import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { context, createContextKey, ROOT_CONTEXT, type SpanContext, SpanStatusCode, trace } from '@opentelemetry/api';
import { AgentLoopError } from 'millrace';
import {
  cancelSpan,
  failSpan,
  finishLlmSpan,
  finishToolSpan,
  startChildSpan,
  startLlmSpan,
  startLoopIterationSpan,
  startToolSpan,
  startToolsSpan,
  type TracingOptions,
  turnTracing,
} from 'millrace/internals';
import { recordSpans, type SpanRecorder } from 'millrace/testing';
import { ids, turnOutline, writeTurnSpans } from '../turn-spans.ts';

const remote: SpanContext = {
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: 'b7ad6b7169203331',
  traceFlags: 1,
  isRemote: true,
};
const captureVariable = 'OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT';

describe('without an SDK', () => {
  it('gives the parent context itself and a span that records nothing', () => {
    const parent = ROOT_CONTEXT.setValue(createContextKey('caller'), 'kept');
    const { span, traceContext } = startChildSpan(turnTracing({}, ids), 'any', {}, parent);
    expect(traceContext).toBe(parent);
    expect(span.isRecording()).toBe(false);
  });

  it("keeps the caller's trace for what tools and models propagate", () => {
    const parent = trace.setSpanContext(ROOT_CONTEXT, remote);
    const { traceContext } = startChildSpan(turnTracing({}, ids), 'any', {}, parent);
    expect(trace.getSpanContext(traceContext)).toEqual(remote);
  });
});

/** Fails who reads of it. */
function unread<T extends object>(): T {
  const get = (_: object, name: string | symbol) => {
    throw new Error(`Nobody should read ${String(name)}.`);
  };
  return new Proxy<T>(Object.create(null), { get });
}

describe('without an SDK, in an iteration', () => {
  it('W-18 makes one span for all that a context is the parent of, and reads nothing for it', () => {
    const tracing = turnTracing({}, ids);
    const parent = ROOT_CONTEXT.setValue(createContextKey('caller'), 'kept');
    const { span } = startChildSpan(tracing, 'any', unread(), parent);
    const traced = [
      startLoopIterationSpan(tracing, 1, parent),
      startLlmSpan(tracing, unread(), parent),
      startToolsSpan(tracing, parent),
      startToolSpan(tracing, unread(), parent),
    ];
    expect(new Set(traced).size).toBe(1);
    expect(traced[0]?.span).toBe(span);
    finishLlmSpan(tracing, span, unread());
    finishToolSpan(tracing, span, unread());
  });
});

describe('with an SDK', () => {
  let recorder: SpanRecorder;
  beforeEach(() => {
    recorder = recordSpans();
  });
  afterEach(async () => {
    expect(recorder.open()).toEqual([]);
    await recorder.dispose();
  });

  it('S1-15 nests by the contexts passed, where no context manager is registered', () => {
    context.disable();
    writeTurnSpans(turnTracing({}, ids), 'completed');
    expect(recorder.tree()).toBe(turnOutline);
    expect(context.active()).toBe(ROOT_CONTEXT);
  });

  it('S1-84 goes on with the trace of the parent context', () => {
    writeTurnSpans(turnTracing({}, ids), 'completed', trace.setSpanContext(ROOT_CONTEXT, remote));
    const spans = recorder.spans();
    expect(spans[0]?.parentSpanContext).toEqual(remote);
    expect(new Set(spans.map((span) => span.spanContext().traceId))).toEqual(new Set([remote.traceId]));
  });

  it('S1-27 makes no span with enableTracing false', () => {
    writeTurnSpans(turnTracing({ enableTracing: false }, ids), 'completed');
    expect(recorder.started).toBe(0);
    writeTurnSpans(turnTracing({}, ids), 'completed');
    expect(recorder.started).toBe(8);
  });

  it('puts the ids of the turn on every span, and no user that is not known', () => {
    writeTurnSpans(turnTracing({}, ids), 'completed');
    for (const { attributes } of recorder.spans()) {
      expect(attributes).toMatchObject({
        'gen_ai.conversation.id': 'context-1',
        'session.id': 'context-1',
        'millrace.task.id': 'task-1',
        'millrace.agent.id': 'agent-1',
      });
      expect(attributes).not.toHaveProperty(['user.id']);
    }
    recorder.clear();
    startChildSpan(turnTracing({}, { ...ids, userId: 'user-1' }), 'any', {}, ROOT_CONTEXT).span.end();
    expect(recorder.spans()[0]?.attributes).toHaveProperty(['user.id'], 'user-1');
  });

  it('follows the conventions in names where that is asked for', () => {
    writeTurnSpans(turnTracing({ spanNames: 'semconv' }, ids), 'completed');
    const names = recorder.spans().map((span) => span.name);
    expect(names).toEqual([
      'agent.execute',
      'iteration[1]',
      'chat gpt-test',
      'tools.execute',
      'execute_tool weather',
      'execute_tool calculate',
      'iteration[2]',
      'chat gpt-test',
    ]);
  });

  it.each([
    ['our code', new AgentLoopError('PROVIDER_TIMEOUT', 'too slow'), 'PROVIDER_TIMEOUT', 'too slow'],
    ["the error's name", new TypeError('not a function'), 'TypeError', 'not a function'],
    ['Error for what is none', 'just text', 'Error', 'just text'],
  ])('S1-86 failSpan: status ERROR, a recorded exception, and as error.type %s', (_what, thrown, type, message) => {
    const { span } = startChildSpan(turnTracing({}, ids), 'any', {}, ROOT_CONTEXT);
    failSpan(span, thrown);
    span.end();
    const failed = recorder.spans()[0];
    expect(failed?.status).toEqual({ code: SpanStatusCode.ERROR, message });
    expect(failed?.attributes).toHaveProperty(['error.type'], type);
    expect(failed?.events.map((event) => event.name)).toEqual(['exception']);
    expect(failed?.events[0]?.attributes).toMatchObject({ 'exception.message': message });
  });

  it.each<[string, TracingOptions, string]>([
    ['what looks like a secret, also without a redaction', {}, 'Error: key sk-[redacted] of Ada'],
    [
      'what the redaction of the turn takes',
      { redact: (text) => text.replace('Ada', 'X') },
      'Error: key sk-[redacted] of X',
    ],
  ])('failSpan leaves out of message, exception and stack %s', (_what, options, expected) => {
    const { span } = startChildSpan(turnTracing(options, ids), 'any', {}, ROOT_CONTEXT);
    failSpan(span, new Error('Error: key sk-0123456789abcdef of Ada'));
    span.end();
    const failed = recorder.spans()[0];
    expect(failed?.status.message).toBe(expected);
    const exception = failed?.events[0]?.attributes;
    expect(exception).toMatchObject({ 'exception.message': expected, 'exception.type': 'Error' });
    expect(exception?.['exception.stacktrace']).toContain(`${expected}\n`);
    expect(exception?.['exception.stacktrace']).not.toContain('0123456789');
  });

  it('cancelSpan: the status stays unset', () => {
    const { span } = startChildSpan(turnTracing({}, ids), 'any', {}, ROOT_CONTEXT);
    cancelSpan(span);
    span.end();
    const [canceled] = recorder.spans();
    expect(canceled?.status).toEqual({ code: SpanStatusCode.UNSET });
    expect(canceled?.attributes).toHaveProperty(['millrace.outcome'], 'canceled');
    expect(canceled?.events).toEqual([]);
  });
});

describe('content capture', () => {
  afterEach(() => {
    delete process.env[captureVariable];
  });

  it.each([
    ['true', true],
    ['SPAN_ONLY', true],
    ['span_and_event', true],
    ['EVENT_ONLY', false],
    ['NO_CONTENT', false],
    ['false', false],
    ['', false],
  ])('the variable %j means %s, and the option counts before it', (value, expected) => {
    process.env[captureVariable] = value;
    expect(turnTracing({}, ids).captureContent).toBe(expected);
    expect(turnTracing({ captureContent: !expected }, ids).captureContent).toBe(!expected);
  });

  it('is off by default', () => {
    expect(turnTracing({}, ids).captureContent).toBe(false);
  });

  it('exports nothing of a text whose redaction throws', () => {
    const redact = () => {
      throw new Error('broken');
    };
    expect(turnTracing({ redact }, ids).redact('secret')).toBe('[redaction failed]');
  });
});
