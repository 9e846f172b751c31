import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { type AgentLoopConfig, AgentLoopError } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { spanOutline, startTracing, type Tracing } from 'millrace/otel';
import { gate, openResources, type ResourceLedger, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import { type OtlpReceiver, startOtlpReceiver } from '../../otlp-receiver.ts';
import { obedient, plainTools } from '../plain-tools.ts';
import { question } from '../tools/run-turn.ts';

let ledger: ResourceLedger;
let receiver: OtlpReceiver;
let tracing: Tracing;

beforeEach(async () => {
  ledger = openResources();
  receiver = await startOtlpReceiver();
  tracing = startTracing({ endpoint: receiver.url, serviceName: 'turns', flushOnSignals: [] });
});

afterEach(async () => {
  await tracing.shutdown();
  await receiver.close();
  await ledger.assertNone();
});

const usage = { promptTokens: 12, completionTokens: 3, totalTokens: 15 };
const running = gate();
const tools = plainTools({
  count: async () => 2,
  broken: async () => {
    throw new RangeError('no apples');
  },
  obedient: (context) => {
    void running.pass();
    return obedient(context);
  },
});

function loopOf(steps: readonly ScriptedLLMStep[], config: Partial<AgentLoopConfig> = {}): AgentLoop {
  return new AgentLoop({ agentId: 'tester', llmProvider: scriptedLLM(steps), toolProviders: [tools], ...config });
}

const calls = (...names: readonly string[]) => ({ toolCalls: names.map((name) => ({ name })), usage });

/** What arrived, once all of it has. */
async function arrived(): Promise<OtlpReceiver['spans']> {
  const { started, ended, exported } = await tracing.flush();
  expect([ended, exported]).toEqual([started, started]);
  return receiver.spans;
}

function statusOf(spans: OtlpReceiver['spans'], name: string): unknown {
  const span = spans.find((each) => each.name === name);
  return { ...span?.status, errorType: span?.attributes['error.type'], outcome: span?.attributes['millrace.outcome'] };
}

it('S1-15 S1-83 a turn that completes arrives as one tree, every span with its ids', async () => {
  await loopOf([calls('count', 'broken'), { text: 'Two.', usage }])
    .startTurn(question, { taskId: 't', contextId: 'c' })
    .result();
  const spans = await arrived();
  expect(spanOutline(spans)).toBe(
    [
      'agent.execute',
      '  iteration[1]',
      '    llm.call',
      '    tools.execute',
      '      tool[count]',
      '      tool[broken]',
      '  iteration[2]',
      '    llm.call',
    ].join('\n'),
  );
  expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
  for (const { attributes, scope, kind, name } of spans) {
    expect(scope).toBe('millrace');
    expect(kind).toBe(name === 'llm.call' ? 'client' : 'internal');
    expect(attributes).toMatchObject({
      'millrace.task.id': 't',
      'millrace.agent.id': 'tester',
      'gen_ai.conversation.id': 'c',
      'session.id': 'c',
    });
  }
  expect(statusOf(spans, 'agent.execute')).toMatchObject({ code: 'unset', outcome: 'completed' });
  expect(statusOf(spans, 'tool[count]')).toMatchObject({ code: 'unset' });
  expect(statusOf(spans, 'tool[broken]')).toMatchObject({ code: 'error', errorType: 'TOOL_FAILED' });
  const [root] = spans.filter(({ name }) => name === 'agent.execute');
  expect(root?.attributes).toMatchObject({
    'millrace.usage.total_tokens': 30,
    'millrace.iterations': 2,
    'millrace.tool_calls': 2,
  });
});

it('S1-86 a turn that fails arrives with status, code and exception on each level', async () => {
  const error = new AgentLoopError('PROVIDER_SERVER', 'the model answered 500');
  await loopOf([calls('count'), { error }])
    .startTurn(question)
    .result()
    .catch(() => undefined);
  const spans = await arrived();
  const failed = spans.filter(({ status }) => status.code === 'error');
  expect(failed.map(({ name }) => name).toSorted()).toEqual(['agent.execute', 'iteration[2]', 'llm.call']);
  for (const { status, attributes, events } of failed) {
    expect(status).toEqual({ code: 'error', message: 'the model answered 500' });
    expect(attributes).toMatchObject({ 'error.type': 'PROVIDER_SERVER' });
    expect(events).toMatchObject([
      { name: 'exception', attributes: { 'exception.message': 'the model answered 500' } },
    ]);
  }
});

it('S1-87 S1-36 a turn that is cancelled while a tool runs arrives whole, its status unset', async () => {
  const turn = loopOf([calls('obedient')]).startTurn(question);
  const outcome = turn.result().catch((error) => error);
  await running.reached;
  await turn.cancel('enough');
  expect(await outcome).toMatchObject({ code: 'CANCELED' });
  const spans = await arrived();
  expect(spanOutline(spans)).toBe(
    ['agent.execute', '  iteration[1]', '    llm.call', '    tools.execute', '      tool[obedient]'].join('\n'),
  );
  expect(spans.map(({ status }) => status.code)).toEqual(spans.map(() => 'unset'));
  const canceled = spans.filter(({ attributes }) => attributes['millrace.outcome'] === 'canceled');
  expect(canceled.map(({ name }) => name).toSorted()).toEqual([
    'agent.execute',
    'iteration[1]',
    'tool[obedient]',
    'tools.execute',
  ]);
});

it('S1-27 nothing leaves with enableTracing false', async () => {
  await loopOf([{ text: 'Two.' }], { enableTracing: false })
    .startTurn(question)
    .result();
  expect(await tracing.flush()).toEqual({ started: 0, ended: 0, exported: 0 });
  expect(receiver.requests).toEqual([]);
});
