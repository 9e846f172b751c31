import { describe, expect, it } from '@jest/globals';
import { AgentLoop } from 'millrace/internals';
import { answerOf, deadTurn, firstCall, intentOf, question, startedRecord } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { watch } from './watch-events.ts';

const bench = turnBench();

function cancel(reason?: string) {
  return AgentLoop.cancel('t', { store: bench.store, clock: bench.clock, ...(reason ? { reason } : {}) });
}

function lastRecord() {
  return bench.store.read('t').at(-1);
}

describe('AgentLoop.cancel', () => {
  it('stops a turn that another AgentLoop runs, with its reason', async () => {
    const model = bench.model([{ never: true }]);
    const turn = new AgentLoop(bench.config(model)).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    await cancel('enough');
    await turn.settled;
    expect(model.unsubscribed).toBe(1);
    expect(lastRecord()).toMatchObject({ type: 'turn.canceled', reason: 'enough' });
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'canceled' }, reason: 'enough', final: true });
  });

  it('S0-29 ends a turn that is suspended: it cannot be resumed any more', async () => {
    const toolProviders = [plainTools({ count: () => turn.pause('lunch') })];
    const loop = bench.loop([{ toolCalls: [{ name: 'count' }] }], { toolProviders });
    const turn = loop.startTurn(question, { taskId: 't' });
    await turn.result();
    await turn.settled;
    await cancel('enough');
    expect(lastRecord()).toMatchObject({ type: 'turn.canceled', reason: 'enough' });
    expect(bench.store.list()).toMatchObject([{ state: 'canceled', held: false }]);
    const again = AgentLoop.resume('t', bench.config(bench.model([])));
    await expect(again.result()).rejects.toMatchObject({ code: 'CANCELED', reason: 'enough' });
  });

  it('ends a turn whose process died, also with calls in doubt', async () => {
    deadTurn(bench, [firstCall, answerOf(['pay']), intentOf(0)]);
    await cancel();
    expect(lastRecord()).toMatchObject({ type: 'turn.canceled', reason: 'canceled', seq: 5 });
    expect(bench.store.load('t')).toMatchObject({ status: 'canceled', isComplete: true });
  });

  it('reaches whoever resumes a turn whose dead owner still seems to hold it', async () => {
    deadTurn(bench, [firstCall]);
    bench.store.acquire('t', 'the dead', 1_000);
    const canceled = cancel('enough');
    await bench.clock.whenPending(2);
    expect(lastRecord()).toMatchObject({ type: 'llm.start' });
    bench.leases.advance(1_000);
    const turn = AgentLoop.resume('t', bench.config(bench.model([])));
    await expect(turn.result()).rejects.toMatchObject({ code: 'CANCELED', reason: 'enough' });
    await canceled;
  });

  it('cancels a child turn that a hook started, however many tasks of the context are newer', async () => {
    deadTurn(bench, [firstCall]);
    const parent = { taskId: 't', callId: 'hook', agentId: 'tester', rootTaskId: 't' };
    deadTurn(bench, [firstCall], { taskId: 'child', agentId: 'helper', parent });
    for (let number = 0; number < 1_000; number++) {
      const taskId = `newer-${number}`;
      bench.store.create(taskId, startedRecord(bench.clock, { taskId }));
    }
    await cancel();
    expect(bench.store.load('child')).toMatchObject({ status: 'canceled' });
    expect(bench.store.load('newer-7')).toMatchObject({ isComplete: false });
  });

  it('does nothing to a turn that has ended', async () => {
    await bench
      .loop([{ text: 'Two.' }])
      .startTurn(question, { taskId: 't' })
      .result();
    const records = bench.store.read('t');
    await cancel();
    expect(bench.store.read('t')).toEqual(records);
  });

  it('rejects with NOT_FOUND for a turn that nobody started', async () => {
    await expect(cancel()).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('throws for an impossible id', () => {
    expect(() => AgentLoop.cancel('', { store: bench.store })).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT' }),
    );
  });
});
