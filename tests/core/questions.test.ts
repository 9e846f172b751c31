import { describe, expect, it } from '@jest/globals';
import { AgentLoop } from '../../src/core/agent-loop.ts';
import type { StatusUpdateEvent } from '../../src/core/events.ts';
import type { ApprovalDecision, ApprovalRequest, Extension } from '../../src/core/extension.ts';
import { gate } from '../../src/testing/gate.ts';
import { ClientToolProvider } from '../../src/tools/client-tool-provider.ts';
import type { ToolContext, ToolProvider } from '../../src/tools/interfaces.ts';
import { answerOf, deadTurn, firstCall, intentOf, question } from './dead-turn.ts';
import { type PlainTool, plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { ofRecords, outlineOf, watch } from './watch-events.ts';

const bench = turnBench();

const calls = (...names: string[]) => [{ toolCalls: names.map((name) => ({ name })) }];

/** A turn of these tools that called all of them and waits. */
async function waiting(tools: Readonly<Record<string, PlainTool>>) {
  const toolProviders = [plainTools(tools)];
  const turn = bench.loop(calls(...Object.keys(tools)), { toolProviders }).startTurn(question, { taskId: 't' });
  const watcher = watch(turn);
  const result = await turn.result();
  await turn.settled;
  return { result, watcher, toolProviders };
}

/** Goes on with task `t` in what might be another process. */
function resumed(answers: Readonly<Record<string, unknown>>, tools: Readonly<Record<string, PlainTool>>) {
  const model = bench.model([{ text: 'Done.' }]);
  const turn = AgentLoop.resume('t', bench.config(model, { toolProviders: [plainTools(tools)] }), { answers });
  return { turn, model };
}

const statuses = (events: readonly unknown[]) =>
  (events as readonly StatusUpdateEvent[])
    .filter(({ kind }) => kind === 'status-update')
    .map(({ status, final, questions }) => [status.state, final, questions?.map(({ callId }) => callId)]);

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

describe('a tool that asks', () => {
  const book =
    (seen: unknown[]): PlainTool =>
    (context: ToolContext) => {
      seen.push(context.attempt);
      const city = context.ask({ prompt: 'Where to?', data: { choices: ['Rome', 'Oslo'] } });
      const day = context.ask({ prompt: 'When?' });
      return `booked ${city} on ${day}`;
    };

  it('runs again with its answers, one question after the other', async () => {
    const seen: unknown[] = [];
    const { result } = await waiting({ book: book(seen) });
    expect(result.questions).toEqual([
      {
        id: '1:0',
        callId: '1:0',
        kind: 'input',
        toolName: 'book',
        prompt: 'Where to?',
        data: { choices: ['Rome', 'Oslo'] },
      },
    ]);
    const second = resumedWithoutModel({ '1:0': 'Rome' }, { book: book(seen) });
    expect((await second.result()).questions).toMatchObject([{ id: '1:0.2', callId: '1:0', prompt: 'When?' }]);
    const { turn, model } = resumed({ '1:0.2': 'Monday' }, { book: book(seen) });
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ content: 'booked Rome on Monday' });
    expect(seen).toEqual([1, 2, 3]);
  });

  it('asks also where it swallows what ask throws', async () => {
    const { result } = await waiting({
      quiet: ({ ask }) => {
        try {
          return ask({ prompt: 'Well?' });
        } catch {
          return 'never mind';
        }
      },
    });
    expect(result).toMatchObject({ status: 'input-required', questions: [{ prompt: 'Well?' }] });
  });

  it('makes the turn auth-required where it asks for a login', async () => {
    const { result } = await waiting({ login: (context) => context.ask({ kind: 'auth', prompt: 'Sign in' }) });
    expect(result).toMatchObject({ status: 'auth-required', questions: [{ kind: 'auth' }] });
    expect(bench.store.list()).toMatchObject([{ state: 'auth-required' }]);
  });

  it('is told what is wrong with a question', async () => {
    const toolProviders = [plainTools({ odd: (context) => context.ask({ data: 1n }) })];
    const model = bench.model([...calls('odd'), { text: 'Done.' }]);
    await new AgentLoop(bench.config(model, { toolProviders })).startTurn(question).result();
    expect(model.calls[1]?.messages.at(-1)).toMatchObject({
      content: expect.stringContaining('data that is not JSON'),
    });
  });
});

