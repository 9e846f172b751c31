import { afterEach, describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import type { McpSamplingOptions } from '../../src/mcp/mcp-options.ts';
import type { LLMCallParams } from '../../src/providers/interfaces.ts';
import { scriptedLLM } from '../../src/testing/scripted-llm.ts';
import { recordSpans } from '../../src/testing/span-recorder.ts';
import { toolContext } from '../tools/tool-context.ts';
import { type OddServer, oddServer } from './odd-server.ts';

let odd: OddServer;
afterEach(() => odd.tools.close());

const usage = { promptTokens: 7, completionTokens: 3, totalTokens: 10 };

describe('an MCP server that asks the model', () => {
  it('may not, unless it is allowed', async () => {
    odd = oddServer();
    expect((await odd.call('sample')).content).toBe('["Method not found"]');
  });

  it('is answered by the provider, within the limits, below the span of the call', async () => {
    const asked: LLMCallParams[] = [];
    const provider = scriptedLLM([
      (params) => {
        asked.push(params);
        return { text: 'Something.', usage };
      },
    ]);
    odd = oddServer({ sampling: { provider, model: 'small', maxTokens: 100 } });
    const spans = recordSpans();
    try {
      const parent = trace.getTracer('test').startSpan('tool[sample]', {}, ROOT_CONTEXT);
      const updates: unknown[] = [];
      const traceContext = trace.setSpan(ROOT_CONTEXT, parent);
      const progress = (update: unknown) => updates.push(update);
      expect((await odd.call('sample', {}, { traceContext, progress })).content).toBe('["Something."]');
      parent.end();
      expect(updates).toEqual([{ type: 'mcp-sampling', usage }]);
      expect(spans.tree()).toBe('tool[sample]\n  llm.call');
    } finally {
      await spans.dispose();
    }
    expect(asked[0]).toMatchObject({
      model: 'small',
      maxTokens: 100,
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: [{ type: 'text', text: 'Say something.' }] },
      ],
    });
    expect(asked[0]?.tools).toBeUndefined();
  });

  it('has a budget of requests for each tool call', async () => {
    const provider = scriptedLLM([{ text: 'one' }, { text: 'two' }, { text: 'three' }]);
    odd = oddServer({ sampling: { provider, maxRequests: 2 } });
    const { content } = await odd.call('sample', { times: 3 });
    expect(JSON.parse(String(content))).toEqual(['one', 'two', expect.stringMatching(/may ask the model 2 times/)]);
    expect((await odd.call('sample', {}, toolContext({ idempotencyKey: 'task:2:0' }))).content).toBe('["three"]');
  });

  it('is not told why the model did not answer', async () => {
    const provider: McpSamplingOptions['provider'] = {
      call: () => Promise.reject(new Error('401: key sk-123 is not valid')),
    };
    odd = oddServer({ sampling: { provider } });
    expect((await odd.call('sample')).content).toMatch(/the model did not answer/);
  });
});
