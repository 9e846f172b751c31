import { describe, expect, it } from '@jest/globals';
import { inSequence, type RoutingStrategy, replay, tool } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { answer, handing, teamBench } from '../agent/team-bench.ts';
import { watch } from '../core/watch-events.ts';
import { testLimitMs } from '../eventually.ts';

const { on, player, made } = teamBench();

/** That the journal of task `t` is written again, with the same events. */
async function expectReplay() {
  const records = on.bench.store.read('t');
  const replayed = watch(replay(records, {}, { patienceMs: testLimitMs }));
  await replayed.ended;
  expect(replayed.end).toBe('complete');
  expect(replayed.events).toEqual(watch(AgentLoop.observe('t', { store: on.bench.store })).events);
  expect(await replay(records).result()).toMatchObject({ taskId: 't', deviations: [], records });
}

describe('a replay of a turn of several agents', () => {
  it('changes the agent where the recording does', async () => {
    const look = tool({ name: 'look', description: 'Looks.', parameters: { type: 'object' }, execute: () => 'seen' });
    const b = player('b', [{ toolCalls: [{ name: 'look' }] }, handing('c', 'To c.')], { tools: [look] });
    const three = made([player('a', [handing('b')]), b, player('c', answer('C.'))], { handOff: true });
    await three.ask('Go.', { taskId: 't', agentId: 'a' });
    await expectReplay();
  });

  it.each([
    ['in sequence', inSequence(['a', 'b'])],
    ['by a choice', { choose: async () => 'a' }],
  ] satisfies readonly (readonly [string, RoutingStrategy])[])('which answer %s', async (_, routing) => {
    const b = player('b', 'sequence' in routing ? answer('B.') : []);
    await made([player('a', answer('A.')), b], { routing }).ask('Go.', { taskId: 't' });
    await expectReplay();
  });

  it('which hand it over too often', async () => {
    const [a, b] = [player('a', [handing('b')]), player('b', [handing('a')])];
    const two = made([a, b], { handOff: true, maxHandOffs: 1 });
    await expect(two.ask('Go.', { taskId: 't' })).rejects.toMatchObject({ code: 'LIMIT' });
    await expectReplay();
  });
});
