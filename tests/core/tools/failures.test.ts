import { describe, expect, it } from '@jest/globals';
import {
  type AgentLoopConfig,
  AgentLoopError,
  LocalToolProvider,
  type ToolProvider,
  type ToolResult,
  tool,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, type LLMStepCall, type ScriptedLLM } from 'millrace/testing';
import { z } from 'zod';
import { obedient, type PlainTool, plainTools } from '../plain-tools.ts';
import { turnBench } from '../turn-bench.ts';
import { outlineOf } from '../watch-events.ts';
import { question, runTurn, wait, whilePassing } from './run-turn.ts';

const bench = turnBench();

interface Scene {
  readonly calls: readonly (string | LLMStepCall)[];
  readonly tools: Readonly<Record<string, PlainTool>>;
  readonly config?: Partial<AgentLoopConfig>;
}

/** A model that asks for the calls and then answers, in a loop with the tools. */
function scene({ calls, tools, config }: Scene): { readonly model: ScriptedLLM; readonly loop: AgentLoop } {
  const toolCalls = calls.map((call) => (typeof call === 'string' ? { name: call } : call));
  const fails = config?.toolFailureMode === 'fail';
  const model = bench.model([{ toolCalls }, ...(fails ? [] : [{ text: 'Done.' }])]);
  return { model, loop: new AgentLoop(bench.config(model, { toolProviders: [plainTools(tools)], ...config })) };
}

const broken = () => {
  throw new RangeError('x must be positive');
};

/** The messages that the model was given for its calls. */
function answersOf(model: ScriptedLLM): readonly unknown[] {
  return (model.calls[1]?.messages ?? []).filter(({ role }) => role === 'tool');
}

