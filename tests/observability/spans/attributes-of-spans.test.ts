import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import type { LLMCallParams } from 'millrace';
import {
  finishExecuteSpan,
  finishLlmSpan,
  finishToolSpan,
  finishTurnSpan,
  startExecuteSpan,
  startLlmSpan,
  startLoopIterationSpan,
  startToolSpan,
  startToolsSpan,
  startTurnSpan,
  turnTracing,
  usageOnSpan,
} from 'millrace/internals';
import { recordSpans, type SpanRecorder } from 'millrace/testing';
import { answer, ids, info, toolCall, usage } from '../turn-spans.ts';

const common = {
  'gen_ai.conversation.id': 'context-1',
  'session.id': 'context-1',
  'millrace.task.id': 'task-1',
  'millrace.agent.id': 'agent-1',
};

let recorder: SpanRecorder;
beforeEach(() => {
  recorder = recordSpans();
});
afterEach(() => recorder.dispose());

/** All the attributes of the span beyond the common ones, which have to be there. */
function ended(span: Span): Readonly<Record<string, unknown>> {
  span.end();
  const attributes = { ...recorder.spans().at(-1)?.attributes };
  for (const [name, value] of Object.entries(common)) {
    expect(attributes[name]).toBe(value);
    delete attributes[name];
  }
  return attributes;
}

describe('agent.turn', () => {
  const input = {
    agentName: 'Weather',
    description: 'Knows the weather.',
    messages: [{ role: 'user', content: 'Rain?' }],
  } as const;
  const result = { outcome: 'completed', iterations: 2, toolCalls: 1, usage, messages: [answer.message] };
  const attributes = {
    'openinference.span.kind': 'AGENT',
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.agent.name': 'Weather',
    'gen_ai.agent.description': 'Knows the weather.',
    'gen_ai.provider.name': '_OTHER',
    'millrace.outcome': 'completed',
    'millrace.iterations': 2,
    'millrace.tool_calls': 1,
    'millrace.usage.input_tokens': 12,
    'millrace.usage.output_tokens': 3,
    'millrace.usage.total_tokens': 15,
  };

  it('carries the agent, outcome, counts and usage', () => {
    const tracing = turnTracing({ captureContent: false }, ids);
    const { span } = startTurnSpan(tracing, input, ROOT_CONTEXT);
    finishTurnSpan(tracing, span, result);
    expect(ended(span)).toEqual(attributes);
    expect(recorder.spans()[0]?.name).toBe('agent.turn');
  });

  it("has the turn's messages where content is captured", () => {
    const tracing = turnTracing({ captureContent: true, spanNames: 'semconv' }, ids);
    const { span } = startTurnSpan(tracing, input, ROOT_CONTEXT);
    finishTurnSpan(tracing, span, result);
    expect(ended(span)).toEqual({
      ...attributes,
      'gen_ai.input.messages': '[{"role":"user","parts":[{"type":"text","content":"Rain?"}]}]',
      'gen_ai.output.messages':
        '[{"role":"assistant","parts":[{"type":"text","content":"It rains."}],"finish_reason":"stop"}]',
      'input.value': 'Rain?',
      'output.value': 'It rains.',
    });
    expect(recorder.spans()[0]?.name).toBe('invoke_agent Weather');
  });
});

