import { createServer, type IncomingHttpHeaders } from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createNoopMeter, metrics } from '@opentelemetry/api';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  AgentLoopError,
  agent,
  composePolicies,
  InMemoryStateStore,
  type LLMChunk,
  type LLMProvider,
  type LLMResponse,
  LocalToolProvider,
  limitConcurrency,
  retry,
  tool,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { startMetrics } from 'millrace/otel';
import { recordSpans, type SpanRecorder, scriptedLLM } from 'millrace/testing';
import { concat, of, throwError } from 'rxjs';

const messages = [{ role: 'user' as const, content: 'Hi' }];
const usage = { promptTokens: 30, completionTokens: 4, totalTokens: 34 };
const answer: LLMResponse = { message: { role: 'assistant', content: 'Done.' }, usage, model: 'm-1-large' };
const tools = new LocalToolProvider([
  tool({ name: 'good', description: 'g', parameters: { type: 'object' }, execute: () => 'fine' }),
  tool({
    name: 'bad',
    description: 'b',
    parameters: { type: 'object' },
    execute: () => {
      throw new RangeError('no');
    },
  }),
]);

function calling(...names: readonly string[]): LLMResponse {
  const toolCalls = names.map((name, index) => ({
    id: `c${index}`,
    type: 'function' as const,
    function: { name, arguments: '{}' },
  }));
  return { message: { role: 'assistant', content: null, toolCalls }, usage };
}

let reader: PeriodicExportingMetricReader;
let provider: MeterProvider;

beforeEach(() => {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  provider = new MeterProvider({ readers: [reader] });
  metrics.setGlobalMeterProvider(provider);
});

afterEach(async () => {
  metrics.disable();
  await provider.shutdown();
});

/** The points of a metric: their attributes, with the count and the sum of a histogram, or the value of a sum. */
async function pointsOf(name: string): Promise<readonly object[]> {
  const { resourceMetrics } = await reader.collect();
  const all: MetricData[] = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics);
  const found = all.find(({ descriptor }) => descriptor.name === name);
  return (found?.dataPoints ?? []).map(({ attributes, value }) =>
    typeof value === 'object' ? { ...attributes, count: value.count, sum: value.sum } : { ...attributes, value },
  );
}

const info = { providerName: 'test', model: 'm-1', serverAddress: 'h', serverPort: 9 };
const ofModel = {
  'gen_ai.operation.name': 'chat',
  'gen_ai.provider.name': 'test',
  'gen_ai.request.model': 'm-1',
  'server.address': 'h',
  'server.port': 9,
};

function script(...responses: readonly LLMResponse[]): LLMProvider {
  const left = [...responses];
  return { info, call: async () => left.shift() ?? answer };
}

