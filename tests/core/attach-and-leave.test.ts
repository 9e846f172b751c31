import { describe, expect, it } from '@jest/globals';
import { AgentLoop } from '../../src/core/agent-loop.ts';
import { gate } from '../../src/testing/gate.ts';
import { question } from './dead-turn.ts';
import { turnBench } from './turn-bench.ts';
import { textsOf, watch } from './watch-events.ts';

const bench = turnBench();
const known = { taskId: 't', contextId: 'c' };

describe('leaving a turn that runs elsewhere', () => {
  it('stops watching and leaves the turn to its owner; who comes again sees all of it', async () => {
    const answer = gate();
    const model = bench.model([{ text: ['One', answer.pass(), ', two.'] }]);
    const owner = new AgentLoop(bench.config(model)).startTurn(question, { ...known, detached: true });
    const attached = bench.loop([]).startTurn(question, known);
    const first = watch(attached);
    await first.until('artifact-update');
    first.leave();
    const second = watch(attached);
    await second.until('artifact-update');
    answer.open();
    expect(await owner.result()).toMatchObject({ status: 'completed', text: 'One, two.' });
    expect(await attached.result()).toMatchObject({ status: 'completed', text: 'One, two.' });
    expect(textsOf(second.events)).toEqual({ 'answer-1': 'One, two.' });
  });

  it('goes on watching for a result() that waits', async () => {
    const answer = gate();
    const model = bench.model([{ text: ['One', answer.pass(), ', two.'] }]);
    const owner = new AgentLoop(bench.config(model)).startTurn(question, { ...known, detached: true });
    const attached = bench.loop([]).startTurn(question, known);
    const watcher = watch(attached);
    await watcher.until('artifact-update');
    const result = attached.result();
    watcher.leave();
    answer.open();
    expect(await result).toMatchObject({ status: 'completed', text: 'One, two.' });
    await owner.settled;
  });
});
