import { describe, expect, it } from '@jest/globals';
import { requireFinishedWork } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { answerOf, deadTurn, firstCall, question } from '../../core/dead-turn.ts';
import { turnBench } from '../../core/turn-bench.ts';

const bench = turnBench();

describe('requireFinishedWork', () => {
  it('S2-48 makes a turn go on while work is left', async () => {
    const todos = ['wash', 'dry'];
    const model = bench.model([{ text: 'Washed.' }, { text: 'Dried.' }, { text: 'All done.' }]);
    const work = requireFinishedWork({ prompt: () => (todos.length > 0 ? `Still open: ${todos.shift()}` : undefined) });
    const result = await new AgentLoop(bench.config(model, { extensions: [work] })).startTurn(question).result();
    expect(result).toMatchObject({ status: 'completed', text: 'All done.', iterations: 3 });
    expect(model.calls.map(({ messages }) => messages.at(-1)?.content)).toEqual([
      'How many?',
      'Still open: wash',
      'Still open: dry',
    ]);
  });

  it('gives up where the model never finishes, counting over a crash', async () => {
    deadTurn(bench, [
      firstCall,
      answerOf('Later.'),
      {
        type: 'x.require-finished-work',
        hook: 'beforeFinish',
        effects: { messages: [{ role: 'user', content: 'Go on.' }] },
        data: 1,
      },
    ]);
    const extensions = [requireFinishedWork({ prompt: async () => 'Go on.', maxReminders: 2 })];
    const config = bench.config(bench.model([{ text: 'Later still.' }, { text: 'No.' }]), { extensions });
    expect(await AgentLoop.resume('t', config).result()).toMatchObject({ status: 'completed', text: 'No.' });
  });

  it('reminds three times where nobody says how often', async () => {
    const model = bench.model(['No.', 'No!', 'Never.', 'Not today.'].map((text) => ({ text })));
    const extensions = [requireFinishedWork({ prompt: () => 'Go on.' })];
    const result = await new AgentLoop(bench.config(model, { extensions })).startTurn(question).result();
    expect(result).toMatchObject({ status: 'completed', text: 'Not today.' });
  });
});
