import { afterEach, describe, expect, it } from '@jest/globals';
import { context, createContextKey, ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import type { ReadableSpan } from '@opentelemetry/sdk-trace-node';
import { AgentLoop } from '../../src/core/agent-loop.ts';
import type { AgentLoopConfig, StartOptions } from '../../src/core/config.ts';
import { AgentLoopError } from '../../src/core/errors.ts';
import { turnTracing } from '../../src/observability/spans/tracing-options.ts';
import { finishTurnSpan, startTurnSpan } from '../../src/observability/spans/turn-span.ts';
import { faultyStore } from '../../src/testing/fault-injection.ts';
import { gate } from '../../src/testing/gate.ts';
import type { LLMStep, ScriptedLLMStep } from '../../src/testing/llm-step.ts';
import type { ToolContext, ToolProvider } from '../../src/tools/interfaces.ts';
import { canceled, endingOf, outlivingTheirParents, unset } from './operators/recorded-spans.ts';
import { obedient, plainTools } from './plain-tools.ts';
import { question, runTurn, whilePassing } from './tools/run-turn.ts';
import { turnBench } from './turn-bench.ts';

const bench = turnBench();
afterEach(() => {
  expect(outlivingTheirParents(bench.spans.inOrderOfEnd())).toEqual([]);
  expect(bench.spans.ended).toBe(bench.spans.started);
});

const usage = { promptTokens: 12, completionTokens: 3, totalTokens: 15 };
const asks = (...names: readonly string[]): LLMStep => ({ toolCalls: names.map((name) => ({ name })), usage });
const answers: LLMStep = { text: 'Two.', usage };
const fruit = plainTools({
  count: () => 2,
  weigh: () => 3,
  broken: () => {
    throw new RangeError('no apples');
  },
});

interface Scene extends StartOptions {
  readonly steps: readonly ScriptedLLMStep[];
  readonly tools?: ToolProvider;
  readonly config?: Partial<AgentLoopConfig>;
}

function traced({ steps, tools = fruit, config, ...options }: Scene) {
  return runTurn(bench.loop(steps, { toolProviders: [tools], ...config }), options);
}

function named(name: string): ReadableSpan {
  const [span, ...others] = bench.spans.spans().filter((each) => each.name === name);
  if (span === undefined || others.length > 0)
    throw new Error(`There are ${others.length + (span ? 1 : 0)} spans ${name}.`);
  return span;
}

/** How each span ended, by name. */
function endings(): Readonly<Record<string, ReturnType<typeof endingOf>>> {
  return Object.fromEntries(bench.spans.spans().map((span) => [span.name, endingOf(span)]));
}

const failed = (errorType: string, message: string) => ({ status: 'ERROR', errorType, exceptions: [message] });

describe('the spans of a turn', () => {
  it('S1-15 S1-82 are one tree, below the turn of the agent, though no context manager is registered', async () => {
    const key = createContextKey('probe');
    expect(context.with(ROOT_CONTEXT.setValue(key, 1), () => context.active().getValue(key))).toBeUndefined();
    const tracing = turnTracing({}, { taskId: 't', contextId: 'c', agentId: 'tester' });
    const turn = startTurnSpan(tracing, { agentName: 'tester', messages: question }, ROOT_CONTEXT);
    const { result } = await traced({
      steps: [asks('count', 'weigh'), asks('count'), answers],
      parentContext: turn.traceContext,
      taskId: 't',
    });
    if (!('usage' in result)) throw result;
    finishTurnSpan(tracing, turn.span, { outcome: result.status, ...result });
    turn.span.end();
    expect(bench.spans.tree()).toBe(
      [
        'agent.turn',
        '  agent.execute',
        '    iteration[1]',
        '      llm.call',
        '      tools.execute',
        '        tool[count]',
        '        tool[weigh]',
        '    iteration[2]',
        '      llm.call',
        '      tools.execute',
        '        tool[count]',
        '    iteration[3]',
        '      llm.call',
      ].join('\n'),
    );
    expect(new Set(bench.spans.spans().map((span) => span.spanContext().traceId)).size).toBe(1);
    for (const span of bench.spans.spans()) {
      expect(span.kind).toBe(span.name === 'llm.call' ? SpanKind.CLIENT : SpanKind.INTERNAL);
      expect(span.instrumentationScope.name).toBe('millrace');
    }
  });

  it('S1-83 have one tools.execute for calls that run together, which holds them all', async () => {
    const [ready, goOn] = [gate(), gate()];
    let started = 0;
    const slow = async () => {
      if (++started === 3) void ready.pass();
      await goOn.pass();
    };
    const turn = traced({ steps: [asks('slow', 'slow', 'slow'), answers], tools: plainTools({ slow }) });
    await ready.reached;
    expect(bench.spans.open()).toEqual([
      'agent.execute',
      'iteration[1]',
      'tools.execute',
      'tool[slow]',
      'tool[slow]',
      'tool[slow]',
    ]);
    goOn.open();
    await turn;
    const batch = named('tools.execute').spanContext().spanId;
    const calls = bench.spans.spans().filter(({ name }) => name === 'tool[slow]');
    expect(calls.map((span) => span.parentSpanContext?.spanId)).toEqual([batch, batch, batch]);
    const ended = bench.spans.inOrderOfEnd().map(({ name }) => name);
    expect(ended.slice(1, 5)).toEqual(['tool[slow]', 'tool[slow]', 'tool[slow]', 'tools.execute']);
  });

  it('S1-84 go on with the trace of the caller', async () => {
    const caller = bench.spans.provider.getTracer('caller').startSpan('request');
    await traced({ steps: [answers], parentContext: trace.setSpan(ROOT_CONTEXT, caller) });
    caller.end();
    expect(named('agent.execute').parentSpanContext).toMatchObject(caller.spanContext());
    expect(bench.spans.tree()).toBe('request\n  agent.execute\n    iteration[1]\n      llm.call');
  });

  it('are a trace of their own where the caller gives no parent, whatever context is active', async () => {
    const manager = new AsyncLocalStorageContextManager().enable();
    context.setGlobalContextManager(manager);
    try {
      const other = bench.spans.provider.getTracer('other').startSpan('unrelated');
      await context.with(trace.setSpan(ROOT_CONTEXT, other), () => traced({ steps: [asks('count'), answers] }));
      other.end();
    } finally {
      context.disable();
    }
    expect(named('agent.execute').parentSpanContext).toBeUndefined();
    expect(bench.spans.tree().split('\n')[0]).toBe('unrelated');
    expect(bench.spans.tree()).toContain(
      '\nagent.execute\n  iteration[1]\n    llm.call\n    tools.execute\n      tool[count]',
    );
  });

  it('are the active ones where user code is called, so that what it traces nests below', async () => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    try {
      const tracer = bench.spans.provider.getTracer('http');
      const fetching = async () => {
        tracer.startSpan('GET early').end();
        await new Promise((resolve) => setImmediate(resolve));
        tracer.startSpan('GET late').end();
      };
      await traced({
        steps: [
          () => {
            tracer.startSpan('POST model').end();
            return asks('fetch');
          },
          answers,
        ],
        tools: plainTools({ fetch: fetching }),
      });
    } finally {
      context.disable();
    }
    expect(bench.spans.tree()).toBe(
      [
        'agent.execute',
        '  iteration[1]',
        '    llm.call',
        '      POST model',
        '    tools.execute',
        '      tool[fetch]',
        '        GET early',
        '        GET late',
        '  iteration[2]',
        '    llm.call',
      ].join('\n'),
    );
  });

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

  it('S1-27 are none with enableTracing false, and the caller’s context reaches model and tools as it is', async () => {
    const contexts: unknown[] = [];
    const look = ({ traceContext }: ToolContext) => contexts.push(traceContext);
    const model = bench.model([asks('look'), answers]);
    const parentContext = ROOT_CONTEXT.setValue(createContextKey('theirs'), 1);
    const config = bench.config(model, { toolProviders: [plainTools({ look })], enableTracing: false });
    await runTurn(new AgentLoop(config), { parentContext });
    expect(bench.spans.started).toBe(0);
    expect([...contexts, ...model.calls.map(({ traceContext }) => traceContext)]).toEqual([
      parentContext,
      parentContext,
      parentContext,
    ]);
  });

  it('are none where no SDK is registered', async () => {
    await bench.spans.dispose();
    expect((await traced({ steps: [asks('count'), answers] })).result).toMatchObject({ status: 'completed' });
    expect(bench.spans.started).toBe(0);
  });
});