describe('a tool that fails', () => {
  it('S1-55 S0-23 S2-35 S3-38 S4-41 by default gives the model an error result, and the turn goes on', async () => {
    const { model, loop } = scene({ calls: ['broken', 'fine'], tools: { broken, fine: () => 'fine' } });
    const { seen, result } = await runTurn(loop);
    const content = 'Tool error: RangeError: x must be positive';
    expect(answersOf(model)).toEqual([
      { role: 'tool', toolCallId: 'call_1_0', content, status: 'error' },
      { role: 'tool', toolCallId: 'call_1_1', content: 'fine' },
    ]);
    expect(seen.of('internal:tool-complete')).toMatchObject([
      {
        callId: '1:0',
        success: false,
        content,
        error: { code: 'TOOL_FAILED', message: 'RangeError: x must be positive' },
      },
      { callId: '1:1', success: true, content: 'fine' },
    ]);
    expect(result).toMatchObject({ status: 'completed', text: 'Done.', toolCalls: 2 });
    expect(model.calls).toHaveLength(2);
    const [span] = bench.spans.spans().filter(({ name }) => name === 'tool[broken]');
    expect(span?.status).toEqual({ code: 2, message: 'RangeError: x must be positive' });
  });

  it("S0-24 S4-41 with toolFailureMode 'fail' fails the turn: no further model call", async () => {
    const { model, loop } = scene({ calls: ['broken'], tools: { broken }, config: { toolFailureMode: 'fail' } });
    const { turn, seen, result } = await runTurn(loop);
    expect(model.calls).toHaveLength(1);
    expect(seen.events.at(-1)).toMatchObject({
      kind: 'status-update',
      final: true,
      status: { state: 'failed' },
      reason: 'tool_failed',
      error: { code: 'TOOL_FAILED' },
    });
    expect(seen.end).toBe('complete');
    expect(result).toMatchObject({
      name: 'AgentLoopError',
      code: 'TOOL_FAILED',
      message: 'RangeError: x must be positive',
      taskId: turn.taskId,
      result: { status: 'failed', toolCalls: 1 },
    });
  });

  it('fails the turn with the code of an error of ours', async () => {
    const limited = () => Promise.reject(new AgentLoopError('PROVIDER_RATE_LIMIT', 'slow down'));
    const { loop } = scene({ calls: ['limited'], tools: { limited }, config: { toolFailureMode: 'fail' } });
    expect((await runTurn(loop)).result).toMatchObject({ code: 'PROVIDER_RATE_LIMIT', message: 'slow down' });
  });

  it("with toolFailureMode 'fail' aborts the calls beside it, starts none behind it, and keeps the results there are", async () => {
    const reasons: unknown[] = [];
    let late = 0;
    const { loop } = scene({
      calls: ['fine', 'obedient', 'broken', 'late'],
      tools: {
        fine: () => 'fine',
        obedient: (context) =>
          obedient(context).catch((reason) => {
            reasons.push(reason);
            throw reason;
          }),
        broken: async () => broken(),
        late: { execute: () => ++late, sequential: true },
      },
      config: { toolFailureMode: 'fail', toolConcurrency: 3 },
    });
    const { seen, result } = await runTurn(loop, { taskId: 't' });
    expect(late).toBe(0);
    expect(reasons).toMatchObject([{ code: 'TOOL_FAILED' }]);
    expect(outlineOf(seen.of('internal:tool-complete'))).toEqual([
      'tool-complete 1:0 ok',
      'tool-complete 1:2 TOOL_FAILED',
      'tool-complete 1:1 CANCELED',
    ]);
    expect(result).toMatchObject({ code: 'TOOL_FAILED' });
    expect(bench.store.read('t').at(-1)).toMatchObject({ type: 'turn.failed', code: 'TOOL_FAILED' });
    expect(
      'result' in result && result.result.messages.map((message) => message.role === 'tool' && message.content),
    ).toEqual([
      false,
      'fine',
      expect.stringMatching('^Tool error: '),
      'Tool error: RangeError: x must be positive',
      'No result: the turn ended before this call finished.',
    ]);
  });

  it("S0-21 with toolFailureMode 'fail' fails the turn for an unknown tool", async () => {
    const { model, loop } = scene({
      calls: ['unknown'],
      tools: { fine: () => 1 },
      config: { toolFailureMode: 'fail' },
    });
    const { seen, result } = await runTurn(loop);
    expect(result).toMatchObject({ code: 'TOOL_NOT_FOUND' });
    expect(seen.of('internal:tool-start')).toEqual([]);
    expect(model.calls).toHaveLength(1);
  });

  it('S0-25 fails alike where the model streams and where it does not', async () => {
    const outlines = await Promise.all(
      [true, false].flatMap((streaming) =>
        (['continue', 'fail'] as const).map(async (toolFailureMode) => {
          const steps = [
            { toolCalls: [{ name: 'broken' }, { name: 'unknown' }, { name: 'fine', arguments: '{' }] },
            ...(toolFailureMode === 'fail' ? [] : [{ text: 'Done.' }]),
          ];
          const model = bench.model(steps, { streaming });
          const tools = plainTools({ broken, fine: () => 1 });
          const { seen, result } = await runTurn(
            new AgentLoop(bench.config(model, { toolProviders: [tools], toolFailureMode })),
          );
          const outline = outlineOf(seen.events).filter((line) => !/delta|answer-/.test(line));
          return { outline, messages: model.calls[1]?.messages, code: 'code' in result ? result.code : 'none' };
        }),
      ),
    );
    expect(outlines.slice(0, 2)).toEqual(outlines.slice(2));
    expect(outlines.map(({ code }) => code)).toEqual(['none', 'TOOL_NOT_FOUND', 'none', 'TOOL_NOT_FOUND']);
  });
});

