import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createContextKey, propagation, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import fc from 'fast-check';
import { startChildSpan, turnTracing } from 'millrace/internals';
import { carrierFromContext, contextFromCarrier, startTracing, type Tracing } from 'millrace/otel';
import { ids } from './turn-spans.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const traceparent = `00-${traceId}-b7ad6b7169203331-01`;

it('carries nothing where no SDK has registered a propagator', () => {
  const key = createContextKey('base');
  const base = ROOT_CONTEXT.setValue(key, 'kept');
  expect(contextFromCarrier({ traceparent }, base).getValue(key)).toBe('kept');
  expect(trace.getSpanContext(contextFromCarrier({ traceparent }))).toBeUndefined();
  expect(carrierFromContext(base)).toEqual({});
});

describe('with the propagators of startTracing', () => {
  let tracing: Tracing;
  beforeEach(() => {
    tracing = startTracing({ exporter: 'none', flushOnSignals: [] });
  });
  afterEach(async () => {
    await tracing.shutdown();
  });

  it.each([
    ["Node's headers", { traceparent, tracestate: 'vendor=1', baggage: 'tenant=one' }],
    ['headers with several values', { traceparent: [traceparent], tracestate: ['vendor=1'], baggage: ['tenant=one'] }],
    ['headers as somebody wrote them', { Traceparent: traceparent, TraceState: 'vendor=1', Baggage: 'tenant=one' }],
    ["fetch's headers", new Headers({ traceparent, tracestate: 'vendor=1', baggage: 'tenant=one' })],
    [
      "MCP's _meta beside other things",
      { traceparent, tracestate: 'vendor=1', baggage: 'tenant=one', progressToken: 7 },
    ],
  ])('S1-84 a turn goes on with the trace in %s', (_what, carrier) => {
    const context = contextFromCarrier(carrier);
    expect(propagation.getBaggage(context)?.getEntry('tenant')?.value).toBe('one');
    const { span, traceContext } = startChildSpan(turnTracing({}, ids), 'agent.execute', {}, context);
    span.end();
    const { spanId } = span.spanContext();
    expect(carrierFromContext(traceContext)).toEqual({
      traceparent: `00-${traceId}-${spanId}-01`,
      tracestate: 'vendor=1',
      baggage: 'tenant=one',
    });
  });

  it.each([
    ['no headers', {}],
    ['a short id', { traceparent: '00-abc-b7ad6b7169203331-01' }],
    ['an id of zeros', { traceparent: `00-${'0'.repeat(32)}-b7ad6b7169203331-01` }],
    ['a version that is forbidden', { traceparent: `ff-${traceId}-b7ad6b7169203331-01` }],
    ['what is no text', { traceparent: 42, tracestate: null, baggage: {} }],
    ['no value in a list', { traceparent: [] }],
  ])('malformed headers give a new root: %s', (_what, carrier) => {
    expect(contextFromCarrier(carrier)).toBe(ROOT_CONTEXT);
    const { span } = startChildSpan(turnTracing({}, ids), 'agent.execute', {}, contextFromCarrier(carrier));
    span.end();
    expect(span.spanContext().traceId).not.toBe(traceId);
    expect(trace.isSpanContextValid(span.spanContext())).toBe(true);
  });

  it('never throws, whatever the headers hold', () => {
    const id = (length: number) => {
      const digits = fc.array(fc.constantFrom(...'0123456789abcdef'), { minLength: length, maxLength: length });
      return fc.oneof(
        digits.map((each) => each.join('')),
        fc.constant('0'.repeat(length)),
        fc.constant('abc'),
      );
    };
    const likely = fc
      .tuple(fc.constantFrom('00', '01', 'ff', '0'), id(32), id(16), id(2))
      .map((parts) => parts.join('-'));
    const value = fc.oneof(fc.string(), fc.array(fc.string()), fc.anything());
    const valid = /^(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-[0-9a-f]{2}$/;
    let followed = 0;
    fc.assert(
      fc.property(fc.record({ traceparent: likely, tracestate: value, baggage: value }), (carrier) => {
        const [, ofTrace, ofSpan] = valid.exec(carrier.traceparent) ?? [];
        const found = trace.getSpanContext(contextFromCarrier(carrier));
        expect([found?.traceId, found?.spanId]).toEqual([ofTrace, ofSpan]);
        if (found) followed++;
      }),
      { examples: [[{ traceparent, tracestate: 7, baggage: [] }]] },
    );
    expect(followed).toBeGreaterThan(0);
    fc.assert(
      fc.property(fc.record({ traceparent: value, tracestate: value, baggage: value }), (carrier) => {
        expect(trace.getSpanContext(contextFromCarrier(carrier))).toBeUndefined();
      }),
    );
  });
});