function resumedWithoutModel(answers: Readonly<Record<string, unknown>>, tools: Readonly<Record<string, PlainTool>>) {
  return AgentLoop.resume('t', bench.config(bench.model([]), { toolProviders: [plainTools(tools)] }), { answers });
}

describe('a tool of the client', () => {
  const provider = () =>
    new ClientToolProvider([
      { name: 'locate', description: 'Where the user is.', parameters: { type: 'object', required: ['exact'] } },
    ]);
  const locate = { toolCalls: [{ name: 'locate', arguments: { exact: true } }] };

  it('S1-50 suspends the turn; the client posts its result, and the turn goes on', async () => {
    const toolProviders = [provider()];
    const first = bench.loop([locate], { toolProviders }).startTurn(question, { taskId: 't' });
    const watcher = watch(first);
    expect(await first.result()).toMatchObject({
      status: 'input-required',
      questions: [{ callId: '1:0', kind: 'client-tool', toolName: 'locate', data: { exact: true } }],
    });
    await AgentLoop.answer('t', { store: bench.store, answers: { '1:0': { result: { city: 'Oslo' } } } });
    expect(bench.store.list()).toMatchObject([{ state: 'working', held: false }]);
    const model = bench.model([{ text: 'Oslo.' }]);
    const again = AgentLoop.resume('t', bench.config(model, { toolProviders: [provider()] }));
    const later = watch(again);
    expect(await again.result()).toMatchObject({ status: 'completed', text: 'Oslo.' });
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ role: 'tool', content: '{"city":"Oslo"}' });
    expect(statuses(watcher.events).at(-1)).toEqual(['input-required', true, ['1:0']]);
    expect(statuses(later.events)).toEqual([
      ['working', false, undefined],
      ['input-required', false, ['1:0']],
      ['input-required', false, ['1:0']],
      ['working', false, undefined],
      ['working', false, undefined],
      ['completed', true, undefined],
    ]);
  });

  it('may have failed', async () => {
    const first = bench.loop([locate], { toolProviders: [provider()] }).startTurn(question, { taskId: 't' });
    await first.result();
    const model = bench.model([{ text: 'Sorry.' }]);
    const config = bench.config(model, { toolProviders: [provider()] });
    await AgentLoop.resume('t', config, { answers: { '1:0': { error: 'no GPS' } } }).result();
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ status: 'error', content: 'Tool error: no GPS' });
  });

  it('is not asked with arguments that do not fit', async () => {
    const model = bench.model([{ toolCalls: [{ name: 'locate', arguments: {} }] }, { text: 'Sorry.' }]);
    const loop = new AgentLoop(bench.config(model, { toolProviders: [provider()] }));
    expect(await loop.startTurn(question).result()).toMatchObject({ status: 'completed' });
    expect(model.calls[1]?.messages.at(-1)).toMatchObject({
      status: 'error',
      content: expect.stringContaining('exact'),
    });
  });
});

describe('a call in doubt whose tool says ask', () => {
  const pay = (runs: unknown[]): PlainTool => ({ onInDoubt: 'ask', execute: ({ attempt }) => runs.push(attempt) });

  async function asked() {
    const runs: unknown[] = [];
    deadTurn(bench, [firstCall, answerOf(['pay']), intentOf(0)]);
    const turn = resumedWithoutModel({}, { pay: pay(runs) });
    const result = await turn.result();
    return { runs, result };
  }

  it('suspends the turn', async () => {
    const { runs, result } = await asked();
    expect(result).toMatchObject({
      status: 'input-required',
      questions: [{ callId: '1:0', kind: 'in-doubt', toolName: 'pay', data: {} }],
    });
    expect(runs).toEqual([]);
  });

  it.each([
    [{ outcome: 'applied', content: 'paid before' }, [], 'paid before'],
    [{ outcome: 'not-applied' }, [2], '1'],
    [{ outcome: 'unknown' }, [], expect.stringContaining('OUTCOME_UNKNOWN')],
  ])('does as it is answered: %j', async (answer, expected, told) => {
    const { runs } = await asked();
    const { turn, model } = resumed({ '1:0': answer }, { pay: pay(runs) });
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(runs).toEqual(expected);
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ content: told });
  });

  it('is settled beside a sequential tool that runs without letting others start', async () => {
    const runs: unknown[] = [];
    const finish = gate();
    const tools = {
      pay: pay([]),
      alone: { sequential: true, execute: () => finish.pass() },
      next: () => runs.push('next'),
    };
    deadTurn(bench, [firstCall, answerOf(['pay', 'alone', 'next']), intentOf(0)]);
    const { turn } = resumed({}, tools);
    const watcher = watch(turn);
    await finish.reached;
    turn.answer('1:0', { outcome: 'applied', content: 'paid before' });
    await watcher.until('internal:tool-complete', ({ callId }) => callId === '1:0');
    expect(runs).toEqual([]);
    finish.open();
    expect(await turn.result()).toMatchObject({ status: 'completed', toolCalls: 3 });
    expect(runs).toEqual(['next']);
  });

  it('does not ask again where the answer is in the journal and the process died behind it', async () => {
    const { runs } = await asked();
    await AgentLoop.answer('t', { store: bench.store, answers: { '1:0': { outcome: 'applied', content: 'paid' } } });
    const { turn, model } = resumed({}, { pay: pay(runs) });
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ content: 'paid' });
  });
});

