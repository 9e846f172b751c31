import { describe, expect, it } from '@jest/globals';
import { type AgentLoopConfig, type Extension, replay, type ToolPolicy } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, type LLMStep } from 'millrace/testing';
import type { TurnRecord } from 'millrace/types';
import { answerOf, deadTurn, firstCall, intentOf, question } from '../core/dead-turn.ts';
import { obedient, type PlainTool, plainTools } from '../core/plain-tools.ts';
import { turnBench } from '../core/turn-bench.ts';
import { watch } from '../core/watch-events.ts';
import { testLimitMs } from '../eventually.ts';

const bench = turnBench();
const pears = { role: 'user', content: 'And pears?' } as const;
const calls = (...names: readonly string[]): LLMStep => ({ toolCalls: names.map((name) => ({ name })) });

/** That the journal of task `t` comes about again, with the same events. */
async function expectReplay(config: Partial<AgentLoopConfig> = {}) {
  const records = bench.store.read('t');
  const replayed = watch(replay(records, config, { patienceMs: testLimitMs }));
  await replayed.ended;
  expect(replayed.end).toBe('complete');
  expect(replayed.events).toEqual(watch(AgentLoop.observe('t', { store: bench.store })).events);
  expect(await replay(records, config).result()).toMatchObject({ taskId: 't', deviations: [], records });
}

function inBatch(
  tools: Readonly<Record<string, PlainTool>>,
  more: readonly LLMStep[] = [],
  options: Partial<AgentLoopConfig> = {},
) {
  const toolProviders = [plainTools(tools)];
  const loop = bench.loop([calls(...Object.keys(tools)), ...more], { toolProviders, ...options });
  return { turn: loop.startTurn(question, { taskId: 't' }), toolProviders };
}

describe('a replay', () => {
  it('runs no tool, asks no model, and gives parallel results in the recorded order', async () => {
    let runs = 0;
    const finish = gate();
    const { turn } = inBatch(
      {
        slow: async () => {
          runs++;
          await finish.pass();
        },
        quick: () => {
          runs++;
          finish.open();
        },
      },
      [{ text: 'Done.' }],
    );
    await turn.result();
    await expectReplay();
    const ended = watch(replay(bench.store.read('t')));
    await ended.ended;
    expect(ended.of('internal:tool-complete').map(({ callId }) => callId)).toEqual(['1:1', '1:0']);
    expect(runs).toBe(2);
  });

  it('fails in the middle of a batch where an extension failed it, before it looked at the last call', async () => {
    const afterToolCall = () => {
      throw new Error('it broke');
    };
    const options = { toolProviders: [plainTools({ count: () => 2 })], extensions: [{ name: 'x', afterToolCall }] };
    const loop = bench.loop([calls('count', 'nonsense')], { ...options, toolConcurrency: 1 });
    const turn = loop.startTurn(question, { taskId: 't' });
    await expect(turn.result()).rejects.toMatchObject({ code: 'EXTENSION_FAILED' });
    expect(bench.store.read('t').map(({ type }) => type)).toEqual([
      'turn.started',
      'llm.start',
      'llm.done',
      'tool.intent',
      'tool.result',
      'turn.failed',
    ]);
    await expectReplay();
  });

  it('skips a call that waited to run alone until an extension finished the turn', async () => {
    const extensions: readonly Extension[] = [
      { name: 'x', afterToolCall: ({ iteration }) => (iteration === 2 ? { finish: { text: 'Enough.' } } : undefined) },
    ];
    const alone: PlainTool = { sequential: true, execute: () => 'never' };
    const toolProviders = [plainTools({ one: async () => 1, other: async () => 2, alone })];
    const loop = bench.loop([calls('one', 'other'), calls('one', 'alone')], { toolProviders, extensions });
    expect(await loop.startTurn(question, { taskId: 't' }).result()).toMatchObject({ text: 'Enough.' });
    expect(
      bench.store
        .read('t')
        .filter(({ type }) => type === 'tool.result')
        .at(-1),
    ).toMatchObject({
      callId: '2:1',
      error: { code: 'TOOL_SKIPPED' },
    });
    await expectReplay();
  });

  it('takes a whole configuration, and uses neither its model nor its store', async () => {
    const { turn, toolProviders } = inBatch({ count: () => 'two' }, [{ text: 'Two.' }]);
    await turn.result();
    const before = bench.store.read('t');
    await expectReplay(bench.config(bench.model([]), { toolProviders }));
    expect(bench.store.read('t')).toEqual(before);
  });

  it('resolves with how a turn ended that failed, and throws no TurnError', async () => {
    const turn = bench.loop([{ text: 'Hm', error: new Error('cable cut') }]).startTurn(question, { taskId: 't' });
    await expect(turn.result()).rejects.toMatchObject({ code: 'PROVIDER_FAILED' });
    await expectReplay();
    const result = await replay(bench.store.read('t')).result();
    expect(result).toMatchObject({ status: 'failed', reason: 'provider_failed' });
  });

  it('stops where it is left', async () => {
    await bench
      .loop([{ text: 'Two.' }])
      .startTurn(question, { taskId: 't' })
      .result();
    const events: string[] = [];
    for await (const { kind } of replay(bench.store.read('t'))) {
      events.push(kind);
      break;
    }
    expect(events).toEqual(['task']);
  });

  it('refuses what is no journal, and options that there are not', () => {
    expect(() => replay([])).toThrow(expect.objectContaining({ code: 'POISON' }));
    // @ts-expect-error: no records
    expect(() => replay({})).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
    deadTurn(bench, [firstCall]);
    const records = bench.store.read('t');
    // @ts-expect-error: no such mode
    expect(() => replay(records, {}, { mode: 'lax' })).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
    expect(() => replay(records, {}, { patienceMs: 0 })).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
    const backwards = records.map((record) => ({ ...record, epoch: 9 - record.seq }));
    expect(() => replay(backwards)).not.toThrow();
    expect(() => replay([...backwards, { ...firstCall, seq: 3, epoch: 1, at: 0 }])).toThrow(/cannot have the epoch 1/);
  });
});

