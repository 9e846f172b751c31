import { describe, expect, it } from '@jest/globals';
import { foldRecords, type TaskStateStore } from 'millrace';
import { AgentLoop, commitOf } from 'millrace/internals';
import { type Gate, gate } from 'millrace/testing';
import { eventually } from '../../eventually.ts';
import { answerOf, deadTurn, firstCall, intentOf } from '../dead-turn.ts';
import { type PlainTool, plainTools } from '../plain-tools.ts';
import { questionBench } from './question-bench.ts';

const { bench, waiting, resumed, resumedWithoutModel } = questionBench();

interface Decision {
  readonly kind: string;
  readonly tool: PlainTool;
  readonly first: unknown;
  readonly second: unknown;
}

const decisions: readonly Decision[] = [
  {
    kind: 'approval',
    tool: { needsApproval: true, execute: () => 'paid' },
    first: { approved: false, reason: 'no' },
    second: { approved: true },
  },
  { kind: 'input', tool: ({ ask }) => String(ask({ prompt: 'Where?' })), first: 'Rome', second: 'Oslo' },
  {
    kind: 'client-tool',
    tool: ({ ask }) => JSON.stringify(ask({ prompt: 'Where?', kind: 'client-tool' })),
    first: { result: 'here' },
    second: { error: 'not allowed' },
  },
  {
    kind: 'in-doubt',
    tool: { onInDoubt: 'ask', execute: () => 'paid' },
    first: { outcome: 'applied', content: 'paid before' },
    second: { outcome: 'not-applied' },
  },
];

const cases = decisions.flatMap((each) => (['fail', 'wait'] as const).map((onBusy) => ({ ...each, onBusy })));

async function suspended({ kind, tool }: Decision): Promise<void> {
  if (kind !== 'in-doubt') return void (await waiting({ tool }));
  deadTurn(bench, [firstCall, answerOf(['tool']), intentOf(0)]);
  await resumedWithoutModel({}, { tool }).result();
}

/** The store as another process sees it whose calls of one method are on their way until the gate opens. */
function delayed(method: 'acquire' | 'post', held: Gate): TaskStateStore {
  return new Proxy<TaskStateStore>(bench.store, {
    get(store, name) {
      const value: unknown = Reflect.get(store, name);
      if (typeof value !== 'function') return value;
      if (name !== method) return value.bind(store);
      return async (...given: readonly unknown[]) => {
        await held.pass();
        return value.apply(store, given);
      };
    },
  });
}

describe('R-05 two opposite decisions', () => {
  it.each(cases)(
    'R-05 about $kind, with onBusy $onBusy: the first ends the turn, the second is a conflict',
    async (each) => {
      const { tool, first, second, onBusy } = each;
      await suspended(each);
      const held = gate();
      const toolProviders = [plainTools({ tool })];
      const config = bench.config(bench.model([]), { toolProviders, taskStateStore: delayed('acquire', held) });
      const late = AgentLoop.resume('t', config, { answers: { '1:0': second }, onBusy }).result();
      await held.reached;
      expect(await resumed({ '1:0': first }, { tool }).turn.result()).toMatchObject({ status: 'completed' });
      held.open();
      await expect(late).rejects.toMatchObject({ code: 'CONFLICT' });
    },
  );

  it.each(decisions)(
    'R-05 about $kind: an answer that arrives after the end of the turn is a conflict',
    async (each) => {
      const { tool, first, second } = each;
      await suspended(each);
      const held = gate();
      const late = AgentLoop.answer('t', { store: delayed('post', held), answers: { '1:0': second } });
      await held.reached;
      await resumed({ '1:0': first }, { tool }).turn.result();
      held.open();
      await expect(late).rejects.toMatchObject({ code: 'CONFLICT' });
    },
  );

  it('R-05 with onBusy wait: a decision that the owner took no notice of is a conflict, once another was taken', async () => {
    const [each] = decisions;
    if (!each) throw new Error('no decision');
    await suspended(each);
    const lease = bench.store.acquire('t', 'the deaf', 60_000);
    const config = bench.config(bench.model([]), { toolProviders: [plainTools({ tool: each.tool })] });
    const posted: string[] = [];
    const reading = bench.store.commands('t').subscribe(({ type }) => posted.push(type));
    const late = AgentLoop.resume('t', config, { answers: { '1:0': each.second }, onBusy: 'wait' }).result();
    await eventually(() => posted.length > 0);
    reading.unsubscribe();
    const answered = { type: 'turn.answered', callId: '1:0', questionId: '1:0', answer: each.first } as const;
    const end = { type: 'turn.canceled', reason: 'enough' } as const;
    // The answer was not recorded in time: from here on the turn is watched.
    bench.clock.advance(30_000);
    const { steps } = commitOf({ epoch: lease.epoch, now: () => 0 }, foldRecords(bench.store.read('t')), [
      answered,
      end,
    ]);
    bench.store.append(
      lease,
      steps.map(({ record }) => record),
      { status: 'canceled', barrier: true },
    );
    await expect(late).rejects.toMatchObject({ code: 'CONFLICT' });
  });

  it('R-05 the loser leaves no lease behind where the turn asks on', async () => {
    const tool: PlainTool = ({ ask }) => `${ask({ prompt: 'Where?' })} ${ask({ prompt: 'When?' })}`;
    await waiting({ tool });
    const held = gate();
    const config = bench.config(bench.model([]), { taskStateStore: delayed('acquire', held) });
    const late = AgentLoop.resume('t', config, { answers: { '1:0': 'Oslo' } }).result();
    await held.reached;
    expect(await resumedWithoutModel({ '1:0': 'Rome' }, { tool }).result()).toMatchObject({ status: 'input-required' });
    held.open();
    await expect(late).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(bench.store.describe('t')).toMatchObject({ held: false });
  });

  it('R-05 the same decision twice succeeds twice', async () => {
    const [each] = decisions;
    if (!each) throw new Error('no decision');
    await suspended(each);
    const held = gate();
    const config = bench.config(bench.model([]), { taskStateStore: delayed('acquire', held) });
    const late = AgentLoop.resume('t', config, { answers: { '1:0': each.first } }).result();
    await held.reached;
    await resumed({ '1:0': each.first }, { tool: each.tool }).turn.result();
    held.open();
    expect(await late).toMatchObject({ status: 'completed', text: 'Done.' });
  });
});