describe('answers', () => {
  const tools = (runs: unknown[]) => ({
    one: { needsApproval: true, execute: () => runs.push('one') },
    two: { needsApproval: true, execute: () => runs.push('two') },
  });

  it('are matched by call; what is not answered is asked on', async () => {
    const runs: unknown[] = [];
    await waiting(tools(runs));
    const second = resumedWithoutModel({ '1:1': { approved: true } }, tools(runs));
    expect(await second.result()).toMatchObject({ status: 'input-required', questions: [{ callId: '1:0' }] });
    expect(runs).toEqual(['two']);
    const { turn } = resumed({ '1:0': { approved: true } }, tools(runs));
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(runs).toEqual(['two', 'one']);
  });

  it('have to come: a resume without any only shows the turn, and writes nothing', async () => {
    const { watcher } = await waiting(tools([]));
    const before = bench.store.read('t').length;
    const again = resumedWithoutModel({}, tools([]));
    const later = watch(again);
    expect(await again.result()).toMatchObject({ status: 'input-required' });
    expect(ofRecords(later.events)).toEqual(ofRecords(watcher.events));
    expect(bench.store.read('t')).toHaveLength(before);
  });

  it.each([
    [
      { '1:7': true },
      'INVALID_INPUT',
      'there is no open question "1:7"; open questions: "1:0" (approval, one), "1:1" (approval, two)',
    ],
    [{ '1:0': true }, 'INVALID_INPUT', 'the answer to question "1:0" must be { "approved": true }'],
    [{ '1:0': { approved: true, reason: 3 } }, 'INVALID_INPUT', 'must be a text'],
    [{ '1:0': undefined }, 'INVALID_INPUT', 'is not JSON'],
  ])('that do not fit are refused: %j', async (answers, code, message) => {
    await waiting(tools([]));
    const before = bench.store.read('t').length;
    const refusal = { code, message: expect.stringContaining(message) };
    await expect(resumedWithoutModel(answers, tools([])).result()).rejects.toMatchObject(refusal);
    await expect(AgentLoop.answer('t', { store: bench.store, answers })).rejects.toMatchObject(refusal);
    expect(bench.store.read('t')).toHaveLength(before);
    expect(bench.store.list()).toMatchObject([{ held: false }]);
  });

  it('count once: the same again does nothing, another is a conflict', async () => {
    await waiting(tools([]));
    const { store } = bench;
    await AgentLoop.answer('t', { store, answers: { '1:0': { approved: false } } });
    const before = store.read('t').length;
    await AgentLoop.answer('t', { store, answers: { '1:0': { approved: false } } });
    expect(store.read('t')).toHaveLength(before);
    await expect(AgentLoop.answer('t', { store, answers: { '1:0': { approved: true } } })).rejects.toMatchObject({
      code: 'CONFLICT',
      message: 'Question "1:0" of task "t" was answered otherwise before.',
    });
  });

  it('reach the owner of a running turn, from any process', async () => {
    const runs: unknown[] = [];
    const finish = gate();
    const toolProviders = [plainTools({ slow: () => finish.pass(), ...tools(runs) })];
    const loop = bench.loop([...calls('slow', 'one'), { text: 'Done.' }], { toolProviders });
    const turn = loop.startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await finish.reached;
    await AgentLoop.answer('t', { store: bench.store, answers: { '1:1': { approved: true } } });
    await watcher.until('internal:tool-complete');
    expect(runs).toEqual(['one']);
    finish.open();
    expect(await turn.result()).toMatchObject({ status: 'completed' });
  });

  it('are passed on by a turn that only watches', async () => {
    const runs: unknown[] = [];
    const finish = gate();
    const toolProviders = [plainTools({ slow: () => finish.pass(), ...tools(runs) })];
    const owner = bench.loop([...calls('slow', 'one'), { text: 'Done.' }], { toolProviders });
    const turn = owner.startTurn(question, { taskId: 't', contextId: 'c' });
    watch(turn);
    await finish.reached;
    const attached = bench.loop([], { toolProviders }).startTurn(question, { taskId: 't', contextId: 'c' });
    const watcher = watch(attached);
    await watcher.until('status-update', ({ questions }) => questions !== undefined);
    attached.answer('1:1', { approved: true });
    await watcher.until('internal:tool-complete');
    finish.open();
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(runs).toEqual(['one']);
  });

  it('to a turn that is over are refused', async () => {
    const turn = bench.loop([{ text: 'Done.' }]).startTurn(question, { taskId: 't' });
    await turn.result();
    const answers = { '1:0': { approved: true } };
    await expect(AgentLoop.answer('t', { store: bench.store, answers })).rejects.toMatchObject({ code: 'TERMINAL' });
    await expect(AgentLoop.answer('u', { store: bench.store, answers })).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});

describe('an answer that comes again', () => {
  const twice =
    (seen: unknown[]): PlainTool =>
    (context: ToolContext) => {
      seen.push(context.ask({ prompt: 'Where?' }));
      seen.push(context.ask({ prompt: 'When?' }));
      return 'booked';
    };

  it('is not taken for the next question of the call', async () => {
    const seen: unknown[] = [];
    await waiting({ book: twice(seen) });
    for (const _ of ['once', 'again']) {
      const turn = resumedWithoutModel({ '1:0': 'Rome' }, { book: twice(seen) });
      expect(await turn.result()).toMatchObject({ questions: [{ id: '1:0.2', prompt: 'When?' }] });
    }
    const { turn } = resumed({ '1:0': 'Rome', '1:0.2': 'today' }, { book: twice(seen) });
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(seen).toEqual(['Rome', 'Rome', 'today']);
  });

  it('of an approval is not taken for what the tool asks', async () => {
    const card: PlainTool = {
      needsApproval: true,
      execute: ({ ask }) => `paid with ${ask({ prompt: 'Which card?' })}`,
    };
    await waiting({ card });
    const approval = { '1:0': { approved: true } };
    expect(await resumedWithoutModel(approval, { card }).result()).toMatchObject({ questions: [{ id: '1:0.2' }] });
    expect(await resumedWithoutModel(approval, { card }).result()).toMatchObject({ questions: [{ id: '1:0.2' }] });
    const { turn, model } = resumed({ '1:0.2': 'visa' }, { card });
    await turn.result();
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ content: 'paid with visa' });
  });

  it('does nothing behind the end of its batch, so that a request can be sent again', async () => {
    const guarded: PlainTool = { needsApproval: true, execute: () => 'done' };
    await waiting({ guarded });
    const answers = { '1:0': { reason: 'fine', approved: true } };
    const { turn } = resumed(answers, { guarded });
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    const again = resumedWithoutModel({ '1:0': { approved: true, reason: 'fine' } }, { guarded });
    expect(await again.result()).toMatchObject({ status: 'completed' });
    await AgentLoop.answer('t', { store: bench.store, answers });
    const late = resumedWithoutModel({ '1:0': { approved: false } }, { guarded });
    await expect(late.result()).rejects.toMatchObject({ code: 'CONFLICT' });
    await expect(resumedWithoutModel({ '7:7': 1 }, {}).result()).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    const other = AgentLoop.answer('t', { store: bench.store, answers: { '1:0': { approved: false } } });
    await expect(other).rejects.toMatchObject({ code: 'CONFLICT' });
  });

  it('at the same time as another counts once: the other is told so', async () => {
    const finish = gate();
    const guarded: PlainTool = { needsApproval: true, execute: () => 'done' };
    const toolProviders = [plainTools({ slow: () => finish.pass(), guarded })];
    const loop = bench.loop([...calls('slow', 'guarded'), { text: 'Done.' }], { toolProviders });
    const turn = loop.startTurn(question, { taskId: 't' });
    watch(turn);
    await finish.reached;
    const answer = (approved: boolean) =>
      AgentLoop.answer('t', { store: bench.store, answers: { '1:1': { approved } }, clock: bench.clock });
    const settled = await Promise.allSettled([answer(true), answer(true), answer(false)]);
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
    expect(settled[2]).toMatchObject({ reason: { code: 'CONFLICT' } });
    finish.open();
    await turn.result();
  });

  it('is what JSON makes of it, whatever becomes of the object', async () => {
    const seen: unknown[] = [];
    const book: PlainTool = (context) => seen.push(context.ask({ prompt: 'When?' }));
    await waiting({ book });
    const given = { day: new Date(0), odd: undefined };
    await AgentLoop.answer('t', { store: bench.store, answers: { '1:0': given } });
    given.day = new Date(1);
    await resumed({}, { book }).turn.result();
    expect(seen).toEqual([{ day: '1970-01-01T00:00:00.000Z' }]);
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

describe('what others post', () => {
  it.each([
    { type: 'answer', answer: 1 },
    { type: 'answer', questionId: 5, answer: 1 },
    { type: 'steer' },
    { type: 'steer', message: { role: 'boss', content: 'Hurry!' } },
    { type: 'dance' },
  ])('is passed over where it makes no sense: %j', async (command) => {
    const finish = gate();
    const toolProviders = [plainTools({ slow: () => finish.pass() })];
    const loop = bench.loop([...calls('slow'), { text: 'Done.' }], { toolProviders });
    const turn = loop.startTurn(question, { taskId: 't' });
    watch(turn);
    await finish.reached;
    bench.store.post('t', JSON.parse(JSON.stringify({ id: 'x', ...command })));
    finish.open();
    expect(await turn.result()).toMatchObject({ status: 'completed' });
  });
});

describe('a turn that waits', () => {
  it('is suspended as long as a question is open, also where one of two is answered', async () => {
    const guarded = { needsApproval: true, execute: () => 'done' };
    const { toolProviders } = await waiting({ one: guarded, two: guarded });
    await AgentLoop.answer('t', { store: bench.store, answers: { '1:0': { approved: true } } });
    expect(bench.store.list()).toMatchObject([{ state: 'input-required', held: false }]);
    const observed = watch(AgentLoop.observe('t', { store: bench.store }));
    expect(observed.end).toBe('complete');
    expect(statuses(observed.events).at(-1)).toEqual(['input-required', true, ['1:1']]);
    const again = AgentLoop.resume('t', bench.config(bench.model([]), { toolProviders }));
    expect(await again.result()).toMatchObject({ toolCalls: 1, questions: [{ id: '1:1' }] });
  });

  it('can be cancelled, and keeps every call with one result', async () => {
    await waiting({ remove: { needsApproval: true, execute: () => 'gone' } });
    await AgentLoop.cancel('t', { store: bench.store, reason: 'never mind' });
    const { turn } = { turn: AgentLoop.resume('t', bench.config(bench.model([]))) };
    const error = await turn.result().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: 'CANCELED',
      reason: 'never mind',
      result: { messages: [{ role: 'assistant' }, { role: 'tool', status: 'error' }] },
    });
  });

  it('loses no steering message that came with a pause in the middle of a batch', async () => {
    const finish = gate();
    const toolProviders = [plainTools({ slow: () => finish.pass() })];
    const turn = bench
      .loop(calls('slow', 'slow'), { toolProviders, toolConcurrency: 1 })
      .startTurn(question, { taskId: 't' });
    watch(turn);
    await finish.reached;
    turn.steer({ role: 'user', content: 'And be quick.' });
    turn.pause();
    finish.open();
    await turn.result();
    const { turn: again, model } = resumed({}, { slow: () => 'x' });
    await again.result();
    expect(model.calls[0]?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool', 'user']);
  });
});
