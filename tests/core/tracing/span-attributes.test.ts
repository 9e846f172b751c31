import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT } from '@opentelemetry/api';
import { AgentLoop, startTurnSpan, turnTracing } from 'millrace/internals';
import { plainTools } from '../plain-tools.ts';
import { runTurn } from '../tools/run-turn.ts';
import { answers, asks, fruit, tracingBench } from './tracing-bench.ts';

const { bench, traced, named } = tracingBench();

describe('what the spans of a turn say', () => {
  it('S1-17 S1-28 S0-18 all carry the ids of the turn, and none what the caller authenticates with', async () => {
    await traced({
      steps: [asks('count'), answers],
      taskId: 't',
      contextId: 'c',
      agentId: 'other',
      authContext: { token: 'sesame' },
      config: { captureContent: true },
    });
    expect(bench.spans.spans()).toHaveLength(7);
    for (const { attributes } of bench.spans.spans()) {
      expect(attributes).toMatchObject({
        'millrace.task.id': 't',
        'gen_ai.conversation.id': 'c',
        'session.id': 'c',
        'millrace.agent.id': 'other',
      });
    }
    const all = bench.spans.spans().map(({ attributes, events, status }) => ({ attributes, events, status }));
    expect(JSON.stringify(all)).not.toContain('sesame');
  });

  it('S1-85 S1-44 tell how the turn went: outcome, sums on agent.execute, each call’s own on llm.call', async () => {
    const info = { providerName: 'openai', model: 'gpt-test', serverAddress: '127.0.0.1', serverPort: 4_000 };
    const model = bench.model([asks('count'), answers], { info });
    await runTurn(
      new AgentLoop(bench.config(model, { toolProviders: [fruit], maxIterations: 7, temperature: 0, maxTokens: 9 })),
    );
    expect(named('agent.execute').attributes).toMatchObject({
      'openinference.span.kind': 'CHAIN',
      'millrace.max_iterations': 7,
      'millrace.resumed': false,
      'millrace.outcome': 'completed',
      'millrace.stop_reason': 'stop',
      'millrace.iterations': 2,
      'millrace.tool_calls': 1,
      'millrace.usage.input_tokens': 24,
      'millrace.usage.output_tokens': 6,
      'millrace.usage.total_tokens': 30,
    });
    const calls = bench.spans.spans().filter(({ name }) => name === 'llm.call');
    const ofCall = {
      'openinference.span.kind': 'LLM',
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'gpt-test',
      'gen_ai.request.temperature': 0,
      'gen_ai.request.max_tokens': 9,
      'server.address': '127.0.0.1',
      'server.port': 4_000,
      'gen_ai.usage.input_tokens': 12,
      'gen_ai.usage.output_tokens': 3,
    };
    expect(calls.map(({ attributes }) => attributes)).toMatchObject([
      { ...ofCall, 'gen_ai.response.finish_reasons': ['tool_calls'] },
      { ...ofCall, 'gen_ai.response.finish_reasons': ['stop'], 'gen_ai.response.time_to_first_chunk': 0 },
    ]);
    for (const { name, attributes } of bench.spans.spans()) {
      if (name !== 'llm.call') expect(Object.keys(attributes).join()).not.toMatch(/gen_ai\.(usage|request)/);
    }
    expect(named('tool[count]').attributes).toMatchObject({
      'openinference.span.kind': 'TOOL',
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'count',
      'gen_ai.tool.call.id': 'call_1_0',
      'millrace.call.id': '1:0',
    });
    expect(named('iteration[2]').attributes).toMatchObject({ 'millrace.iteration': 2 });
  });

  it('hold no content by default', async () => {
    const calls = [{ name: 'count', arguments: { of: 'pomelos' } }];
    const { result } = await traced({ steps: [{ text: 'Pomelos?', toolCalls: calls }, { text: 'Pomelos!' }] });
    expect(result).toMatchObject({ text: 'Pomelos!' });
    const attributes = bench.spans.spans().map((span) => span.attributes);
    expect(JSON.stringify(attributes)).not.toMatch(/pomelos|apples/i);
    expect(attributes.flatMap((each) => Object.keys(each)).join()).not.toMatch(
      /output\.value|gen_ai\.(input|output)\.messages|system_instructions|tool\.(definitions|call\.(arguments|result))/,
    );
  });

  it('S1-85 hold what was said with captureContent, redacted', async () => {
    const redact = (text: string) => text.replaceAll('apples', '[fruit]');
    const calls = [{ name: 'count', arguments: { of: 'apples' } }];
    await traced({
      steps: [{ toolCalls: calls }, { text: 'Two apples.' }],
      config: { captureContent: true, redact, systemPrompt: 'Count apples.' },
    });
    expect(JSON.stringify(bench.spans.spans().map(({ attributes }) => attributes))).not.toContain('apples');
    expect(named('agent.execute').attributes).toMatchObject({ 'output.value': 'Two [fruit].' });
    expect(named('tool[count]').attributes).toMatchObject({
      'gen_ai.tool.call.arguments': '{"of":"[fruit]"}',
      'gen_ai.tool.call.result': '2',
    });
    const [first, second] = bench.spans.spans().filter(({ name }) => name === 'llm.call');
    expect(first?.attributes).toMatchObject({
      'gen_ai.system_instructions': expect.stringContaining('Count [fruit].'),
      'gen_ai.input.messages': expect.stringContaining('How many [fruit]?'),
      'gen_ai.tool.definitions': expect.stringContaining('"name":"count"'),
    });
    expect(second?.attributes['gen_ai.output.messages']).toContain('Two [fruit].');
  });

  it('say what is asked, on the batch and on the call that asks', async () => {
    const guarded = { needsApproval: true, execute: () => 'done' };
    const tools = plainTools({ guarded, book: (context) => context.ask({ prompt: 'When?' }) });
    await traced({ steps: [asks('guarded', 'book')], tools });
    const asked = bench.spans
      .spans()
      .flatMap(({ name, events }) =>
        events.map((event) => [
          name,
          event.name,
          event.attributes?.['millrace.question.kind'],
          event.attributes?.['millrace.call.id'],
        ]),
      );
    expect(asked).toEqual([
      ['tools.execute', 'millrace.tool.asked', 'approval', '1:0'],
      ['tools.execute', 'millrace.tool.asked', 'input', '1:1'],
      ['tool[book]', 'millrace.tool.asked', 'input', '1:1'],
    ]);
  });

  it('have the names of the semantic conventions where that is asked for', async () => {
    const model = bench.model([asks('count'), answers], { info: { model: 'gpt-test' } });
    const tracing = turnTracing({ spanNames: 'semconv' }, { taskId: 't', contextId: 'c', agentId: 'tester' });
    const turn = startTurnSpan(tracing, { agentName: 'Clerk', messages: [] }, ROOT_CONTEXT);
    const config = bench.config(model, { toolProviders: [fruit], spanNames: 'semconv' });
    await runTurn(new AgentLoop(config), { parentContext: turn.traceContext });
    turn.span.end();
    const names = bench.spans.spans().map(({ name }) => name);
    expect(names).toEqual([
      'invoke_agent Clerk',
      'agent.execute',
      'iteration[1]',
      'chat gpt-test',
      'tools.execute',
      'execute_tool count',
      'iteration[2]',
      'chat gpt-test',
    ]);
  });
});