describe('the spans of a turn that goes wrong', () => {
  it('S1-86 S1-35 S1-89 fail up to the root where the model fails', async () => {
    const thrown = new AgentLoopError('PROVIDER_SERVER', 'the model answered 500');
    await traced({ steps: [asks('count'), { text: 'Tw', error: thrown }] });
    const failure = failed('PROVIDER_SERVER', 'the model answered 500');
    expect(endings()).toMatchObject({
      'agent.execute': { ...failure, outcome: 'failed' },
      'iteration[1]': unset,
      'tool[count]': unset,
      'iteration[2]': failure,
      'llm.call': failure,
    });
  });

  it('S1-86 fail alone where a tool fails and the model is told', async () => {
    await traced({ steps: [asks('broken', 'count'), answers] });
    expect(endings()).toMatchObject({
      'agent.execute': { ...unset, outcome: 'completed' },
      'iteration[1]': unset,
      'tools.execute': unset,
      'tool[broken]': failed('TOOL_FAILED', 'RangeError: no apples'),
      'tool[count]': unset,
    });
  });

  it('S1-86 fail up to the root where a tool fails the turn', async () => {
    await traced({ steps: [asks('broken')], config: { toolFailureMode: 'fail' } });
    const failure = failed('TOOL_FAILED', 'RangeError: no apples');
    expect(endings()).toMatchObject({
      'agent.execute': { ...failure, outcome: 'failed' },
      'iteration[1]': failure,
      'llm.call': unset,
      'tool[broken]': failure,
    });
  });

  it('S1-86 fail at the root alone where a limit ends the turn', async () => {
    await traced({ steps: [asks('count')], maxIterations: 1 });
    const { 'agent.execute': root, ...rest } = endings();
    expect(root).toMatchObject({ status: 'ERROR', errorType: 'MAX_ITERATIONS', outcome: 'failed' });
    expect(Object.values(rest)).toEqual(Object.values(rest).map(() => unset));
  });

  it('S1-86 fail at the root alone where the tools cannot be had', async () => {
    const tools = { ...fruit, getTools: () => Promise.reject(new Error('the registry is down')) };
    await traced({ steps: [], tools });
    expect(bench.spans.tree()).toBe('agent.execute');
    expect(endings()).toMatchObject({ 'agent.execute': { status: 'ERROR', errorType: 'TOOL_FAILED' } });
  });

  it('S1-87 S1-36 end as cancelled where the turn is cancelled in a model call', async () => {
    const turn = bench
      .loop([asks('count'), { text: 'Tw', never: true }], { toolProviders: [fruit] })
      .startTurn(question);
    await new Promise<void>((resolve) => {
      turn.subscribe(({ kind }) => kind === 'artifact-update' && resolve());
    });
    await turn.cancel('enough');
    expect(endings()).toEqual({
      'agent.execute': canceled,
      'iteration[1]': unset,
      'llm.call': canceled,
      'tools.execute': unset,
      'tool[count]': unset,
      'iteration[2]': canceled,
    });
    expect(named('agent.execute').attributes).toMatchObject({
      'millrace.stop_reason': 'enough',
      'millrace.iterations': 2,
    });
  });

  it('S1-87 S1-36 end as cancelled where the turn is cancelled while tools run, those that ended as they did', async () => {
    const [running, never] = [gate(), gate()];
    const tools = plainTools({
      fine: () => 1,
      obedient,
      deaf: async () => {
        void running.pass();
        await never.pass();
      },
    });
    const turn = bench
      .loop([asks('fine', 'obedient', 'deaf')], { toolProviders: [tools], abortGraceMs: 20 })
      .startTurn(question);
    const outcome = turn.result().catch((error) => error);
    await running.reached;
    await whilePassing(bench.clock, turn.cancel());
    await outcome;
    never.open();
    expect(endings()).toEqual({
      'agent.execute': canceled,
      'iteration[1]': canceled,
      'llm.call': unset,
      'tools.execute': canceled,
      'tool[fine]': unset,
      'tool[obedient]': canceled,
      'tool[deaf]': canceled,
    });
  });

  it('S1-87 end where the last subscriber leaves', async () => {
    const turn = bench.loop([{ never: true }]).startTurn(question);
    const subscription = turn.subscribe();
    await new Promise((resolve) => setImmediate(resolve));
    expect(bench.spans.open()).toEqual(['agent.execute', 'iteration[1]', 'llm.call']);
    subscription.unsubscribe();
    await turn.settled;
    expect(Object.values(endings())).toEqual([canceled, canceled, canceled]);
  });

  it('S1-87 end, the root with the code, where the turn is lost to another owner in a model call', async () => {
    const turn = bench.loop([{ text: 'Tw', never: true }]).startTurn(question, { taskId: 't' });
    const outcome = turn.result().catch((error) => error);
    await new Promise((resolve) => setImmediate(resolve));
    bench.leases.advance(30_000);
    bench.store.acquire('t', 'thief', 1_000);
    bench.clock.advance(10_000);
    expect(await outcome).toMatchObject({ code: 'FENCED' });
    expect(endings()).toMatchObject({
      'agent.execute': { status: 'ERROR', errorType: 'FENCED', outcome: undefined },
      'iteration[1]': { status: 'UNSET' },
      'llm.call': { status: 'UNSET' },
    });
  });

  it('S1-87 end, the root with the code, where the store is lost while tools run', async () => {
    const [running, never] = [gate(), gate()];
    const store = faultyStore(bench.store, [{ method: 'append', call: 3, calls: 1_000, fault: 'fail-before' }]);
    const tools = plainTools({
      quick: async () => 1,
      slow: async () => {
        void running.pass();
        await never.pass();
      },
    });
    const turn = bench
      .loop([asks('slow', 'slow', 'quick')], { toolProviders: [tools], taskStateStore: store, storeDeadlineMs: 1_000 })
      .startTurn(question);
    const outcome = turn.result().catch((error) => error);
    await running.reached;
    expect(await whilePassing(bench.clock, outcome)).toMatchObject({ code: 'UNAVAILABLE' });
    never.open();
    expect(endings()).toMatchObject({
      'agent.execute': { status: 'ERROR', errorType: 'UNAVAILABLE', outcome: undefined },
      'tool[slow]': canceled,
      'tool[quick]': unset,
    });
  });

  it('S1-87 end where the turn cannot begin', async () => {
    await traced({ steps: [answers], taskId: 't' });
    const other = bench.loop([]).startTurn([{ role: 'user', content: 'Something else' }], { taskId: 't' });
    await expect(other.result()).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(bench.spans.spans().at(-1)).toMatchObject({ name: 'agent.execute' });
    expect(bench.spans.spans().map((span) => endingOf(span).errorType)).toEqual([
      undefined,
      undefined,
      undefined,
      'CONFLICT',
    ]);
  });
});