describe('the conventions', () => {
  it('R-36 give the turn the provider, and each response its finish reason and its arguments as an object', () => {
    const tracing = turnTracing({ captureContent: true }, ids);
    const { span } = startTurnSpan(tracing, { agentName: 'Weather', messages: [], provider: info }, ROOT_CONTEXT);
    const asking = { role: 'assistant', content: null, toolCalls: [toolCall('weather')] } as const;
    const told = { role: 'tool', toolCallId: 'call-weather', content: 'rain' } as const;
    const messages = [asking, told, answer.message];
    finishTurnSpan(tracing, span, { outcome: 'completed', iterations: 2, toolCalls: 1, usage, messages });
    const attributes = ended(span);
    expect(attributes['gen_ai.provider.name']).toBe('openai');
    expect(JSON.parse(String(attributes['gen_ai.output.messages']))).toEqual([
      {
        role: 'assistant',
        parts: [{ type: 'tool_call', id: 'call-weather', name: 'weather', arguments: {} }],
        finish_reason: 'tool_call',
      },
      { role: 'assistant', parts: [{ type: 'text', content: 'It rains.' }], finish_reason: 'stop' },
    ]);
  });

  it('R-36 have the URL of their schema on the tracer, unless later names are requested', () => {
    const schemaOf = () => {
      startToolsSpan(turnTracing({}, ids), ROOT_CONTEXT).span.end();
      return recorder.spans().at(-1)?.instrumentationScope.schemaUrl;
    };
    expect(schemaOf()).toBe('https://opentelemetry.io/schemas/1.41.0');
    process.env['OTEL_SEMCONV_STABILITY_OPT_IN'] = 'gen_ai_latest_experimental';
    try {
      expect(schemaOf()).toBeUndefined();
    } finally {
      delete process.env['OTEL_SEMCONV_STABILITY_OPT_IN'];
    }
  });

  it('R-36 have no result of a failed call, also where content is captured', () => {
    const tracing = turnTracing({ captureContent: true }, ids);
    const call = { callId: '1:0', call: toolCall('weather'), intent: { attempt: 1, arguments: {} } };
    const { span } = startToolSpan(tracing, call, ROOT_CONTEXT);
    const error = { code: 'TOOL_FAILED', message: 'no such city' };
    finishToolSpan(tracing, span, { content: 'no such city', success: false, error });
    const attributes = ended(span);
    expect(attributes).toMatchObject({ 'error.type': 'TOOL_FAILED', 'input.value': '{}' });
    expect(attributes).not.toHaveProperty('gen_ai.tool.call.result');
    expect(attributes).not.toHaveProperty('output.value');
  });

  it('R-36 leave a model call the input and the output that OpenInference shows', () => {
    const tracing = turnTracing({ captureContent: true }, ids);
    const params: LLMCallParams = { messages: [{ role: 'user', content: 'Rain?' }] };
    const { span } = startLlmSpan(tracing, { iteration: 1, params, info }, ROOT_CONTEXT);
    finishLlmSpan(tracing, span, { response: answer });
    const attributes = ended(span);
    expect(attributes['input.value']).toBe(attributes['gen_ai.input.messages']);
    expect(attributes['output.value']).toBe(attributes['gen_ai.output.messages']);
    expect(attributes).toMatchObject({ 'input.mime_type': 'application/json', 'output.mime_type': 'application/json' });
  });
});

describe('agent.execute', () => {
  it('S1-85 carries outcome, counts and usage, and links to the trace it goes on from', () => {
    const tracing = turnTracing({}, ids);
    const link = {
      context: { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 },
    };
    const input = { maxIterations: 7, resumed: true, links: [link], asked: () => [] };
    const { span } = startExecuteSpan(tracing, input, ROOT_CONTEXT);
    finishExecuteSpan(tracing, span, {
      outcome: 'completed',
      stopReason: 'stop',
      iterations: 2,
      toolCalls: 3,
      usage: { ...usage, cachedTokens: 4, reasoningTokens: 1, cost: 0.25, estimated: true },
      output: 'private',
    });
    expect(ended(span)).toEqual({
      'openinference.span.kind': 'CHAIN',
      'millrace.max_iterations': 7,
      'millrace.resumed': true,
      'millrace.outcome': 'completed',
      'millrace.stop_reason': 'stop',
      'millrace.iterations': 2,
      'millrace.tool_calls': 3,
      'millrace.usage.input_tokens': 12,
      'millrace.usage.output_tokens': 3,
      'millrace.usage.total_tokens': 15,
      'millrace.usage.cached_tokens': 4,
      'millrace.usage.reasoning_tokens': 1,
      'millrace.usage.cost_usd': 0.25,
      'millrace.usage.estimated': true,
    });
    expect(recorder.spans()[0]?.links.map(({ context }) => context)).toEqual([link.context]);
  });

  it('S1-85 has the output only where content is captured, redacted', () => {
    const tracing = turnTracing({ captureContent: true, redact: (text) => text.replace('4711', '****') }, ids);
    const asked = () => [{ role: 'user' as const, content: 'What is 4711?' }];
    const { span } = startExecuteSpan(tracing, { maxIterations: 1, resumed: false, asked }, ROOT_CONTEXT);
    const counts = { outcome: 'completed', stopReason: 'stop', iterations: 1, toolCalls: 0 };
    finishExecuteSpan(tracing, span, { ...counts, usage, output: 'the code is 4711' });
    expect(ended(span)).toMatchObject({ 'input.value': 'What is ****?', 'output.value': 'the code is ****' });
  });
});

it('iteration[n] and tools.execute carry nothing that a backend takes for a call', () => {
  const tracing = turnTracing({}, ids);
  expect(ended(startLoopIterationSpan(tracing, 3, ROOT_CONTEXT).span)).toEqual({
    'openinference.span.kind': 'CHAIN',
    'millrace.iteration': 3,
  });
  expect(ended(startToolsSpan(tracing, ROOT_CONTEXT).span)).toEqual({ 'openinference.span.kind': 'CHAIN' });
  expect(recorder.spans().map((span) => span.name)).toEqual(['iteration[3]', 'tools.execute']);
});

