import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { startTracing, type Tracing } from 'millrace/otel';
import { openResources } from 'millrace/testing';
import { type OtlpReceiver, startOtlpReceiver } from './otlp-receiver.ts';

let ledger = openResources();

beforeEach(() => {
  ledger = openResources();
});
let receiver: OtlpReceiver;
let tracing: Tracing;

beforeEach(async () => {
  receiver = await startOtlpReceiver();
  tracing = startTracing({ endpoint: receiver.url, flushOnSignals: [], serviceName: 'sender' });
});
afterEach(async () => {
  await tracing.shutdown();
  await receiver.close();
  await ledger.assertNone();
});

function post(path: string, body: Uint8Array<ArrayBuffer>): Promise<Response> {
  return fetch(receiver.url + path, { method: 'POST', body });
}

describe('the OTLP receiver', () => {
  it('decodes every kind of value that the real exporter sends', async () => {
    const link = {
      context: { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 },
    };
    const attributes = {
      text: 'zwölf ✓',
      true: true,
      false: false,
      integer: 42,
      negative: -7,
      large: Number.MAX_SAFE_INTEGER,
      real: 0.25,
      empty: '',
      texts: ['a', 'b'],
      numbers: [1, 2.5],
    };
    const tracer = tracing.provider?.getTracer('by hand');
    const startTime = new Date('2026-01-02T03:04:05.678Z');
    const span = tracer?.startSpan('odd', { attributes, kind: SpanKind.PRODUCER, links: [link], startTime });
    span?.addEvent('seen', { at: 1 });
    span?.setStatus({ code: SpanStatusCode.OK });
    span?.end(new Date('2026-01-02T03:04:06.678Z'));
    await tracing.flush();
    expect(receiver.spans).toEqual([
      {
        traceId: span?.spanContext().traceId,
        spanId: span?.spanContext().spanId,
        name: 'odd',
        kind: 'producer',
        startMs: startTime.getTime(),
        endMs: startTime.getTime() + 1_000,
        attributes,
        events: [{ name: 'seen', attributes: { at: 1 } }],
        links: [{ traceId: link.context.traceId, spanId: link.context.spanId }],
        status: { code: 'ok' },
        resource: expect.objectContaining({ 'service.name': 'sender' }),
        scope: 'by hand',
        scopeVersion: '',
      },
    ]);
  });

  it('resolves a wait when the spans arrive', async () => {
    const arrived = receiver.waitUntil(({ spans }) => spans.some((span) => span.name === 'awaited'));
    tracing.provider?.getTracer('by hand').startSpan('awaited').end();
    await tracing.flush();
    await arrived;
  });

  it('rejects a wait in vain and says what there is instead', async () => {
    tracing.provider?.getTracer('by hand').startSpan('another').end();
    await tracing.flush();
    await expect(receiver.waitUntil(({ spans }) => spans.length > 1, 20)).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringContaining('1 requests with 1 spans: another'),
    });
  });

  it('answers what is no trace with 400, and other addresses with 404', async () => {
    expect((await post('/v1/traces', Uint8Array.of(0x0a, 0x05))).status).toBe(400);
    expect((await post('/v1/metrics', new Uint8Array())).status).toBe(404);
    expect((await post('/v1/traces', new Uint8Array())).status).toBe(200);
    expect(receiver.spans).toEqual([]);
  });

  it('answers as it is told, and keeps nothing of what it refuses', async () => {
    await receiver.close();
    receiver = await startOtlpReceiver({ answers: [429] });
    expect((await post('/v1/traces', new Uint8Array())).headers.get('retry-after')).toBe('0');
    expect((await post('/v1/traces', new Uint8Array())).status).toBe(200);
    expect(receiver.requests.map(({ answer }) => answer)).toEqual([429, 200]);
  });
});