describe('the time of a tool', () => {
  it.each([
    ['of the turn', {}, { toolTimeoutMs: 300 }],
    ['of the tool', { timeoutMs: 300 }, { toolTimeoutMs: 100 }],
  ])(
    'S1-57 S0-22 that runs over the limit %s gives an error result, aborts the signal, and the turn goes on',
    async (_, policy, config) => {
      const reasons: unknown[] = [];
      const slow: PlainTool = {
        ...policy,
        execute: async ({ signal }) => {
          signal.addEventListener('abort', () => reasons.push(signal.reason));
          await wait(bench.clock, 1_000);
          return 'too late';
        },
      };
      const { model, loop } = scene({ calls: ['slow'], tools: { slow }, config });
      const { seen, result } = await runTurn(loop, { clock: bench.clock });
      const message = 'the tool did not answer within 300 ms (timeoutMs of the tool, or toolTimeoutMs)';
      expect(answersOf(model)).toMatchObject([{ content: `Tool error: ${message}`, status: 'error' }]);
      expect(seen.of('internal:tool-complete')).toMatchObject([
        { success: false, error: { code: 'TOOL_TIMEOUT', message }, durationMs: 300 },
      ]);
      expect(reasons).toMatchObject([{ code: 'TOOL_TIMEOUT' }]);
      expect(result).toMatchObject({ status: 'completed' });
      bench.clock.advance(1_000);
    },
  );

  it('S1-57 S0-22 is 30 seconds by default, and its timer is called off where the tool answers in time', async () => {
    const startedAt = bench.clock.now();
    const { loop } = scene({ calls: ['never', 'quick'], tools: { never: obedient, quick: async () => 'quick' } });
    const turn = loop.startTurn(question);
    const result = turn.result();
    await bench.clock.whenPending();
    await whilePassing(bench.clock, result);
    expect(bench.clock.now() - startedAt).toBe(30_000);
    expect(bench.clock.pending).toBe(0);
  });

  it("with toolFailureMode 'fail' fails the turn when it is over", async () => {
    const { loop } = scene({
      calls: ['never'],
      tools: { never: obedient },
      config: { toolFailureMode: 'fail', toolTimeoutMs: 50 },
    });
    expect((await runTurn(loop, { clock: bench.clock })).result).toMatchObject({ code: 'TOOL_TIMEOUT' });
  });

  it('S2-25 S0-46 S0-53 ends each call once: a return, a throw and a timeout', async () => {
    const { loop } = scene({
      calls: ['fine', 'broken', 'slow'],
      tools: { fine: () => 1, broken, slow: () => wait(bench.clock, 500) },
      config: { toolTimeoutMs: 200 },
    });
    const { seen } = await runTurn(loop, { clock: bench.clock });
    bench.clock.advance(500);
    const events = seen.events.filter(({ kind }) => /tool-(start|complete)/.test(kind));
    expect(outlineOf(events)).toEqual([
      'tool-start 1:0 fine',
      'tool-start 1:1 broken',
      'tool-start 1:2 slow',
      'tool-complete 1:0 ok',
      'tool-complete 1:1 TOOL_FAILED',
      'tool-complete 1:2 TOOL_TIMEOUT',
    ]);
    expect(seen.of('internal:tool-complete').map(({ success }) => success)).toEqual([true, false, false]);
  });
});

describe('what a tool gives', () => {
  it.each([
    [0, '0'],
    [false, 'false'],
    ['', ''],
    [null, 'null'],
    [undefined, ''],
    [Number.NaN, 'NaN'],
    [[], '[]'],
  ])('is a result also where it is %j', async (value, content) => {
    const empty = tool({ name: 'empty', description: 'Gives it.', parameters: z.object({}), execute: () => value });
    const model = bench.model([{ toolCalls: [{ name: 'empty' }] }, { text: 'Done.' }]);
    const loop = new AgentLoop(bench.config(model, { toolProviders: [new LocalToolProvider([empty])] }));
    const { seen } = await runTurn(loop);
    expect(seen.of('internal:tool-complete')).toMatchObject([{ success: true, content }]);
    expect(answersOf(model)).toEqual([{ role: 'tool', toolCallId: 'call_1_0', content }]);
  });

  it.each(['null', '"2"', '{"content":2,"success":true}', '{}'])(
    'is an error result where a provider answers %s, which is no ToolResult',
    async (rubbish) => {
      const answer: ToolResult = JSON.parse(rubbish);
      const provider: ToolProvider = { ...plainTools({ odd: () => 1 }), executeTool: () => Promise.resolve(answer) };
      const model = bench.model([{ toolCalls: [{ name: 'odd' }] }, { text: 'Done.' }]);
      const loop = new AgentLoop(bench.config(model, { toolProviders: [provider] }));
      const { result } = await runTurn(loop);
      expect(result).toMatchObject({ status: 'completed' });
      expect(answersOf(model)).toMatchObject([
        { status: 'error', content: expect.stringContaining('return { toolCallId, content, success }') },
      ]);
    },
  );

  it('is not waited for once the turn has been cancelled and the time to stop is over', async () => {
    const started = gate();
    const { loop } = scene({
      calls: ['deaf'],
      tools: {
        deaf: async () => {
          void started.pass();
          await wait(bench.clock, 60_000);
        },
      },
      config: { toolFailureMode: 'fail', abortGraceMs: 100 },
    });
    const turn = loop.startTurn(question, { taskId: 't' });
    const result = turn.result().catch((error: AgentLoopError) => error);
    await started.reached;
    void turn.cancel('enough');
    expect(await whilePassing(bench.clock, result)).toMatchObject({ code: 'CANCELED', reason: 'enough' });
    expect(bench.store.read('t').slice(-2)).toMatchObject([
      { type: 'tool.result', error: { code: 'TOOL_ABANDONED' }, durationMs: 100 },
      { type: 'turn.canceled', reason: 'enough' },
    ]);
    bench.clock.advance(60_000);
  });
});