describe('llm.call', () => {
  const params: LLMCallParams = { messages: [{ role: 'user', content: 'private' }], temperature: 0.5, maxTokens: 100 };

  it('S1-44 carries the request, the response and its usage', () => {
    const tracing = turnTracing({}, ids);
    const { span } = startLlmSpan(tracing, { iteration: 2, params, info }, ROOT_CONTEXT);
    const response = { ...answer, id: 'response-1', model: 'gpt-test-0613' };
    const detailed = { ...usage, cachedTokens: 4, reasoningTokens: 2, cost: 0.5 };
    finishLlmSpan(tracing, span, { response: { ...response, usage: detailed }, timeToFirstChunkSeconds: 0.125 });
    expect(ended(span)).toEqual({
      'openinference.span.kind': 'LLM',
      'gen_ai.operation.name': 'chat',
      'millrace.iteration': 2,
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'gpt-test',
      'gen_ai.request.temperature': 0.5,
      'gen_ai.request.max_tokens': 100,
      'server.address': '127.0.0.1',
      'server.port': 4000,
      'gen_ai.response.id': 'response-1',
      'gen_ai.response.model': 'gpt-test-0613',
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.response.time_to_first_chunk': 0.125,
      'gen_ai.usage.input_tokens': 12,
      'gen_ai.usage.output_tokens': 3,
      'gen_ai.usage.cache_read.input_tokens': 4,
      'gen_ai.usage.reasoning.output_tokens': 2,
      'millrace.usage.cost_usd': 0.5,
    });
    expect(recorder.spans()[0]?.kind).toBe(SpanKind.CLIENT);
  });

  it('P-19 says what is streamed, what must be JSON, and what was written to the cache', () => {
    const tracing = turnTracing({}, ids);
    const responseFormat = { type: 'json_schema', name: 'answer', schema: {} } as const;
    const call = { iteration: 1, params: { ...params, responseFormat }, info, isStreamed: true };
    const { span } = startLlmSpan(tracing, call, ROOT_CONTEXT);
    finishLlmSpan(tracing, span, { response: { ...answer, usage: { ...usage, cacheWriteTokens: 5 } } });
    const attributes = ended(span);
    expect(attributes).toMatchObject({
      'gen_ai.request.stream': true,
      'gen_ai.output.type': 'json',
      'gen_ai.usage.cache_creation.input_tokens': 5,
    });
    expect(attributes).not.toHaveProperty('gen_ai.usage.cache_write.input_tokens');
  });

  it('P-19 has the later name of the cache on request only, in place of the other', () => {
    process.env['OTEL_SEMCONV_STABILITY_OPT_IN'] = 'http, gen_ai_latest_experimental';
    try {
      const tracing = turnTracing({}, ids);
      const { span } = startLlmSpan(tracing, { iteration: 1, params, info }, ROOT_CONTEXT);
      finishLlmSpan(tracing, span, { response: { ...answer, usage: { ...usage, cacheWriteTokens: 5 } } });
      const attributes = ended(span);
      expect(attributes).toMatchObject({ 'gen_ai.usage.cache_write.input_tokens': 5 });
      expect(attributes).not.toHaveProperty('gen_ai.usage.cache_creation.input_tokens');
      expect(attributes).not.toHaveProperty('gen_ai.request.stream');
      expect(attributes).not.toHaveProperty('gen_ai.output.type');
    } finally {
      delete process.env['OTEL_SEMCONV_STABILITY_OPT_IN'];
    }
  });

  it.each([
    ['an answer', true],
    ['a request without an answer', false],
  ])('keeps the estimate for %s out of gen_ai.usage', (_, isAnswered) => {
    const tracing = turnTracing({}, ids);
    const { span } = startLlmSpan(tracing, { iteration: 2, params, info }, ROOT_CONTEXT);
    const estimate = { ...usage, cachedTokens: 4, reasoningTokens: 2, cost: 0.5, estimated: true };
    if (isAnswered) finishLlmSpan(tracing, span, { response: { ...answer, usage: estimate } });
    else usageOnSpan(span, estimate);
    const attributes = ended(span);
    expect(attributes).toMatchObject({
      'millrace.usage.estimated': true,
      'millrace.usage.estimated_input_tokens': 12,
      'millrace.usage.estimated_output_tokens': 3,
      'millrace.usage.cost_usd': 0.5,
    });
    expect(Object.keys(attributes).filter((name) => name.startsWith('gen_ai.usage.'))).toEqual([]);
  });

  it('names the model that the call asks for in place of the provider’s', () => {
    const tracing = turnTracing({ spanNames: 'semconv' }, ids);
    const { span } = startLlmSpan(
      tracing,
      { iteration: 1, params: { ...params, model: 'gpt-large' }, info },
      ROOT_CONTEXT,
    );
    expect(ended(span)).toMatchObject({ 'gen_ai.request.model': 'gpt-large' });
    expect(recorder.spans()[0]?.name).toBe('chat gpt-large');
  });

  it('says less of a provider that says less', () => {
    const tracing = turnTracing({ spanNames: 'semconv' }, ids);
    const { span } = startLlmSpan(tracing, { iteration: 1, params: { messages: [] }, info: undefined }, ROOT_CONTEXT);
    const message = { role: 'assistant', content: null, toolCalls: [toolCall('weather')] } as const;
    finishLlmSpan(tracing, span, { response: { message } });
    expect(ended(span)).toEqual({
      'openinference.span.kind': 'LLM',
      'gen_ai.operation.name': 'chat',
      'millrace.iteration': 1,
      'gen_ai.response.finish_reasons': ['tool_calls'],
    });
    expect(recorder.spans()[0]?.name).toBe('chat');
  });
});