describe('what others asked of a turn is asked again', () => {
  it('a pause and the resume behind it', async () => {
    const { turn, toolProviders } = inBatch({ slow: () => turn.pause('lunch'), next: () => 'next' }, [], {
      toolConcurrency: 1,
    });
    expect(await turn.result()).toMatchObject({ status: 'input-required' });
    await expectReplay();
    await AgentLoop.resume('t', bench.config(bench.model([{ text: 'Done.' }]), { toolProviders })).result();
    await expectReplay();
  });

  it('steering, also by a command, and of a turn that would have ended', async () => {
    const { turn } = inBatch({ count: () => bench.store.post('t', { id: 'one', type: 'steer', message: pears }) }, [
      () => {
        turn.steer(pears);
        return { text: 'Two.' };
      },
      { text: 'No pears.' },
    ] as never);
    await turn.result();
    expect(bench.store.read('t').filter(({ type }) => type === 'x.steer')).toHaveLength(2);
    await expectReplay();
  });

  it('a cancel, with tools that stop, that end all the same, and that are abandoned', async () => {
    const { turn } = inBatch(
      {
        obedient,
        late: async ({ signal }) => {
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
          return 'late';
        },
        deaf: () => new Promise(() => {}),
        queued: () => 'never',
      },
      [],
      { toolConcurrency: 3, abortGraceMs: 100 },
    );
    await watch(turn).until('internal:tool-start', ({ callId }) => callId === '1:2');
    const settled = turn.cancel('enough');
    await new Promise(setImmediate);
    bench.clock.advance(100);
    await settled;
    const codes = bench.store
      .read('t')
      .flatMap((record) => (record.type === 'tool.result' ? [record.error?.code] : []));
    expect([...codes].sort()).toEqual(['CANCELED', 'TOOL_ABANDONED', undefined]);
    await expectReplay();
  });

  it.each([
    ['the function of the tool', { needsApproval: () => new Promise<never>(() => {}) }, []],
    ['an extension', {}, [{ name: 'policy', approveToolCall: () => new Promise<never>(() => {}) }]],
  ])('an approval that %s did not give in time', async (_who, policy, extensions) => {
    const guarded = { ...policy, timeoutMs: 50, execute: () => 'never' };
    const { turn } = inBatch({ guarded }, [{ text: 'Then not.' }], { extensions });
    await watch(turn).until('internal:llm-response');
    bench.clock.advance(50);
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    await expectReplay();
  });

  it('a cancel in a model call, and one from outside of a turn that nobody runs', async () => {
    const calling = bench.loop([{ never: true }]).startTurn(question, { taskId: 't' });
    await watch(calling).until('internal:llm-call');
    await calling.cancel('enough');
    await expectReplay();
    bench.store.delete('t');
    deadTurn(bench, [firstCall]);
    await AgentLoop.cancel('t', { store: bench.store, reason: 'enough', clock: bench.clock });
    await expectReplay();
  });

  it('a model call that is left where the process shuts down, and the resume behind it', async () => {
    const leaving = new AbortController();
    const model = bench.model([{ never: true }]);
    const config = bench.config(model, { shutdown: leaving.signal });
    const watcher = watch(new AgentLoop(config).startTurn(question, { taskId: 't' }));
    await watcher.until('internal:llm-call');
    leaving.abort();
    await watcher.ended;
    expect(bench.store.read('t').at(-1)).toMatchObject({ type: 'llm.start' });
    await expectReplay();
    await AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }]))).result();
    await expectReplay();
  });

  it('answers: with the resume, while the turn runs, and from another process', async () => {
    const tools: Readonly<Record<string, PlainTool>> = {
      guarded: { needsApproval: true, execute: () => 'done' },
      asks: (context) =>
        `${String(context.ask({ prompt: 'Which?', private: [1] }))} ${String(context.ask({ prompt: 'How many?' }))}`,
    };
    const { turn, toolProviders } = inBatch(tools);
    const watcher = watch(turn);
    await watcher.until('status-update', ({ questions }) => questions?.length === 2);
    expect(await turn.result()).toMatchObject({ status: 'input-required' });
    const config = () => bench.config(bench.model([]), { toolProviders });
    await AgentLoop.resume('t', config(), { answers: { '1:0': { approved: false, reason: 'no' } } }).result();
    await AgentLoop.answer('t', { store: bench.store, answers: { '1:1': 'red' }, clock: bench.clock });
    const last = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Done.' }]), { toolProviders }));
    last.subscribe((event) => {
      if (event.kind === 'status-update' && !event.final && event.questions?.[0]?.prompt === 'How many?') {
        last.answer('1:1.2', 3);
      }
    });
    expect(await last.result()).toMatchObject({ status: 'completed' });
    await expectReplay();
    await expectReplay({ toolProviders });
  });
});

