import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { context, propagation } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { AgentLoop } from '../../src/core/agent-loop.ts';
import { textOf } from '../../src/core/messages.ts';
import { scriptedLLM } from '../../src/testing/scripted-llm.ts';
import { recordSpans, type SpanRecorder } from '../../src/testing/span-recorder.ts';
import { type OddServer, oddServer } from './odd-server.ts';

let odd: OddServer;
let spans: SpanRecorder;

beforeEach(() => {
  spans = recordSpans();
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
});

afterEach(async () => {
  await odd.tools.close();
  await spans.dispose();
  propagation.disable();
  context.disable();
});

describe('the trace of an MCP call', () => {
  it('goes on at the server, and says on the span of the tool which server that was', async () => {
    odd = oddServer();
    const loop = new AgentLoop({
      agentId: 'assistant',
      llmProvider: scriptedLLM([{ toolCalls: [{ name: 'odd__meta' }] }, { text: 'done' }]),
      toolProviders: [odd.tools],
    });
    const { messages } = await loop.startTurn([{ role: 'user', content: 'go' }]).result();
    const meta = JSON.parse(textOf(messages.find(({ role }) => role === 'tool')?.content));
    const span = spans.spans().find(({ name }) => name === 'tool[odd__meta]');
    const { traceId, spanId } = span?.spanContext() ?? {};
    expect(meta.traceparent).toBe(`00-${traceId}-${spanId}-01`);
    expect(span?.attributes).toMatchObject({
      'mcp.method.name': 'tools/call',
      'mcp.server.name': 'odd',
      'mcp.protocol.version': expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
      'network.transport': 'pipe',
    });
    expect(Object.keys(span?.attributes ?? {})).not.toContain('mcp.session.id');
    expect(spans.open()).toEqual([]);
  });
});
