import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, agent, agentTools } from 'millrace';
import { faultyStore, gate } from 'millrace/testing';
import { canceled, endingOf, unset } from '../operators/recorded-spans.ts';
import { recordingLogger } from '../operators/recording-logger.ts';
import { obedient, plainTools } from '../plain-tools.ts';
import { question, whilePassing } from '../tools/run-turn.ts';
import { answers, asks, fruit, tracingBench, usage } from './tracing-bench.ts';

const { bench, traced, named, endings } = tracingBench();

const failed = (errorType: string, message: string) => ({ status: 'ERROR', errorType, exceptions: [message] });

/** The exception that the span with that name records. */
const exceptionOf = (name: string) => named(name).events.find((event) => event.name === 'exception')?.attributes;

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
      'tool[broken]': failed('TOOL_FAILED', 'no apples'),
      'tool[count]': unset,
    });
  });

  it('S1-86 fail up to the root where a tool fails the turn', async () => {
    await traced({ steps: [asks('broken')], config: { toolFailureMode: 'fail' } });
    const failure = failed('TOOL_FAILED', 'no apples');
    expect(endings()).toMatchObject({
      'agent.execute': { ...failed('TOOL_FAILED', 'RangeError: no apples'), outcome: 'failed' },
      'iteration[1]': failure,
      'llm.call': unset,
      'tool[broken]': failure,
    });
  });

  it('H-30 shows the class, the message and the stack of what a tool threw, redacted', async () => {
    const tools = plainTools({
      pick: async () => {
        await Promise.resolve();
        throw new RangeError('nope, Ada: password=hunter22');
      },
    });
    const logger = recordingLogger();
    const redact = (text: string) => text.replaceAll('Ada', 'X');
    const { result } = await traced({
      steps: [asks('pick')],
      tools,
      config: { toolFailureMode: 'fail', logger, redact },
    });
    expect(result).toMatchObject({ code: 'TOOL_FAILED', cause: expect.any(RangeError) });
    const [type, message] = ['RangeError', 'nope, X: password=[redacted]'];
    const stack = expect.stringMatching(/^RangeError: nope, X: password=\[redacted\]\n.*span-endings\.test/);
    const said = { 'exception.type': type, 'exception.message': message, 'exception.stacktrace': stack };
    expect(exceptionOf('tool[pick]')).toEqual(said);
    expect(exceptionOf('iteration[1]')).toEqual(said);
    const ids = { taskId: expect.any(String), agentId: 'tester' };
    const fields = { ...ids, callId: '1:0', tool: 'pick', code: 'TOOL_FAILED', error: { type, message, stack } };
    expect(logger.lines.filter(([level]) => level === 'warn')).toEqual([['warn', 'tool call failed', fields]]);
    expect(JSON.stringify(logger.lines)).not.toMatch(/Ada|hunter22/);
  });

  it('H-30 shows what a provider threw on the span of its call and in the log, with what caused it', async () => {
    class SocketGone extends Error {}
    const thrown = new SocketGone('the wire was cut', { cause: new TypeError('fetch failed') });
    const logger = recordingLogger();
    const { result } = await traced({ steps: [{ error: thrown }], config: { logger } });
    expect(result).toMatchObject({ code: 'PROVIDER_FAILED', cause: thrown });
    const stack = expect.stringMatching(/^Error: the wire was cut\n[\s\S]*\nCaused by: TypeError: fetch failed\n/);
    expect(exceptionOf('llm.call')).toEqual({
      'exception.type': 'SocketGone',
      'exception.message': 'the wire was cut',
      'exception.stacktrace': stack,
    });
    expect(named('llm.call').status.message).toBe('The model provider failed: the wire was cut');
    const told = expect.stringMatching(/^Error: the wire was cut\n.*Caused by: TypeError: fetch failed/s);
    const fields = { code: 'PROVIDER_FAILED', error: { type: 'SocketGone', message: 'the wire was cut', stack: told } };
    expect(logger.lines).toContainEqual(['warn', 'model call failed', expect.objectContaining(fields)]);
  });

  it('H-30 shows what failed a sub-agent on the span of the call that it ran for', async () => {
    const ada = agent({ id: 'ada', description: 'asks', provider: bench.model([{ error: new RangeError('nope') }]) });
    const askAda = { toolCalls: [{ name: 'ada', arguments: { message: 'Which?' } }], usage };
    await traced({ steps: [askAda, answers], tools: agentTools([ada]) });
    expect(exceptionOf('tool[ada]')).toMatchObject({
      'exception.type': 'RangeError',
      'exception.message': 'nope',
      'exception.stacktrace': expect.stringMatching(/^RangeError: nope\n.*span-endings\.test/),
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
