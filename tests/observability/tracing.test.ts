import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { context, propagation, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { ExportResultCode } from '@opentelemetry/core';
import { InMemorySpanExporter, type SpanExporter } from '@opentelemetry/sdk-trace-node';
import { AgentLoopError } from 'millrace';
import { startChildSpan, turnTracing } from 'millrace/internals';
import { type FinishedSpan, type StartTracingOptions, spanOutline, startTracing, type Tracing } from 'millrace/otel';
import { openResources } from 'millrace/testing';
import { type OtlpReceiver, startOtlpReceiver } from '../otlp-receiver.ts';
import { ids, turnOutline, writeTurnSpans } from './turn-spans.ts';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
let tracing: Tracing | undefined;
let receiver: OtlpReceiver | undefined;
const environment = Object.entries(process.env).filter(([name]) => name.startsWith('OTEL_'));

function start(options: StartTracingOptions = {}): Tracing {
  tracing = startTracing({ flushOnSignals: [], ...options });
  return tracing;
}

async function startWithReceiver(options: StartTracingOptions = {}, answers: readonly (number | 'never')[] = []) {
  receiver = await startOtlpReceiver({ answers });
  return { receiver, tracing: start({ endpoint: receiver.url, ...options }) };
}

function writeSpan(name: string): void {
  startChildSpan(turnTracing({}, ids), name, {}, ROOT_CONTEXT).span.end();
}

let ledger = openResources();

beforeEach(() => {
  ledger = openResources();
});
function clearEnvironment(): void {
  for (const name of Object.keys(process.env)) if (name.startsWith('OTEL_')) delete process.env[name];
}

beforeEach(clearEnvironment);
afterEach(async () => {
  await tracing?.shutdown();
  await receiver?.close();
  tracing = undefined;
  receiver = undefined;
  clearEnvironment();
  for (const [name, value] of environment) process.env[name] = value;
  await ledger.assertNone({ withinMs: 60_000 });
});

describe('over the wire', () => {
  it('S1-15 a completed turn arrives as one tree, with kinds, ids, resource and times', async () => {
    const { receiver, tracing } = await startWithReceiver({ serviceName: 'turns' });
    writeTurnSpans(turnTracing({}, ids), 'completed');
    expect(await tracing.flush()).toEqual({ started: 8, ended: 8, exported: 8 });
    expect(spanOutline(receiver.spans)).toBe(turnOutline);
    expect(new Set(receiver.spans.map((span) => span.traceId)).size).toBe(1);
    for (const span of receiver.spans) {
      expect(span.scope).toBe('millrace');
      expect(span.scopeVersion).toBe(version);
      expect(span.resource).toMatchObject({ 'service.name': 'turns', 'telemetry.sdk.language': 'nodejs' });
      expect(span.attributes).toMatchObject({ 'millrace.task.id': 'task-1', 'gen_ai.conversation.id': 'context-1' });
      expect(span.kind).toBe(span.name === 'llm.call' ? 'client' : 'internal');
      // Milliseconds since 1970, to some days.
      expect(span.startMs / Date.now()).toBeCloseTo(1, 3);
      expect(span.endMs).toBeGreaterThanOrEqual(span.startMs);
    }
    const [request] = receiver.requests;
    expect(request).toMatchObject({ path: '/v1/traces', headers: { 'content-type': 'application/x-protobuf' } });
  });

  it('S1-86 a failed turn arrives with status ERROR, error.type and an exception on each level', async () => {
    const { receiver, tracing } = await startWithReceiver();
    writeTurnSpans(turnTracing({}, ids), new AgentLoopError('PROVIDER_SERVER', 'the model answered 500'));
    await tracing.flush();
    const failed = receiver.spans.filter((span) => span.status.code === 'error');
    expect(failed.map((span) => span.name).sort()).toEqual(
      ['agent.execute', 'iteration[2]', 'llm.call', 'tool[calculate]'].sort(),
    );
    for (const span of failed) {
      const [code, message] =
        span.name === 'tool[calculate]'
          ? ['TOOL_FAILED', 'no such unit']
          : ['PROVIDER_SERVER', 'the model answered 500'];
      expect(span.status).toEqual({ code: 'error', message });
      expect(span.attributes).toMatchObject({ 'error.type': code });
      expect(span.events).toMatchObject([{ name: 'exception', attributes: { 'exception.message': message } }]);
    }
  });

  it('a cancelled turn arrives with status unset and its outcome', async () => {
    const { receiver, tracing } = await startWithReceiver();
    writeTurnSpans(turnTracing({}, ids), 'canceled');
    await tracing.flush();
    const canceled = receiver.spans.filter((span) => span.attributes['millrace.outcome'] === 'canceled');
    expect(canceled.map((span) => span.name).sort()).toEqual(['agent.execute', 'iteration[2]', 'llm.call']);
    for (const span of canceled) expect(span.status).toEqual({ code: 'unset' });
  });

  it('loses nothing of a burst of 10,000 spans that end in one tick', async () => {
    // The queue is what is tried here, not how fast the machine is.
    process.env['OTEL_EXPORTER_OTLP_TIMEOUT'] = '60000';
    const { receiver, tracing } = await startWithReceiver({ shutdownTimeoutMs: 60_000 });
    const turn = turnTracing({}, ids);
    for (let index = 0; index < 10_000; index++) startChildSpan(turn, `span ${index}`, {}, ROOT_CONTEXT).span.end();
    expect(await tracing.flush()).toEqual({ started: 10_000, ended: 10_000, exported: 10_000 });
    expect(new Set(receiver.spans.map((span) => span.name)).size).toBe(10_000);
  });

  it('flush waits for an export that was under way', async () => {
    process.env['OTEL_BSP_MAX_EXPORT_BATCH_SIZE'] = '1';
    const { receiver, tracing } = await startWithReceiver();
    writeSpan('exported at once');
    expect((await tracing.flush()).exported).toBe(1);
    expect(receiver.spans).toHaveLength(1);
  });

  it('sends gzip and keys where the environment says so', async () => {
    process.env['OTEL_EXPORTER_OTLP_COMPRESSION'] = 'gzip';
    process.env['OTEL_EXPORTER_OTLP_HEADERS'] = 'x-tenant=one,authorization=Bearer%20old';
    const { receiver, tracing } = await startWithReceiver({ headers: { authorization: 'Bearer new' } });
    writeTurnSpans(turnTracing({}, ids), 'completed');
    await tracing.flush();
    expect(spanOutline(receiver.spans)).toBe(turnOutline);
    expect(receiver.requests[0]?.headers).toMatchObject({
      'content-encoding': 'gzip',
      'x-tenant': 'one',
      authorization: 'Bearer new',
    });
  });

  it('tries again where the collector was busy', async () => {
    const { receiver, tracing } = await startWithReceiver({}, [503, 429]);
    writeSpan('third try');
    expect((await tracing.shutdown()).exported).toBe(1);
    expect(receiver.requests.map((request) => request.answer)).toEqual([503, 429, 200]);
  });
});

describe('the environment', () => {
  it('names the endpoint, the service and its attributes', async () => {
    receiver = await startOtlpReceiver();
    process.env['OTEL_EXPORTER_OTLP_ENDPOINT'] = receiver.url;
    process.env['OTEL_SERVICE_NAME'] = 'from-environment';
    process.env['OTEL_RESOURCE_ATTRIBUTES'] = 'deployment.environment.name=test,service.name=overridden';
    expect(start().endpoint).toBe(`${receiver.url}/v1/traces`);
    writeSpan('one');
    await tracing?.flush();
    expect(receiver.spans[0]?.resource).toMatchObject({
      'service.name': 'from-environment',
      'deployment.environment.name': 'test',
    });
  });

  it('samples', async () => {
    process.env['OTEL_TRACES_SAMPLER'] = 'always_off';
    const { receiver, tracing } = await startWithReceiver();
    writeSpan('not sampled');
    expect(await tracing.flush()).toEqual({ started: 0, ended: 0, exported: 0 });
    expect(receiver.requests).toEqual([]);
  });

  it('bounds the queue, and what is dropped shows in the report', async () => {
    process.env['OTEL_BSP_MAX_QUEUE_SIZE'] = '10';
    process.env['OTEL_BSP_MAX_EXPORT_BATCH_SIZE'] = '10';
    const { tracing } = await startWithReceiver();
    for (let index = 0; index < 50; index++) writeSpan('one of many');
    const report = await tracing.shutdown();
    expect(report.ended).toBe(50);
    expect(report.exported).toBe(20);
  });

  it('turns all of it off', async () => {
    process.env['OTEL_SDK_DISABLED'] = 'true';
    const { receiver, tracing } = await startWithReceiver();
    writeSpan('nowhere');
    expect(tracing.provider).toBeUndefined();
    expect(tracing.endpoint).toBeUndefined();
    expect(await tracing.shutdown()).toEqual({ started: 0, ended: 0, exported: 0 });
    expect(receiver.requests).toEqual([]);
  });

  it('turns the export off and leaves listeners', async () => {
    process.env['OTEL_TRACES_EXPORTER'] = 'none';
    const heard: FinishedSpan[] = [];
    start({ onSpanEnd: (span) => heard.push(span) });
    writeSpan('heard');
    expect(tracing?.endpoint).toBeUndefined();
    expect(heard.map((span) => span.name)).toEqual(['heard']);
  });

  it('chooses the propagators', async () => {
    process.env['OTEL_PROPAGATORS'] = 'baggage';
    start({ exporter: 'none' });
    expect(propagation.fields()).toEqual(['baggage']);
    await tracing?.shutdown();
    delete process.env['OTEL_PROPAGATORS'];
    start({ exporter: 'none' });
    expect(propagation.fields()).toEqual(['traceparent', 'tracestate', 'baggage']);
  });

  it.each([
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc'],
    ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'http/json'],
    ['OTEL_TRACES_EXPORTER', 'zipkin'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'localhost:4317'],
  ])('is refused with a sentence where %s is %s, and leaves nothing registered', (name, value) => {
    process.env[name] = value;
    expect(() => start()).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringContaining('OTEL_') }),
    );
    delete process.env[name];
    expect(start({ exporter: 'none' }).provider).toBeDefined();
  });
});