describe('the spans of a turn that goes on', () => {
  it('S1-107 are a trace of their own, linked to the one before, below the parent that the resume is given', async () => {
    const pausing = plainTools({ pause: () => turn.pause('lunch') });
    const turn = bench.loop([asks('pause')], { toolProviders: [pausing] }).startTurn(question, { taskId: 't' });
    await turn.result();
    const before = named('agent.execute');
    expect(endingOf(before)).toEqual({ ...unset, outcome: 'input-required' });
    const caller = bench.spans.provider.getTracer('caller').startSpan('request');
    bench.spans.clear();
    const config = bench.config(bench.model([answers]), { toolProviders: [pausing] });
    await AgentLoop.resume('t', config, { parentContext: trace.setSpan(ROOT_CONTEXT, caller) }).result();
    caller.end();
    expect(bench.spans.tree()).toBe('agent.execute\n  iteration[2]\n    llm.call');
    const after = named('agent.execute');
    expect(after.attributes).toMatchObject({
      'millrace.resumed': true,
      'millrace.task.id': 't',
      'millrace.outcome': 'completed',
    });
    const { traceId, spanId } = before.spanContext();
    expect(after.links).toMatchObject([{ context: { traceId, spanId } }]);
    expect(after.parentSpanContext).toMatchObject({ spanId: caller.spanContext().spanId });
    expect(after.spanContext().traceId).not.toBe(traceId);
  });

  it('link to the resume before, where there is one', async () => {
    const pausing = plainTools({ pause: () => running.pause('lunch') });
    let running = bench.loop([asks('pause')], { toolProviders: [pausing] }).startTurn(question, { taskId: 't' });
    await running.result();
    running = AgentLoop.resume('t', bench.config(bench.model([asks('pause')]), { toolProviders: [pausing] }));
    await running.result();
    await AgentLoop.resume('t', bench.config(bench.model([answers]), { toolProviders: [pausing] })).result();
    const [first, second, third] = bench.spans.spans().filter(({ name }) => name === 'agent.execute');
    expect(first?.links).toEqual([]);
    expect(second?.links[0]?.context.spanId).toBe(first?.spanContext().spanId);
    expect(third?.links[0]?.context.spanId).toBe(second?.spanContext().spanId);
  });
});
