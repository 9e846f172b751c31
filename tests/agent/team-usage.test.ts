import { describe, expect, it } from '@jest/globals';
import { inParallel, limits, router, supervisor } from 'millrace';
import type { ScriptedLLMStep } from 'millrace/testing';
import { handing, type Player, teamBench } from './team-bench.ts';

const bench = teamBench();
const used = (totalTokens: number) => ({ promptTokens: totalTokens - 1, completionTokens: 1, totalTokens });
const saying = (text: string, tokens: number): ScriptedLLMStep => ({ text, usage: used(tokens) });
const calling = (name: string, tokens: number): ScriptedLLMStep => ({
  toolCalls: [{ name, arguments: { message: 'Go.' } }],
  usage: used(tokens),
});

/** What each agent counts, and the team. */
const counted = (players: readonly Player[]) => players.map(({ agent }) => agent.usage?.usage.totalTokens ?? 0);

describe('the usage of a team', () => {
  it('T-17 of a hand-off is counted for each agent, and for the team as the sum', async () => {
    const a = bench.player('a', [{ ...handing('b'), usage: used(100) }]);
    const b = bench.player('b', [saying('Done.', 20)]);
    const team = bench.made([a, b], { handOff: true });
    const result = await team.ask('Go.');
    expect(result.usage.totalTokens).toBe(120);
    expect(result.usageBy.map(({ agentId, usage }) => [agentId, usage.totalTokens])).toEqual([
      ['a', 100],
      ['b', 20],
    ]);
    expect(counted([a, b])).toEqual([100, 20]);
    expect(team.usage?.usage.totalTokens).toBe(120);
    await team.close();
  });

  it('T-17 of a supervisor is counted with its helpers, nothing twice', async () => {
    const lead = bench.player('lead', [calling('a', 1), calling('b', 2), saying('Both say so.', 4)]);
    const a = bench.player('a', [saying('A.', 100)]);
    const b = bench.player('b', [saying('B.', 1_000)]);
    const team = bench.made([lead, a, b], { routing: supervisor('lead') });
    const result = await team.ask('Go.');
    expect(result.usage.totalTokens).toBe(1_107);
    expect(counted([lead, a, b])).toEqual([7, 100, 1_000]);
    expect(team.usage?.usage.totalTokens).toBe(1_107);
    await team.close();
  });

  it('T-17 of parallel answers, and of a router that asks a model, is counted', async () => {
    const a = bench.player('a', [saying('A.', 100)]);
    const b = bench.player('b', [saying('B.', 10)]);
    const both = bench.made([a, b], { routing: inParallel(['a', 'b']) });
    expect((await both.ask('Go.')).usage.totalTokens).toBe(110);
    expect(counted([a, b])).toEqual([100, 10]);
    expect(both.usage?.usage.totalTokens).toBe(110);
    await both.close();
    const guide = bench.player('guide', [saying('d', 5)]);
    const c = bench.player('c', []);
    const d = bench.player('d', [saying('D.', 50)]);
    const routed = bench.made([guide, c, d], { routing: router('guide') });
    const result = await routed.ask('Go.');
    expect(result.usage.totalTokens).toBe(55);
    expect(counted([guide, c, d])).toEqual([5, 0, 50]);
    expect(routed.usage?.usage.totalTokens).toBe(55);
    await routed.close();
  });

  it('T-18 of helpers reaches the limits of the agent that leads', async () => {
    const lead = bench.player('lead', [calling('a', 10)], { extensions: [limits({ maxTokens: 500 })] });
    const step = calling('nothing', 300);
    const a = bench.player('a', [step, step]);
    const team = bench.made([lead, a], { routing: supervisor('lead') });
    await expect(team.ask('Go.')).rejects.toMatchObject({ code: 'LIMIT', reason: 'max_tokens' });
    expect(a.model.calls).toHaveLength(2);
    await team.close();
  });
});