describe('start', () => {
  it('is refused while tracing runs, and works again after shutdown', async () => {
    start({ exporter: 'none' });
    expect(() => startTracing()).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
    await tracing?.shutdown();
    const exporter = new InMemorySpanExporter();
    start({ exporter });
    writeSpan('again');
    await tracing?.flush();
    expect(exporter.getFinishedSpans().map((span) => span.name)).toEqual(['again']);
  });

  it('is refused where another SDK is registered, whose provider stays', () => {
    const { tracer } = turnTracing({ enableTracing: false }, ids);
    const other = { getTracer: () => tracer };
    trace.setGlobalTracerProvider(other);
    expect(() => startTracing()).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
    expect(trace.getTracer('any')).toBe(tracer);
    trace.disable();
  });

  it('registers a context manager, below which instrumentations nest, and takes it away again', async () => {
    start({ exporter: 'none' });
    const { span, traceContext } = startChildSpan(turnTracing({}, ids), 'tool', {}, ROOT_CONTEXT);
    const seen = await context.with(traceContext, async () => {
      await Promise.resolve();
      return trace.getActiveSpan();
    });
    expect(seen).toBe(span);
    span.end();
    await tracing?.shutdown();
    expect(context.with(traceContext, () => context.active())).toBe(ROOT_CONTEXT);
  });

  it('tells the listener of each span as it ends, and survives its errors', async () => {
    const heard: FinishedSpan[] = [];
    start({
      exporter: 'none',
      onSpanEnd: (span) => {
        heard.push(span);
        throw new Error('listener');
      },
    });
    writeTurnSpans(turnTracing({}, ids), 'completed');
    expect(spanOutline(heard)).toBe(turnOutline);
    expect(heard.find((span) => span.name === 'tool[calculate]')?.status).toEqual({
      code: 'error',
      message: 'no such unit',
    });
  });
});

