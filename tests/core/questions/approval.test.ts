import { describe, expect, it } from '@jest/globals';
import type { ApprovalDecision, ApprovalRequest, Extension, ToolProvider } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { answerOf, deadTurn, firstCall, intentOf, question } from '../dead-turn.ts';
import { recordingLogger } from '../operators/recording-logger.ts';
import { type PlainTool, plainTools } from '../plain-tools.ts';
import { outlineOf, watch } from '../watch-events.ts';
import { calls, questionBench, statuses } from './question-bench.ts';

const { bench, waiting, resumed } = questionBench();

describe('a tool that needs approval', () => {
  const remove = (runs: unknown[]): PlainTool => ({
    needsApproval: true,
    execute: ({ callId, attempt }) => runs.push([callId, attempt]),
  });

  it('suspends the turn with its question; nothing was run or intended', async () => {
    const runs: unknown[] = [];
    const { result, watcher } = await waiting({ remove: remove(runs) });
    expect(result).toMatchObject({
      status: 'input-required',
      reason: 'waits for answers',
      questions: [{ callId: '1:0', kind: 'approval', toolName: 'remove', data: {} }],
    });
    expect(runs).toEqual([]);
    expect(outlineOf(watcher.events).slice(-4)).toEqual([
      'checkpoint after-llm 1',
      'status input-required',
      'paused (waits for answers)',
      'status input-required final (waits for answers)',
    ]);
    const types = bench.store.read('t').map(({ type }) => type);
    expect(types).toEqual(['turn.started', 'llm.start', 'llm.done', 'turn.asked', 'turn.suspended']);
    expect(bench.store.list()).toMatchObject([{ state: 'input-required', held: false }]);
  });

  it('runs once it is approved, in another process', async () => {
    const runs: unknown[] = [];
    await waiting({ remove: remove(runs) });
    const { turn } = resumed({ '1:0': { approved: true } }, { remove: remove(runs) });
    const watcher = watch(turn);
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Done.' });
    expect(runs).toEqual([['1:0', 1]]);
    expect(watcher.of('internal:tool-start')).toMatchObject([{ callId: '1:0', attempt: 1 }]);
  });

  it('is looked at by the extensions anew once it is approved: what they said before the question may be long over', async () => {
    const shown = gate();
    const deadlines: number[] = [];
    const guard: Extension = {
      name: 'guard',
      beforeToolCall({ callId, clock }) {
        if (callId !== '1:0') return undefined;
        deadlines.push(clock.now() + 1_000);
        return { deadline: clock.now() + 1_000 };
      },
    };
    const tools = { remove: remove([]), slow: () => shown.pass() };
    const turn = bench
      .loop([...calls('remove', 'slow'), { text: 'Done.' }], {
        toolProviders: [plainTools(tools)],
        extensions: [guard],
      })
      .startTurn(question, { taskId: 't' });
    await watch(turn).until('status-update', ({ status }) => status.state === 'input-required');
    bench.clock.advance(5_000);
    turn.answer('1:0', { approved: true });
    shown.open();
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(deadlines).toHaveLength(2);
    expect((deadlines[1] ?? 0) - (deadlines[0] ?? 0)).toBe(5_000);
  });

  it('is not run where it is rejected; the model reads why', async () => {
    const runs: unknown[] = [];
    await waiting({ remove: remove(runs) });
    const { turn, model } = resumed(
      { '1:0': { approved: false, reason: 'not on a Sunday' } },
      { remove: remove(runs) },
    );
    const watcher = watch(turn);
    await turn.result();
    expect(runs).toEqual([]);
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({
      role: 'tool',
      status: 'error',
      content: 'Tool error: the call was rejected: not on a Sunday',
    });
    expect(watcher.of('internal:tool-start')).toEqual([]);
    expect(watcher.of('internal:tool-complete')).toMatchObject([{ error: { code: 'TOOL_REJECTED' } }]);
  });

  it('lets the other calls go on, and is asked although they hold every place', async () => {
    const runs: unknown[] = [];
    const finish = gate();
    const toolProviders = [plainTools({ slow: () => finish.pass(), remove: remove(runs) })];
    const loop = bench.loop([...calls('slow', 'remove'), { text: 'Done.' }], { toolProviders, toolConcurrency: 1 });
    const turn = loop.startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('status-update', ({ questions }) => questions?.[0]?.callId === '1:1');
    await finish.reached;
    turn.answer('1:1', { approved: true });
    finish.open();
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(runs).toEqual([['1:1', 1]]);
    expect(statuses(watcher.events)).toEqual([
      ['working', false, undefined],
      ['input-required', false, ['1:1']],
      ['working', false, undefined],
      ['completed', true, undefined],
    ]);
  });

  it('can be answered from within the handler of its question, without a suspension', async () => {
    const runs: unknown[] = [];
    const loop = bench.loop([...calls('remove'), { text: 'Done.' }], {
      toolProviders: [plainTools({ remove: remove(runs) })],
    });
    const turn = loop.startTurn(question, { taskId: 't' });
    const watcher = watch(turn, (event) => {
      if (event.kind === 'status-update' && event.questions) turn.answer('1:0', { approved: true });
    });
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(runs).toHaveLength(1);
    expect(watcher.of('internal:paused')).toEqual([]);
  });

  it('is asked only where its function says so, which reads the checked arguments', async () => {
    const asked: unknown[] = [];
    const tools = {
      pay: {
        needsApproval: async (args: unknown, { taskId }: { taskId: string }) => {
          asked.push([args, taskId]);
          return false;
        },
        execute: () => 'paid',
      },
    };
    const loop = bench.loop([...calls('pay'), { text: 'Done.' }], { toolProviders: [plainTools(tools)] });
    expect(await loop.startTurn(question, { taskId: 't' }).result()).toMatchObject({ status: 'completed' });
    expect(asked).toEqual([[{}, 't']]);
  });

  describe('by an extension', () => {
    const extension = (decision: ApprovalDecision | undefined, name = 'policy') => ({
      name,
      approveToolCall: async () => decision,
    });
    const tools = { pay: { needsApproval: true, execute: () => 'paid' } };

    it('S0-37 is rejected: the tool is not run, the reason goes to the model', async () => {
      const requests: ApprovalRequest[] = [];
      const runs: string[] = [];
      const approver: Extension = {
        name: 'policy',
        approveToolCall(request) {
          requests.push(request);
          return { decision: 'reject', reason: 'too dear' };
        },
      };
      const toolProviders = [plainTools({ pay: () => runs.push('paid') })];
      const model = bench.model([{ toolCalls: [{ name: 'pay', arguments: { cents: 7 } }] }, { text: 'Done.' }]);
      const loop = new AgentLoop(bench.config(model, { toolProviders, extensions: [approver] }));
      const turn = loop.startTurn(question, { taskId: 't', authContext: { role: 'guest' } });
      expect(await turn.result()).toMatchObject({ status: 'completed' });
      expect(runs).toEqual([]);
      expect(requests).toMatchObject([{ callId: '1:0', arguments: { cents: 7 }, authContext: { role: 'guest' } }]);
      expect(model.calls[1]?.messages.at(-1)).toMatchObject({
        status: 'error',
        content: 'Tool error: the call was rejected: too dear',
      });
      const [result] = bench.store.read('t').filter(({ type }) => type === 'tool.result');
      expect(result).toMatchObject({ error: { code: 'TOOL_REJECTED' }, arguments: { cents: 7 } });
    });

    it.each([
      ['approved, whatever the tool says', [extension({ decision: 'approve' })], 'completed'],
      ['left to the tool', [extension(undefined)], 'input-required'],
      ['decided by the first', [extension({ decision: 'approve' }), extension({ decision: 'ask' }, 'b')], 'completed'],
    ])('is %s', async (_how, extensions, status) => {
      const steps = [...calls('pay'), ...(status === 'completed' ? [{ text: 'Done.' }] : [])];
      const turn = bench.loop(steps, { toolProviders: [plainTools(tools)], extensions }).startTurn(question);
      expect(await turn.result()).toMatchObject({ status });
    });

    it.each([
      [{ approved: true }, 'paid'],
      [{ approved: false, reason: 'too dear' }, 'Tool error: the call was rejected: too dear'],
    ])('U-06 is decided by %j, as an answer to the question is', async (decision, content) => {
      const model = bench.model([...calls('pay'), { text: 'Done.' }]);
      const config = bench.config(model, { toolProviders: [plainTools(tools)], extensions: [extension(decision)] });
      expect(await new AgentLoop(config).startTurn(question).result()).toMatchObject({ status: 'completed' });
      expect(model.calls[1]?.messages.at(-1)).toMatchObject({ content });
    });

    it.each([
      ['throws', () => Promise.reject(new Error('no rules')), 'no rules', 0],
      ['answers nonsense', () => JSON.parse('{"decision":"maybe"}'), 'it gave no decision', 0],
      ['answers nonsense of another type', () => JSON.parse('7'), 'it gave no decision', 0],
      ['does not answer', () => new Promise<never>(() => {}), 'it did not answer within 30000 ms', 30_000],
    ])(
      'U-06 refuses the call, and shows and logs its failure, where it %s',
      async (_how, approveToolCall, message, ms) => {
        const logger = recordingLogger();
        const runs: string[] = [];
        const toolProviders = [plainTools({ pay: () => runs.push('paid') })];
        const extensions = [{ name: 'policy', approveToolCall }];
        const loop = bench.loop([...calls('pay'), { text: 'Done.' }], { toolProviders, extensions, logger });
        const turn = loop.startTurn(question, { taskId: 't' });
        const watcher = watch(turn);
        const result = turn.result();
        await watcher.until('internal:llm-response');
        await new Promise((resolve) => setImmediate(resolve));
        bench.clock.advance(ms);
        expect(await result).toMatchObject({ status: 'completed' });
        expect(runs).toEqual([]);
        const shown = {
          extension: 'policy',
          hook: 'approveToolCall',
          fatal: false,
          message: expect.stringContaining(message),
        };
        expect(watcher.of('internal:extension-error')).toMatchObject([shown]);
        const error = expect.objectContaining({ message: expect.stringContaining(message) });
        const fields = { taskId: 't', extension: 'policy', hook: 'approveToolCall', error };
        expect(logger.lines).toContainEqual(['warn', 'extension failed', fields]);
      },
    );

    it('is asked in its words', async () => {
      const extensions = [extension({ decision: 'ask', prompt: 'Pay Ann?' })];
      const turn = bench.loop(calls('free'), { toolProviders: [plainTools({ free: () => 1 })], extensions });
      expect((await turn.startTurn(question).result()).questions).toMatchObject([{ prompt: 'Pay Ann?' }]);
    });

    it.each([
      ['throws', () => Promise.reject(new Error('no rules')), 'extension "policy" failed: no rules'],
      ['gives no decision', () => JSON.parse('{"decision":"maybe"}'), 'gave no decision'],
    ])('is refused where it %s', async (_how, approveToolCall, message) => {
      const extensions = [{ name: 'policy', approveToolCall }];
      const model = bench.model([...calls('pay'), { text: 'Done.' }]);
      const config = bench.config(model, { toolProviders: [plainTools(tools)], extensions });
      await new AgentLoop(config).startTurn(question).result();
      expect(model.calls[1]?.messages.at(-1)).toMatchObject({ content: expect.stringContaining(message) });
    });
  });

  it('is refused where its function fails', async () => {
    const needsApproval = () => {
      throw new Error('no rules today');
    };
    const toolProviders = [plainTools({ pay: { needsApproval, execute: () => 'paid' } })];
    const model = bench.model([...calls('pay'), { text: 'Done.' }]);
    await new AgentLoop(bench.config(model, { toolProviders })).startTurn(question).result();
    expect(model.calls[1]?.messages.at(-1)).toMatchObject({
      status: 'error',
      content: 'Tool error: the call was rejected: needsApproval failed: no rules today',
    });
  });
});