const asking: ToolPolicy = { onInDoubt: 'ask' };

describe('a call in doubt comes out as it did', () => {
  it.each<[string, ToolPolicy]>([
    ['runs again', { idempotent: true, onInDoubt: 'retry' as const }],
    ['is unknown', {}],
    ['was applied', { onInDoubt: async () => ({ outcome: 'applied' as const, content: 'paid' }) }],
    ['was not', { onInDoubt: async () => ({ outcome: 'not-applied' as const }) }],
    ['could not be found out', { onInDoubt: async () => Promise.reject(new Error('no line')) }],
    ['is asked about', asking],
  ])('where it %s', async (_, policy) => {
    deadTurn(bench, [firstCall, answerOf(['pay']), intentOf(0)]);
    const toolProviders = [plainTools({ pay: { ...policy, execute: () => 'paid' } })];
    const model = bench.model(policy === asking ? [] : [{ text: 'Done.' }]);
    await AgentLoop.resume('t', bench.config(model, { toolProviders })).result();
    await expectReplay();
    await expectReplay({ toolProviders });
  });
});

describe('an extension that failed the turn before a call ran fails it again', () => {
  const deny = { code: 'GUARDRAIL', message: 'Not that.', reason: 'no_payments' } as const;
  const extensions: readonly Extension[] = [
    { name: 'x', beforeToolCall: ({ call }) => (call.function.name === 'pay' ? { fail: deny } : undefined) },
  ];
  const tools = (options: Partial<AgentLoopConfig> = {}) => ({
    toolProviders: [plainTools({ pay: () => 'paid', count: () => 2 })],
    extensions,
    ...options,
  });
  const offering: TurnRecord = {
    ...firstCall,
    tools: ['pay', 'count'].map((name) => ({ name, description: `Does ${name}.`, parameters: { type: 'object' } })),
  };
  const refused = {
    type: 'tool.result' as const,
    callId: '1:0',
    content: 'Tool error: Not that.',
    success: false,
    error: { code: deny.code, message: deny.message },
    arguments: {},
    durationMs: 0,
    fails: deny,
  };

  it('where another call had failed before', async () => {
    const turn = bench.loop([calls('nonsense'), calls('pay')], tools()).startTurn(question, { taskId: 't' });
    await expect(turn.result()).rejects.toMatchObject({ code: 'GUARDRAIL', result: { reason: 'no_payments' } });
    await expectReplay();
  });

  it('where that process died before it said so, and another did', async () => {
    deadTurn(bench, [offering, answerOf(['pay', 'count']), refused]);
    const resumed = AgentLoop.resume('t', bench.config(bench.model([]), tools()));
    await expect(resumed.result()).rejects.toMatchObject({ code: 'GUARDRAIL', result: { reason: 'no_payments' } });
    await expectReplay();
  });

  it('and a tool that failed it does, where another process went on to say so', async () => {
    const {
      arguments: _,
      fails: __,
      ...failed
    } = { ...refused, error: { code: 'TOOL_FAILED', message: 'Not that.' } } as const;
    deadTurn(bench, [firstCall, answerOf(['pay', 'pay']), intentOf(0), failed]);
    const resumed = AgentLoop.resume('t', bench.config(bench.model([]), tools({ toolFailureMode: 'fail' })));
    await expect(resumed.result()).rejects.toMatchObject({ code: 'TOOL_FAILED', result: { reason: 'tool_failed' } });
    await expectReplay();
  });
});