describe('tool[name]', () => {
  const call = {
    callId: '2:0',
    call: toolCall('weather', 'call_abc'),
    intent: { attempt: 1, arguments: { city: 'Oslo' } },
  };
  const start = {
    'openinference.span.kind': 'TOOL',
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': 'weather',
    'gen_ai.tool.call.id': 'call_abc',
    'gen_ai.tool.type': 'function',
    'millrace.call.id': '2:0',
  };

  it('carries the call and neither arguments nor result', () => {
    const tracing = turnTracing({}, ids);
    const { span } = startToolSpan(tracing, call, ROOT_CONTEXT);
    finishToolSpan(tracing, span, { content: 'private', success: true });
    expect(ended(span)).toEqual(start);
    expect(recorder.spans()[0]?.status).toEqual({ code: SpanStatusCode.UNSET });
  });

  it('P-19 carries the description of the tool, where it is known', () => {
    const tracing = turnTracing({}, ids);
    const { span } = startToolSpan(tracing, call, ROOT_CONTEXT, { description: 'Tells the weather.' });
    expect(ended(span)).toEqual({ ...start, 'gen_ai.tool.description': 'Tells the weather.' });
  });

  it('S1-86 S2-35 carries the failure', () => {
    const tracing = turnTracing({}, ids);
    const { span } = startToolSpan(tracing, call, ROOT_CONTEXT);
    const error = { code: 'TOOL_TIMEOUT', message: 'weather took longer than 50 ms' };
    finishToolSpan(tracing, span, { content: 'Tool error', success: false, error });
    expect(ended(span)).toEqual({ ...start, 'error.type': 'TOOL_TIMEOUT' });
    const failed = recorder.spans()[0];
    expect(failed?.status).toEqual({ code: SpanStatusCode.ERROR, message: error.message });
    expect(failed?.events[0]?.attributes).toEqual({
      'exception.type': 'TOOL_TIMEOUT',
      'exception.message': error.message,
    });
  });

  it('carries the failure without what looks like a secret, and redacted', () => {
    const tracing = turnTracing({ redact: (text) => text.replace('Oslo', 'X') }, ids);
    const { span } = startToolSpan(tracing, call, ROOT_CONTEXT);
    const error = { code: 'TOOL_FAILED', message: 'no weather of Oslo for password=hunter22' };
    finishToolSpan(tracing, span, { content: 'Tool error', success: false, error });
    span.end();
    const message = 'no weather of X for password=[redacted]';
    const failed = recorder.spans()[0];
    expect(failed?.status.message).toBe(message);
    expect(failed?.events[0]?.attributes).toMatchObject({ 'exception.message': message });
  });

  it('has arguments and result where content is captured', () => {
    const tracing = turnTracing({ captureContent: true, redact: (text) => text.replace('Oslo', 'X') }, ids);
    const { span } = startToolSpan(tracing, call, ROOT_CONTEXT);
    finishToolSpan(tracing, span, { content: [{ type: 'text', text: 'rain in Oslo' }], success: true });
    expect(ended(span)).toEqual({
      ...start,
      'gen_ai.tool.call.arguments': '{"city":"X"}',
      'gen_ai.tool.call.result': '[{"type":"text","text":"rain in X"}]',
      'input.value': '{"city":"X"}',
      'input.mime_type': 'application/json',
      'output.value': '[{"type":"text","text":"rain in X"}]',
      'output.mime_type': 'application/json',
    });
  });
});