describe('shutdown', () => {
  it('is done once, and unregisters', async () => {
    const { tracing } = await startWithReceiver();
    writeSpan('one');
    const first = tracing.shutdown();
    expect(tracing.shutdown()).toBe(first);
    expect(await first).toEqual({ started: 1, ended: 1, exported: 1 });
    writeSpan('too late');
    expect(tracing.report().started).toBe(1);
  });

  it('resolves where nobody listens, says why, and holds nothing', async () => {
    const closed = await closedPort();
    start({ endpoint: `http://127.0.0.1:${closed}` });
    writeSpan('lost');
    const report = await tracing?.shutdown();
    expect(report).toMatchObject({ ended: 1, exported: 0, lastError: expect.stringContaining('ECONNREFUSED') });
    expect(await ledger.settle({ withinMs: 60_000 })).toEqual({});
  });

  it('resolves within its time where the collector never answers', async () => {
    process.env['OTEL_EXPORTER_OTLP_TIMEOUT'] = '10000';
    const { tracing } = await startWithReceiver({ shutdownTimeoutMs: 20 }, ['never']);
    writeSpan('lost');
    expect(await tracing.shutdown()).toMatchObject({ ended: 1, exported: 0 });
    // The export, which has more time, has not ended yet.
    expect(ledger.left()['TCPSocketWrap']).toBeGreaterThan(0);
  });

  it('never rejects, whatever an exporter does', async () => {
    const exporter: SpanExporter = {
      export() {
        throw new Error('export threw');
      },
      forceFlush: () => Promise.reject(new Error('flush rejected')),
      shutdown: () => Promise.reject(new Error('shutdown rejected')),
    };
    start({ exporter });
    writeSpan('lost');
    expect(await tracing?.flush()).toEqual({ started: 1, ended: 1, exported: 0, lastError: 'export threw' });
    expect(await tracing?.shutdown()).toMatchObject({ exported: 0 });
  });

  it("counts what a custom exporter took, and keeps an exporter's reason", async () => {
    const results = [{ code: ExportResultCode.SUCCESS }, { code: ExportResultCode.FAILED }];
    start({
      exporter: {
        export: (_spans, done) => done(results.shift() ?? results[0] ?? { code: 1 }),
        shutdown: async () => {},
      },
    });
    writeSpan('taken');
    await tracing?.flush();
    writeSpan('refused');
    expect(await tracing?.flush()).toEqual({
      started: 2,
      ended: 2,
      exported: 1,
      lastError: 'the exporter gave no reason',
    });
  });
});

/** A port of loopback on which nobody listens. */
function closedPort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}
