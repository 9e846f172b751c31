import { describe, expect, it } from '@jest/globals';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { eventually } from '../../eventually.ts';
import { question } from '../dead-turn.ts';
import { plainTools } from '../plain-tools.ts';
import { ofRecords, watch } from '../watch-events.ts';
import { calls, questionBench } from './question-bench.ts';

const { bench, waiting, resumed, resumedWithoutModel } = questionBench();

describe('answers', () => {
  const tools = (runs: unknown[]) => ({
    one: { needsApproval: true, execute: () => runs.push('one') },
    two: { needsApproval: true, execute: () => runs.push('two') },
  });

  /** A turn whose first call runs, and that asks for the answer to its second; `config` is that of another process. */
  async function halfAnswered() {
    const running = gate();
    const tools = {
      one: { needsApproval: true, execute: () => running.pass() },
      two: { needsApproval: true, execute: () => 'two' },
    };
    await waiting(tools);
    const first = resumed({ '1:0': { approved: true } }, tools);
    watch(first.turn);
    await running.reached;
    return { first, running, config: bench.config(bench.model([]), { toolProviders: [plainTools(tools)] }) };
  }

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

  it('of a resume that waits reach the owner of the turn', async () => {
    const { first, running, config } = await halfAnswered();
    const second = AgentLoop.resume('t', config, { answers: { '1:1': { approved: true } }, onBusy: 'wait' });
    watch(second);
    await eventually(() => bench.store.read('t').filter(({ type }) => type === 'turn.answered').length === 2);
    running.open();
    expect(await first.turn.result()).toMatchObject({ status: 'completed' });
    expect(await second.result()).toMatchObject({ status: 'completed', text: 'Done.' });
  });

  it('of a resume that waits are refused where others came first', async () => {
    const { first, running, config } = await halfAnswered();
    const ends = Promise.allSettled(
      [true, false].map((approved) =>
        AgentLoop.resume('t', config, { answers: { '1:1': { approved } }, onBusy: 'wait' }).result(),
      ),
    );
    await eventually(() => bench.store.read('t').filter(({ type }) => type === 'turn.answered').length === 2);
    running.open();
    expect(await ends).toMatchObject(
      expect.arrayContaining([
        expect.objectContaining({ status: 'fulfilled', value: expect.objectContaining({ status: 'completed' }) }),
        expect.objectContaining({ status: 'rejected', reason: expect.objectContaining({ code: 'CONFLICT' }) }),
      ]),
    );
    await first.turn.settled;
  });

  it('of a resume that waits keep no cancel waiting where the owner is lost', async () => {
    await waiting(tools([]));
    bench.store.acquire('t', 'the lost', 60_000);
    const commands: unknown[] = [];
    const reading = bench.store.commands('t').subscribe(({ type }) => commands.push(type));
    const config = bench.config(bench.model([]), { toolProviders: [plainTools(tools([]))] });
    const second = AgentLoop.resume('t', config, { answers: { '1:0': { approved: true } }, onBusy: 'wait' });
    const watching = second.subscribe({ error: () => {} });
    await eventually(() => commands.includes('answer'));
    void second.cancel();
    await eventually(() => commands.includes('cancel'));
    reading.unsubscribe();
    watching.unsubscribe();
    bench.clock.advance(30_000);
    bench.leases.advance(60_000);
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
    [{ '1:0': { approved: true, reason: 3 } }, 'INVALID_INPUT', 'must be a string'],
    [
      { '1:0': { approved: true, arguments: { cents: 1 } } },
      'INVALID_INPUT',
      'the unknown member "arguments": an approval cannot change the arguments of a call; reject it with a reason',
    ],
    [{ '1:0': { approved: true, editedAction: {} } }, 'INVALID_INPUT', 'the unknown member "editedAction"'],
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

  const kinds = ['approval', 'input', 'auth', 'client-tool', 'in-doubt'] as const;

  it.each(kinds)(
    'to an approval are decisions, also where the model wrote a question of %s as the arguments',
    async (kind) => {
      const runs: unknown[] = [];
      const written = { taskId: 'c', question: { id: '1:0', callId: '1:0', kind, toolName: 'ask', data: {} } };
      const toolProviders = [plainTools(tools(runs))];
      const asking = [{ toolCalls: [{ name: 'one', arguments: written }] }];
      const turn = bench.loop(asking, { toolProviders }).startTurn(question, { taskId: 't' });
      await turn.result();
      await turn.settled;
      for (const answer of ['Berlin', { result: 'Berlin' }, { outcome: 'applied', content: 'Berlin' }]) {
        const refused = AgentLoop.answer('t', { store: bench.store, answers: { '1:0': answer } });
        await expect(refused).rejects.toMatchObject({ code: 'INVALID_INPUT' });
      }
      const { turn: next } = resumed({ '1:0': { approved: true } }, tools(runs));
      expect(await next.result()).toMatchObject({ status: 'completed' });
      expect(runs).toEqual(['one']);
    },
  );

  it.each(['Berlin', null, { approved: 'true' }, { result: true }])(
    'in a journal that are no decision approve nothing: %j',
    async (answer) => {
      const runs: unknown[] = [];
      await waiting({ one: tools(runs).one });
      const { store } = bench;
      const lease = store.acquire('t', 'another version', 1_000);
      const answered = { type: 'turn.answered' as const, callId: '1:0', questionId: '1:0', answer };
      store.append(lease, [{ ...answered, seq: lease.seq + 1, epoch: lease.epoch, at: 0 }], {
        status: 'input-required',
        barrier: true,
      });
      store.release(lease);
      const { turn, model } = resumed({}, { one: tools(runs).one });
      expect(await turn.result()).toMatchObject({ status: 'completed' });
      expect(runs).toEqual([]);
      expect(JSON.stringify(model.calls.at(-1))).toContain('the call was rejected: the answer was neither yes nor no');
    },
  );

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

describe('what others post', () => {
  it.each([
    { type: 'answer', answer: 1 },
    { type: 'answer', questionId: 5, answer: 1 },
    { type: 'steer' },
    { type: 'steer', message: { role: 'boss', content: 'Hurry!' } },
    { type: 'dance' },
  ])('is ignored if it is invalid: %j', async (command) => {
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
