import { describe, expect, it } from '@jest/globals';
import { agentTools, finalOnly } from 'millrace';
import { plainTools } from '../core/plain-tools.ts';
import { textsOf, watch } from '../core/watch-events.ts';
import { agentBench } from './agent-bench.ts';

const on = agentBench();

describe('finalOnly', () => {
  it('S2-20 gives the final text once, at the end, while the turn itself has all deltas', async () => {
    const steps = [{ text: 'Let me see.', toolCalls: [{ name: 'count' }] }, { text: ['It is ', 'two.'] }];
    const ada = on.agent(steps, { toolProviders: [plainTools({ count: () => 2 })] });
    const turn = ada.startTurn('How many?');
    const [all, final] = [watch(turn), watch(turn.pipe(finalOnly()))];
    await Promise.all([turn.result(), final.ended]);
    expect(textsOf(all.events)).toEqual({ 'answer-1': 'Let me see.', 'answer-2': 'It is two.' });
    expect(textsOf(final.events)).toEqual({});
    expect(JSON.stringify(final.events)).not.toContain('Let me see.');
    const saying = final.events.filter((event) => JSON.stringify(event).includes('It is'));
    expect(saying).toMatchObject([
      { kind: 'status-update', final: true, status: { message: { parts: [{ kind: 'text', text: 'It is two.' }] } } },
    ]);
    expect(final.of('internal:tool-complete')).toHaveLength(1);
  });

  it('S2-20 says nothing of what a sub-agent says on the way', async () => {
    const helper = on.agent([{ text: 'Let me see.', toolCalls: [{ name: 'count' }] }, { text: 'Two.' }], {
      name: 'helper',
      toolProviders: [plainTools({ count: () => 2 })],
    });
    const steps = [{ toolCalls: [{ name: 'helper', arguments: { message: 'Count.' } }] }, { text: 'It is two.' }];
    const turn = on.agent(steps, { toolProviders: [agentTools([helper])] }).startTurn('How many?');
    const final = watch(turn.pipe(finalOnly()));
    await Promise.all([turn.result(), final.ended]);
    expect(final.of('internal:sub-agent').length).toBeGreaterThan(3);
    expect(JSON.stringify(final.events)).not.toContain('Let me see.');
  });
});