describe.each([
  ['without a tracer', false],
  ['with a tracer', true],
])('a turn that is measured, %s', (_, traced) => {
  let recorder: SpanRecorder | undefined;

  beforeEach(() => {
    recorder = traced ? recordSpans() : undefined;
  });

  afterEach(() => recorder?.dispose());

  it('counts no tokens of a request whose vendor reports none', async () => {
    const cut = scriptedLLM([{ text: 'Half an ans', error: new Error('cable cut') }]);
    const turn = new AgentLoop({ agentId: 'a', llmProvider: cut }).startTurn(messages);
    await expect(turn.result()).rejects.toMatchObject({ result: { usage: { totalTokens: 0 } } });
    expect(await pointsOf('gen_ai.client.operation.duration')).toHaveLength(1);
    expect(await pointsOf('gen_ai.client.token.usage')).toEqual([]);
  });

  it('counts its requests, their tokens, its tools and itself', async () => {
    const bot = agent({ name: 'bot', provider: script(calling('good', 'bad')), toolProviders: [tools] });
    await bot.run('Hi');
    const answered = { ...ofModel, 'gen_ai.response.model': 'm-1-large' };
    expect(await pointsOf('gen_ai.client.operation.duration')).toEqual([
      { ...ofModel, count: 1, sum: expect.any(Number) },
      { ...answered, count: 1, sum: expect.any(Number) },
    ]);
    expect(await pointsOf('gen_ai.client.token.usage')).toEqual([
      { ...ofModel, 'gen_ai.token.type': 'input', count: 1, sum: 30 },
      { ...ofModel, 'gen_ai.token.type': 'output', count: 1, sum: 4 },
      { ...answered, 'gen_ai.token.type': 'input', count: 1, sum: 30 },
      { ...answered, 'gen_ai.token.type': 'output', count: 1, sum: 4 },
    ]);
    const ofTool = { 'gen_ai.operation.name': 'execute_tool', count: 1, sum: expect.any(Number) };
    expect(await pointsOf('gen_ai.execute_tool.duration')).toEqual([
      { ...ofTool, 'gen_ai.tool.name': 'good' },
      { ...ofTool, 'gen_ai.tool.name': 'bad', 'error.type': 'TOOL_FAILED' },
    ]);
    expect(await pointsOf('gen_ai.invoke_agent.duration')).toEqual([
      { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'bot', count: 1, sum: expect.any(Number) },
    ]);
    expect(await pointsOf('millrace.turns.live')).toEqual([{ value: 0 }]);
    expect(
      recorder
        ?.tree()
        .split('\n')
        .map((line) => line.trimEnd()),
    ).toEqual(
      traced
        ? [
            'agent.turn',
            '  agent.execute',
            '    hook[conversation.beforeTurn]',
            '    iteration[1]',
            '      llm.call',
            '      tools.execute',
            '        tool[good]',
            '        tool[bad]',
            '    iteration[2]',
            '      llm.call',
            '    hook[conversation.afterEnd]',
          ]
        : undefined,
    );
  });

  it('counts each try of a request, and why it failed', async () => {
    let calls = 0;
    const busy: LLMProvider = {
      info,
      call: async () => {
        if (++calls === 1)
          throw new AgentLoopError('PROVIDER_RATE_LIMIT', 'Busy.', { retryable: true, retryAfterMs: 1 });
        return answer;
      },
    };
    await new AgentLoop({ agentId: 'a', llmProvider: retry()(busy) }).startTurn(messages).result();
    expect(await pointsOf('gen_ai.client.operation.duration')).toEqual([
      { ...ofModel, 'error.type': 'PROVIDER_RATE_LIMIT', count: 1, sum: expect.any(Number) },
      { ...ofModel, 'gen_ai.response.model': 'm-1-large', count: 1, sum: expect.any(Number) },
    ]);
  });

  it('counts a request that was left as cancelled, and the turn as live until then', async () => {
    const silent: LLMProvider = { info, call: () => new Promise(() => {}) };
    const turn = new AgentLoop({ agentId: 'a', llmProvider: silent }).startTurn(messages);
    const started = new Promise<void>((resolve) =>
      turn.subscribe((event) => event.kind === 'internal:llm-call' && resolve()),
    );
    await started;
    expect(await pointsOf('millrace.turns.live')).toEqual([{ value: 1 }]);
    void turn.cancel('enough');
    await turn.settled;
    expect(await pointsOf('millrace.turns.live')).toEqual([{ value: 0 }]);
    expect(await pointsOf('gen_ai.client.operation.duration')).toEqual([
      { ...ofModel, 'millrace.outcome': 'canceled', count: 1, sum: expect.any(Number) },
    ]);
  });
});

describe('P-19 the names of the conventions', () => {
  const cached = { ...usage, cachedTokens: 20, cacheWriteTokens: 5, reasoningTokens: 2 };

  /** The names that a turn with a tool leaves, but for those of Millrace. */
  async function namesOf(): Promise<readonly string[]> {
    const provider = script(calling('good'), { ...answer, usage: cached });
    await agent({ name: 'bot', provider, toolProviders: [tools] }).run('Hi');
    await new AgentLoop({ agentId: 'a', llmProvider: scriptedLLM([{ text: 'Hello.' }]) }).startTurn(messages).result();
    const { resourceMetrics } = await reader.collect();
    const all = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics.map(({ descriptor }) => descriptor.name));
    return all.filter((name) => name.startsWith('gen_ai.')).sort();
  }

  it('are those of 1.41.0', async () => {
    expect(await namesOf()).toEqual([
      'gen_ai.client.operation.duration',
      'gen_ai.client.operation.time_to_first_chunk',
      'gen_ai.client.token.usage',
      'gen_ai.execute_tool.duration',
      'gen_ai.invoke_agent.duration',
    ]);
  });

  it('are the later ones on request, and none of those that count the same', async () => {
    process.env['OTEL_SEMCONV_STABILITY_OPT_IN'] = 'gen_ai_latest_experimental';
    try {
      expect(await namesOf()).toEqual([
        'gen_ai.client.inference.duration',
        'gen_ai.client.inference.time_to_first_chunk',
        'gen_ai.client.inference.usage.cache_read.input_tokens',
        'gen_ai.client.inference.usage.cache_write.input_tokens',
        'gen_ai.client.inference.usage.input_tokens',
        'gen_ai.client.inference.usage.output_tokens',
        'gen_ai.client.inference.usage.reasoning.output_tokens',
        'gen_ai.execute_tool.duration',
        'gen_ai.invoke_agent.duration',
        'gen_ai.invoke_agent.inference_calls',
        'gen_ai.invoke_agent.tool_calls',
      ]);
      expect(await pointsOf('gen_ai.client.inference.usage.input_tokens')).toContainEqual(
        expect.objectContaining({ ...ofModel, value: 30 }),
      );
      expect(await pointsOf('gen_ai.invoke_agent.inference_calls')).toMatchObject([{ count: 1, sum: 2 }]);
      expect(await pointsOf('gen_ai.invoke_agent.tool_calls')).toMatchObject([{ count: 1, sum: 1 }]);
    } finally {
      delete process.env['OTEL_SEMCONV_STABILITY_OPT_IN'];
    }
  });
});

