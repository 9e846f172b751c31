import { describe, expect, it } from '@jest/globals';
import {
  agent,
  cacheResponses,
  InMemoryStateStore,
  type LLMProvider,
  limitConcurrency,
  rateLimit,
  type ToolProvider,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { NEVER } from 'rxjs';
import { plainTools } from './plain-tools.ts';
import { question, runTurn } from './tools/run-turn.ts';
import { fruit } from './tracing/tracing-bench.ts';
import { turnBench } from './turn-bench.ts';

const bench = turnBench();
const forever = () => new Promise<never>(() => {});

/** What a turn fails with, once its time has passed. */
async function failureOf(llmProvider: LLMProvider, options: object) {
  const loop = new AgentLoop(bench.config(llmProvider, options));
  const { result } = await runTurn(loop, { clock: bench.clock });
  return result;
}

describe('H-13 a turn waits no longer than an option says', () => {
  it('H-13 for a model that never answers, whose call it aborts', async () => {
    let aborted: unknown;
    const call: LLMProvider['call'] = ({ signal }) => {
      signal?.addEventListener('abort', () => (aborted = signal.reason));
      return forever();
    };
    const error = await failureOf({ call }, { modelSilenceMs: 400 });
    expect(error).toMatchObject({
      code: 'PROVIDER_TIMEOUT',
      message: 'The model was silent for 400 ms (modelSilenceMs).',
    });
    expect(aborted).toMatchObject({ code: 'PROVIDER_TIMEOUT' });
  });

  it('H-13 for a model that stops in the middle of its stream, from the last chunk on', async () => {
    const model = bench.model([{ text: ['One, ', 'two'], never: true }]);
    const error = await failureOf(model, { modelSilenceMs: 400 });
    expect(error).toMatchObject({ code: 'PROVIDER_TIMEOUT' });
  });

  it('H-13 for a tool provider that never lists its tools, and names it', async () => {
    const silent: ToolProvider = { name: 'far', getTools: forever, executeTool: forever };
    const error = await failureOf(bench.model([]), { toolProviders: [silent, fruit], toolListTimeoutMs: 200 });
    expect(error).toMatchObject({
      code: 'TOOL_TIMEOUT',
      message: 'Tool providers did not list their tools within 200 ms (toolListTimeoutMs): far.',
    });
  });

  it('H-13 for a tool that never answers: the model reads which options to raise', async () => {
    const model = bench.model([{ toolCalls: [{ name: 'slow' }] }, { text: 'Too slow.' }]);
    const toolProviders = [plainTools({ slow: forever })];
    const loop = new AgentLoop(bench.config(model, { toolProviders, toolTimeoutMs: 250 }));
    expect((await runTurn(loop, { clock: bench.clock })).result).toMatchObject({ status: 'completed' });
    expect(model.calls[1]?.messages.at(-1)).toMatchObject({
      content: 'Tool error: the tool did not answer within 250 ms (timeoutMs of the tool, or toolTimeoutMs)',
    });
  });

  it('H-13 for a place in limitConcurrency', async () => {
    const limit = limitConcurrency({ max: 1, maxWaitMs: 300, clock: bench.clock });
    const busy = limit({ call: forever, stream: () => NEVER });
    const holding = busy.stream?.({ messages: question }).subscribe();
    const error = await failureOf(busy, {});
    holding?.unsubscribe();
    expect(error).toMatchObject({
      code: 'PROVIDER_TIMEOUT',
      message: 'The model call waited in limitConcurrency for 300 ms (maxWaitMs) and was not made.',
    });
  });

  it('H-13 for its minute in rateLimit', async () => {
    const limit = rateLimit({ requestsPerMinute: 1, maxWaitMs: 300, clock: bench.clock });
    const model = limit(bench.model([{ text: 'One.' }]));
    const first = await runTurn(new AgentLoop(bench.config(model)), { clock: bench.clock });
    expect(first.result).toMatchObject({ status: 'completed' });
    expect(await failureOf(model, {})).toMatchObject({
      code: 'PROVIDER_TIMEOUT',
      message: expect.stringContaining('rateLimit for 300 ms (maxWaitMs)'),
    });
  });

  it('H-13 for a cache: the call is made without it', async () => {
    const failures: unknown[] = [];
    const store = { get: forever, set() {}, delete() {} };
    const cached = cacheResponses({
      store,
      namespace: 'n',
      timeoutMs: 100,
      clock: bench.clock,
      onError: (error) => failures.push(error),
    });
    const { result } = await runTurn(new AgentLoop(bench.config(cached(bench.model([{ text: 'Two.' }])))), {
      clock: bench.clock,
    });
    expect(result).toMatchObject({ status: 'completed', text: 'Two.' });
    expect(failures).toMatchObject([
      { message: 'The store of cacheResponses did not answer within 100 ms (timeoutMs).' },
    ]);
  });

  it('H-13 for a store that is told to pause, steer, answer or cancel a turn of another process', async () => {
    const store = Object.assign(new InMemoryStateStore(), { post: forever });
    const loop = new AgentLoop(bench.config(bench.model([{ text: 'Two.', never: true }]), { taskStateStore: store }));
    const turn = loop.startTurn(question, { taskId: 't' });
    const reading = turn.subscribe({ error() {} });
    const other = agent({
      id: 'tester',
      provider: bench.model([]),
      taskStateStore: store,
      clock: bench.clock,
      storeDeadlineMs: 500,
    });
    const refused = { code: 'UNAVAILABLE', message: expect.stringContaining('within 500 ms (storeDeadlineMs)') };
    for (const ask of [() => other.pause('t'), () => other.steer('t', 'More.')]) {
      const asked = expect(ask()).rejects.toMatchObject(refused);
      await new Promise(setImmediate);
      bench.clock.advance(500);
      await asked;
    }
    const late = { code: 'UNAVAILABLE', message: expect.stringContaining('(deadlineMs)') };
    const cancelled = expect(
      AgentLoop.cancel('t', { store, clock: bench.clock, deadlineMs: 50 }),
    ).rejects.toMatchObject(late);
    await new Promise(setImmediate);
    bench.clock.advance(50);
    await cancelled;
    reading.unsubscribe();
    await turn.settled.catch(() => {});
  });
});
