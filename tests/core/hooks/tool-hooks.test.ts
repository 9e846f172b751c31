import { describe, expect, it } from '@jest/globals';
import type { Extension, ToolContext, TurnError } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { answerOf, deadTurn, question } from '../dead-turn.ts';
import { plainTools } from '../plain-tools.ts';
import { turnBench } from '../turn-bench.ts';
import { watch } from '../watch-events.ts';

const bench = turnBench();
const call = { toolCalls: [{ name: 'count', arguments: { of: 'apples' } }] };

function countingTools(runs: unknown[], policy = {}) {
  return plainTools({
    count: {
      ...policy,
      execute: (context: ToolContext) => {
        runs.push(context.arguments);
        return 2;
      },
    },
  });
}

async function told(extension: Omit<Extension, 'name'>) {
  const runs: unknown[] = [];
  const model = bench.model([call, { text: 'Done.' }]);
  const options = { toolProviders: [countingTools(runs)], extensions: [{ name: 'x', ...extension }] };
  const result = await new AgentLoop(bench.config(model, options)).startTurn(question).result();
  return { runs, result, message: model.calls[1]?.messages.at(-1) };
}

describe('beforeToolCall', () => {
  it('S0-35 changes the arguments: the tool runs with them', async () => {
    const { runs } = await told({ beforeToolCall: () => ({ arguments: { of: 'pears' } }) });
    expect(runs).toEqual([{ of: 'pears' }]);
  });

  it('S0-35 answers in place of the tool, which does not run', async () => {
    const { runs, message } = await told({ beforeToolCall: () => ({ answer: { content: 'mocked' } }) });
    expect(runs).toEqual([]);
    expect(message).toMatchObject({ role: 'tool', content: 'mocked' });
  });

  it('S0-35 denies the call: the tool does not run and the model reads why', async () => {
    const { runs, message } = await told({ beforeToolCall: async () => ({ deny: 'not on Sundays' }) });
    expect(runs).toEqual([]);
    expect(message).toMatchObject({ role: 'tool', content: 'Tool error: not on Sundays', status: 'error' });
  });

  it('is asked again before a call runs again, so that it runs with the same arguments', async () => {
    const intent = { type: 'tool.intent', callId: '1:0', attempt: 1, arguments: { of: 'pears' } } as const;
    deadTurn(bench, [{ type: 'llm.start', iteration: 1, attempt: 1 }, answerOf(['count']), intent]);
    const runs: unknown[] = [];
    const toolProviders = [countingTools(runs, { readOnly: true, onInDoubt: 'retry' })];
    const extensions: readonly Extension[] = [{ name: 'x', beforeToolCall: () => ({ arguments: { of: 'pears' } }) }];
    const config = bench.config(bench.model([{ text: 'Two.' }]), { toolProviders, extensions });
    expect(await AgentLoop.resume('t', config).result()).toMatchObject({ status: 'completed' });
    expect(runs).toEqual([{ of: 'pears' }]);
  });

  it('fails the turn with what it threw; no call of the batch starts, and each has one result for the next turn', async () => {
    const extensions: readonly Extension[] = [
      {
        name: 'x',
        beforeToolCall({ callId }) {
          if (callId === '1:1') throw new Error('no such day');
        },
      },
    ];
    const runs: unknown[] = [];
    const calls = { toolCalls: [{ name: 'count' }, { name: 'count' }, { name: 'count' }] };
    const turn = bench.loop([calls], { toolProviders: [countingTools(runs)], extensions }).startTurn(question);
    const error: TurnError = await turn.result().catch((thrown) => thrown);
    expect(error).toMatchObject({ code: 'EXTENSION_FAILED', cause: { message: 'no such day' } });
    expect(runs).toEqual([]);
    expect(error.result.messages.map(({ role }) => role)).toEqual(['assistant', 'tool', 'tool', 'tool']);
  });

  it('fails the turn also while the hook of another call of the batch has not answered, whose signal aborts', async () => {
    const asked = gate();
    let signal: AbortSignal | undefined;
    const extension: Extension = {
      name: 'x',
      async beforeToolCall({ callId, signal: own }) {
        if (callId === '1:1') {
          signal = own;
          void asked.pass();
          return new Promise(() => {});
        }
        await asked.reached;
        return { fail: { code: 'EXTENSION_FAILED', message: 'not today' } };
      },
    };
    const runs: unknown[] = [];
    const calls = { toolCalls: [{ name: 'count' }, { name: 'count' }] };
    const loop = bench.loop([calls], { toolProviders: [countingTools(runs)], extensions: [extension] });
    const turn = loop.startTurn(question, { taskId: 't' });
    await expect(turn.result()).rejects.toMatchObject({ code: 'EXTENSION_FAILED', message: 'not today' });
    expect(signal).toMatchObject({ aborted: true, reason: { code: 'EXTENSION_FAILED' } });
    expect(runs).toEqual([]);
    expect(bench.clock.pending).toBe(0);
  });

  it('fails the turn also while another call waits for its approval, whose signal aborts', async () => {
    const asked = gate();
    let signal: AbortSignal | undefined;
    const extension: Extension = {
      name: 'x',
      async beforeToolCall({ callId }) {
        if (callId === '1:1') return undefined;
        await asked.reached;
        return { fail: { code: 'EXTENSION_FAILED', message: 'not today' } };
      },
      approveToolCall({ callId, signal: own }) {
        if (callId === '1:0') return { approved: true };
        signal = own;
        void asked.pass();
        return new Promise(() => {});
      },
    };
    const runs: unknown[] = [];
    const calls = { toolCalls: [{ name: 'count' }, { name: 'count' }] };
    const loop = bench.loop([calls], { toolProviders: [countingTools(runs)], extensions: [extension] });
    await expect(loop.startTurn(question).result()).rejects.toMatchObject({ message: 'not today' });
    expect(signal).toMatchObject({ aborted: true, reason: { code: 'EXTENSION_FAILED' } });
    expect(runs).toEqual([]);
    expect(bench.clock.pending).toBe(0);
  });

  it('that never settles fails the turn at its own limit, however short that of the tool is', async () => {
    const runs: unknown[] = [];
    const extensions: readonly Extension[] = [{ name: 'x', beforeToolCall: () => new Promise(() => {}) }];
    const toolProviders = [countingTools(runs, { timeoutMs: 1_000 })];
    const turn = bench.loop([call], { toolProviders, extensions }).startTurn(question);
    const watcher = watch(turn);
    await watcher.until('internal:llm-response');
    bench.clock.advance(59_999);
    bench.clock.advance(1);
    await watcher.ended;
    expect(watcher.of('internal:extension-error')).toMatchObject([{ hook: 'beforeToolCall', fatal: true }]);
    await expect(turn.result()).rejects.toMatchObject({
      code: 'EXTENSION_FAILED',
      message: expect.stringContaining('did not answer within 60000 ms'),
    });
    expect(runs).toEqual([]);
  });
});