describe('what else is measured', () => {
  it('the first chunk of a stream', async () => {
    const llmProvider = scriptedLLM([{ text: 'Hello there.' }]);
    await new AgentLoop({ agentId: 'a', llmProvider }).startTurn(messages).result();
    expect(await pointsOf('gen_ai.client.operation.time_to_first_chunk')).toMatchObject([{ count: 1 }]);
  });

  describe.each([
    ['a provider', (llmProvider: LLMProvider) => llmProvider],
    ['a policy that retries', composePolicies(retry())],
  ])('R-36 the time from chunk to chunk, with the spans of %s', (_, policy) => {
    const chunk = (text: string): LLMChunk => ({ type: 'text', text });
    const streaming = (...chunks: readonly LLMChunk[]): LLMProvider =>
      policy({
        info,
        call: async () => answer,
        stream: () => of<LLMChunk[]>(...chunks, { type: 'done', response: answer }),
      });
    const name = 'gen_ai.client.operation.time_per_output_chunk';
    const run = (llmProvider: LLMProvider) => new AgentLoop({ agentId: 'a', llmProvider }).startTurn(messages).result();

    it('of each chunk after the first, with the attributes and boundaries of the conventions', async () => {
      await run(streaming(chunk('Hel'), chunk('lo '), chunk('there.')));
      expect(await pointsOf(name)).toEqual([
        { ...ofModel, 'gen_ai.response.model': 'm-1-large', count: 2, sum: expect.any(Number) },
      ]);
      const { resourceMetrics } = await reader.collect();
      const found = resourceMetrics.scopeMetrics
        .flatMap((scope) => scope.metrics)
        .find(({ descriptor }) => descriptor.name === name);
      expect(found?.descriptor.unit).toBe('s');
      expect(found?.dataPoints[0]?.value).toMatchObject({
        buckets: {
          boundaries: [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
        },
      });
    });

    it('of an answer that was cut or left', async () => {
      const cut = policy({
        info,
        call: async () => answer,
        stream: () =>
          concat(
            of(chunk('Half '), chunk('an ')),
            throwError(() => new Error('cable cut')),
          ),
      });
      await expect(run(cut)).rejects.toMatchObject({ code: 'PROVIDER_FAILED' });
      expect(await pointsOf(name)).toEqual([
        { ...ofModel, 'error.type': 'PROVIDER_FAILED', count: 1, sum: expect.any(Number) },
      ]);
    });

    it('of none without a second chunk, and of none that is no output', async () => {
      await run(streaming(chunk('Hello.')));
      await run(streaming({ type: 'attempt', state: 'begin' }, chunk('Hello.')));
      await run(policy(script()));
      expect(await pointsOf(name)).toEqual([]);
      expect(await pointsOf('gen_ai.client.operation.time_to_first_chunk')).toMatchObject([{ count: 2 }]);
    });
  });

  it('appends to the journal, and those of a process that lost its turn', async () => {
    const store = new InMemoryStateStore();
    const llmProvider = script(calling('good'));
    const config = { agentId: 'a', llmProvider, toolProviders: [tools], taskStateStore: store };
    await new AgentLoop(config).startTurn(messages).result();
    const [point] = await pointsOf('millrace.journal.append.duration');
    expect(point).toMatchObject({ count: expect.any(Number) });
    expect(await pointsOf('millrace.journal.fenced_appends')).toEqual([]);

    const fencing = new InMemoryStateStore();
    fencing.append = () => {
      throw new AgentLoopError('FENCED', 'Another process has the turn.');
    };
    const lost = new AgentLoop({ ...config, llmProvider: script(), taskStateStore: fencing }).startTurn(messages);
    await expect(lost.result()).rejects.toMatchObject({ code: 'FENCED' });
    expect(await pointsOf('millrace.journal.fenced_appends')).toEqual([{ value: 1 }]);
  });

  it('the time that calls wait for their place', async () => {
    const policy = composePolicies(limitConcurrency({ max: 1 }));
    const loop = new AgentLoop({ agentId: 'a', llmProvider: policy(script(answer, answer, answer)) });
    await Promise.all([1, 2, 3].map(() => loop.startTurn(messages).result()));
    expect(await pointsOf('millrace.queue.wait')).toEqual([
      { 'millrace.policy': 'limitConcurrency', count: 3, sum: expect.any(Number) },
    ]);
  });

  it('nothing with tracing turned off but what is asked for', async () => {
    const loop = new AgentLoop({ agentId: 'a', llmProvider: script(), enableTracing: false });
    await loop.startTurn(messages).result();
    expect(await pointsOf('gen_ai.client.operation.duration')).toHaveLength(1);
  });
});

describe('startMetrics', () => {
  const variables = Object.entries(process.env).filter(([name]) => name.startsWith('OTEL_'));
  const clearEnvironment = () => {
    for (const name of Object.keys(process.env)) if (name.startsWith('OTEL_')) delete process.env[name];
  };

  beforeEach(() => {
    metrics.disable();
    clearEnvironment();
  });
  afterEach(() => {
    clearEnvironment();
    Object.assign(process.env, Object.fromEntries(variables));
  });

  it('sends what turns measure to the collector, and leaves nothing behind', async () => {
    const received: { path: string | undefined; headers: IncomingHttpHeaders; body: string }[] = [];
    const collector = createServer(async (request, response) => {
      let body = '';
      for await (const piece of request) body += piece;
      received.push({ path: request.url, headers: request.headers, body });
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
    await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
    const address = collector.address();
    const endpoint = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
    const started = await startMetrics({ endpoint, serviceName: 'svc', headers: { 'x-key': 'k' } });
    expect(started.endpoint).toBe(`${endpoint}/v1/metrics`);
    await expect(startMetrics({ endpoint })).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    await new AgentLoop({ agentId: 'a', llmProvider: script() }).startTurn(messages).result();
    await started.flush();
    expect(received[0]).toMatchObject({ path: '/v1/metrics', headers: { 'x-key': 'k' } });
    expect(received[0]?.body).toContain('gen_ai.client.token.usage');
    expect(received[0]?.body).toContain('svc');
    await started.shutdown();
    expect(process.listeners('SIGTERM').map((listener) => listener.name)).not.toContain('onSignal');
    await (await startMetrics({ endpoint })).shutdown();
    collector.closeAllConnections();
    await new Promise((resolve) => collector.close(resolve));
  });

  it('holds nobody up where the collector is down', async () => {
    const started = await startMetrics({ endpoint: 'http://127.0.0.1:1', shutdownTimeoutMs: 200 });
    await new AgentLoop({ agentId: 'a', llmProvider: script() }).startTurn(messages).result();
    await started.shutdown();
  });

  it('refuses an address that is none', async () => {
    await expect(startMetrics({ endpoint: 'nowhere' })).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
  });

  it('that is called twice at once starts one, which stays registered', async () => {
    process.env['OTEL_METRICS_EXPORTER'] = 'none';
    const first = startMetrics();
    await expect(startMetrics()).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    const started = await first;
    expect(metrics.getMeterProvider()).toBe(started.provider);
    await started.shutdown();
  });

  it('is turned off by the environment, and may be started again then', async () => {
    process.env['OTEL_SDK_DISABLED'] = 'true';
    const off = await startMetrics();
    expect([off.provider, off.endpoint]).toEqual([undefined, undefined]);
    expect(metrics.getMeterProvider().getMeter('millrace')).toBe(createNoopMeter());
    await off.shutdown();
    delete process.env['OTEL_SDK_DISABLED'];
    process.env['OTEL_METRICS_EXPORTER'] = 'none';
    const silent = await startMetrics();
    expect(silent.endpoint).toBeUndefined();
    expect(metrics.getMeterProvider()).toBe(silent.provider);
    await silent.shutdown();
  });

  it.each([
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc'],
    ['OTEL_EXPORTER_OTLP_METRICS_PROTOCOL', 'http/json'],
    ['OTEL_METRICS_EXPORTER', 'prometheus'],
    ['OTEL_EXPORTER_OTLP_METRICS_ENDPOINT', 'localhost:4317'],
  ])('is refused with a sentence where %s is %s, and leaves nothing registered', async (name, value) => {
    process.env[name] = value;
    const message = expect.stringContaining(name);
    await expect(startMetrics()).rejects.toMatchObject({ code: 'INVALID_CONFIG', message });
    expect(metrics.getMeterProvider().getMeter('millrace')).toBe(createNoopMeter());
  });
});
