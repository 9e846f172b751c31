import { describe, expect, it } from '@jest/globals';
import { toolPermissions } from '../../src/extensions/permissions/tool-permissions.ts';
import { tool } from '../../src/tools/tool.ts';
import { says, user } from './agent-bench.ts';
import { answer, teamBench } from './team-bench.ts';

const { on, player, made } = teamBench();

describe('a conversation that is handed over', () => {
  it('is answered by the other agent, which is the current one from then on', async () => {
    const messageStore = on.messages();
    const handing = { toolCalls: [{ name: 'hand_off', arguments: { agentId: 'b', message: 'Your turn.' } }] };
    const [a, b] = [
      player('a', [handing]),
      player('b', [...answer('B here.'), ...answer('Still B.')], { description: 'Knows.' }),
    ];
    const two = made([a, b], { messageStore, handOff: true });
    const { text, message, reason } = await two.ask('Help.');
    expect([text, message, reason]).toEqual(['B here.', says('B here.'), 'handed_off']);
    expect(a.model.calls[0]?.tools).toMatchObject([
      { function: { name: 'hand_off', parameters: { properties: { agentId: { enum: ['b'] } } } } },
    ]);
    expect(b.model.calls[0]?.messages).toEqual([user('Your turn.')]);
    expect(two.getAgent().id).toBe('b');
    await expect(two.ask('And now?')).resolves.toMatchObject({ text: 'Still B.' });
    expect(messageStore.load('c').messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'user',
      'assistant',
    ]);
  });

  it('stays with its agent where the other one fails', async () => {
    const handing = { toolCalls: [{ name: 'hand_off', arguments: { agentId: 'b', message: 'Your turn.' } }] };
    const [a, b] = [player('a', [handing, ...answer('Then I do it.')]), player('b', [{ error: new Error('down') }])];
    const two = made([a, b], { handOff: true });
    await expect(two.ask('Help.')).resolves.toMatchObject({ text: 'Then I do it.', reason: 'stop' });
    expect(two.getAgent().id).toBe('a');
  });

  it('is handed over also where no tool may run that no rule names', async () => {
    const handing = { toolCalls: [{ name: 'hand_off', arguments: { agentId: 'b', message: 'Your turn.' } }] };
    const extensions = [toolPermissions({ rules: [], otherwise: 'deny' })];
    const two = made([player('a', [handing], { extensions }), player('b', answer('B here.'))], { handOff: true });
    await expect(two.ask('Help.')).resolves.toMatchObject({ text: 'B here.', reason: 'handed_off' });
  });

  it('is cancelled with the turn that handed it over, also where that was suspended', async () => {
    const handing = { toolCalls: [{ name: 'hand_off', arguments: { agentId: 'b', message: 'Delete it.' } }] };
    const remove = tool({
      name: 'remove',
      description: 'Deletes all of it.',
      parameters: { type: 'object' },
      needsApproval: true,
      execute: () => 'deleted',
    });
    const [a, b] = [player('a', [handing]), player('b', [{ toolCalls: [{ name: 'remove' }] }], { tools: [remove] })];
    const [c, store] = [player('c', []), on.bench.store];
    const three = made([a, c, b], { handOff: true, taskStateStore: store, messageStore: on.messages() });
    await expect(three.ask('Help.', { taskId: 't' })).resolves.toMatchObject({ status: 'input-required' });
    expect(store.load('t:1:0')).toMatchObject({ status: 'input-required', agentId: 'b' });
    await three.cancel('t', 'enough');
    expect(store.load('t')).toMatchObject({ status: 'canceled' });
    expect(store.load('t:1:0')).toMatchObject({ status: 'canceled' });
  });
});