describe('afterToolCall', () => {
  it.each([
    ['at once', () => ({ result: { content: '3' } })],
    ['later', async () => ({ result: { content: '3' } })],
  ])('S0-36 S3-24 changes the result %s: the model reads it, and never the original', async (_, afterToolCall) => {
    const { runs, message } = await told({ afterToolCall });
    expect(runs).toHaveLength(1);
    expect(message).toMatchObject({ role: 'tool', content: '3' });
  });

  it.each(['continue', 'fail'] as const)(
    "ends the turn with what it finishes with; calls that have not started are skipped, which fails no turn: toolFailureMode '%s'",
    async (toolFailureMode) => {
      const runs: unknown[] = [];
      const extensions: readonly Extension[] = [
        { name: 'x', afterToolCall: () => ({ finish: { text: 'enough', value: 7 } }) },
      ];
      const calls = { text: 'Counting.', toolCalls: [{ name: 'count' }, { name: 'count' }, { name: 'count' }] };
      const options = { toolProviders: [countingTools(runs)], extensions, toolConcurrency: 1, toolFailureMode };
      const result = await bench.loop([calls], options).startTurn(question).result();
      expect(result).toMatchObject({ status: 'completed', text: 'enough', value: 7, toolCalls: 3 });
      expect(runs).toHaveLength(1);
      expect(result.messages.map(({ role, content }) => [role, content])).toEqual([
        ['assistant', 'Counting.'],
        ['tool', '2'],
        ['tool', 'Tool error: skipped: the turn finished'],
        ['tool', 'Tool error: skipped: the turn finished'],
        ['assistant', 'enough'],
      ]);
    },
  );

  it.each([
    ['at once', () => ({ result: { content: 'gave up' } })],
    ['later', async () => ({ result: { content: 'gave up' } })],
  ])('changes the result of a call that ran into its limit %s', async (_, afterToolCall) => {
    const slow = plainTools({ count: { timeoutMs: 50, execute: () => new Promise(() => {}) } });
    const options = { toolProviders: [slow], extensions: [{ name: 'x', afterToolCall }] };
    const turn = bench.loop([call, { text: 'Done.' }], options).startTurn(question);
    await watch(turn).until('internal:tool-start');
    bench.clock.advance(50);
    expect((await turn.result()).messages).toContainEqual(
      expect.objectContaining({ role: 'tool', content: 'gave up' }),
    );
  });

  it('does not hold up the cancel of a turn whose call ran into its limit', async () => {
    const slow = plainTools({ count: { timeoutMs: 50, execute: () => new Promise(() => {}) } });
    const asked = gate();
    const afterToolCall = () => asked.pass().then(() => undefined);
    const options = { toolProviders: [slow], extensions: [{ name: 'x', afterToolCall }] };
    const turn = bench.loop([call], options).startTurn(question, { taskId: 't' });
    await watch(turn).until('internal:tool-start');
    bench.clock.advance(50);
    await asked.reached;
    await turn.cancel('enough');
    expect(bench.store.read('t').at(-2)).toMatchObject({ type: 'tool.result', error: { code: 'TOOL_TIMEOUT' } });
  });

  it('that throws fails the turn, and what the tool did is recorded', async () => {
    const afterToolCall = () => Promise.reject(new Error('no room'));
    const loop = bench.loop([call], { toolProviders: [countingTools([])], extensions: [{ name: 'x', afterToolCall }] });
    const turn = loop.startTurn(question, { taskId: 't' });
    await expect(turn.result()).rejects.toMatchObject({ code: 'EXTENSION_FAILED', cause: { message: 'no room' } });
    expect(bench.store.read('t').find(({ type }) => type === 'tool.result')).toMatchObject({
      content: '2',
      success: true,
    });
  });

  it('does not tell of a call that a dead process had started that it was skipped', async () => {
    const intent = { type: 'tool.intent', callId: '1:0', attempt: 1, arguments: {} } as const;
    const start = { type: 'llm.start', iteration: 1, attempt: 1 } as const;
    deadTurn(bench, [start, answerOf(['count']), intent, { type: 'x.done', effects: { finish: { text: 'enough' } } }]);
    const runs: unknown[] = [];
    const toolProviders = [countingTools(runs, { readOnly: true, onInDoubt: 'retry' })];
    const result = await AgentLoop.resume('t', bench.config(bench.model([]), { toolProviders })).result();
    expect(result).toMatchObject({ status: 'completed', text: 'enough' });
    expect(result.messages.at(-2)).toMatchObject({ content: expect.stringContaining('OUTCOME_UNKNOWN') });
    expect(runs).toEqual([]);
  });
});