describe('what was approved', () => {
  const provider = (cents: number, paid: unknown[]): ToolProvider => ({
    getTools: () => [
      {
        type: 'function',
        function: { name: 'pay', description: 'Pays.', parameters: { type: 'object' } },
        needsApproval: true,
        checkArguments: () => ({ ok: true, value: { cents } }),
      },
    ],
    executeTool(call, context) {
      paid.push(context.arguments);
      return { toolCallId: call.id, content: 'paid', success: true };
    },
  });

  it('is what runs: with other arguments the turn asks again', async () => {
    const paid: unknown[] = [];
    await bench
      .loop(calls('pay'), { toolProviders: [provider(100, paid)] })
      .startTurn(question, { taskId: 't' })
      .result();
    const config = bench.config(bench.model([]), { toolProviders: [provider(99_999, paid)] });
    const again = AgentLoop.resume('t', config, { answers: { '1:0': { approved: true } } });
    expect(await again.result()).toMatchObject({ questions: [{ id: '1:0.2', data: { cents: 99_999 } }] });
    expect(paid).toEqual([]);
    const last = bench.config(bench.model([{ text: 'Done.' }]), { toolProviders: [provider(99_999, paid)] });
    await AgentLoop.resume('t', last, { answers: { '1:0.2': { approved: true } } }).result();
    expect(paid).toEqual([{ cents: 99_999 }]);
  });

  it('is not decided again where a call that had started runs once more', async () => {
    const runs: unknown[] = [];
    const extensions: readonly Extension[] = [{ name: 'strict', approveToolCall: () => ({ decision: 'reject' }) }];
    deadTurn(bench, [firstCall, answerOf(['pay']), intentOf(0)]);
    const tool = { idempotent: true, onInDoubt: 'retry' as const, execute: () => runs.push('paid') };
    const model = bench.model([{ text: 'Done.' }]);
    await AgentLoop.resume(
      't',
      bench.config(model, { toolProviders: [plainTools({ pay: tool })], extensions }),
    ).result();
    expect(runs).toEqual(['paid']);
  });

  it("and what was not is no failure, also with toolFailureMode 'fail'", async () => {
    const guarded: PlainTool = { needsApproval: true, execute: () => 'done' };
    await waiting({ guarded });
    const model = bench.model([{ text: 'Then not.' }]);
    const config = bench.config(model, { toolProviders: [plainTools({ guarded })], toolFailureMode: 'fail' });
    const turn = AgentLoop.resume('t', config, { answers: { '1:0': { approved: false } } });
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Then not.' });
  });
});
