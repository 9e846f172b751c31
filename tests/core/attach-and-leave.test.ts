import { describe, expect, it } from '@jest/globals';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
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

  it('cancels it where it has become the own turn of who comes again', async () => {
    const leaving = new AbortController();
    const model = bench.model([{ never: true }]);
    const owned = bench.config(model, { shutdown: leaving.signal });
    const owner = new AgentLoop(owned).startTurn(question, { ...known, detached: true });
    await watch(owner).until('internal:llm-call');
    const attached = bench.loop([{ never: true }]).startTurn(question, known);
    const first = watch(attached);
    await first.until('internal:llm-call');
    first.leave();
    leaving.abort();
    await owner.settled.catch(() => {});
    const second = watch(attached);
    await second.until('internal:llm-call', ({ attempt }) => attempt === 2);
    second.leave();
    await attached.settled;
    expect(bench.store.read('t').at(-1)).toMatchObject({ type: 'turn.canceled', reason: 'every subscriber left' });
  });

  it('does not pause it again when it is watched again', async () => {
    const answer = gate();
    const model = bench.model([{ text: ['One', answer.pass(), ', two.'] }]);
    const owner = new AgentLoop(bench.config(model)).startTurn(question, { ...known, detached: true });
    const attached = bench.loop([]).startTurn(question, known);
    attached.pause('lunch');
    const first = watch(attached);
    await first.until('artifact-update');
    first.leave();
    const posted: unknown[] = [];
    const commands = bench.store.commands('t').subscribe((command) => posted.push(command));
    const second = watch(attached);
    await second.until('artifact-update');
    answer.open();
    await owner.settled;
    await second.ended;
    commands.unsubscribe();
    expect(posted).toHaveLength(1);
  });
});
