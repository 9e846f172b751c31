import { describe, expect, it } from '@jest/globals';
import type { AgentLoopConfig, AgentSetup, Extension, JournalRecord } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { ScriptedLLMStep } from 'millrace/testing';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { watch } from './watch-events.ts';

const bench = turnBench();

/** Gives the turn to the agent that the call names. */
const giving: Extension = {
  name: 'giving',
  toolProviders: [plainTools({ give: ({ arguments: args }) => `To ${takerOf(args)}.` })],
  afterToolCall: ({ call, callId, arguments: args }) =>
    call.function.name === 'give'
      ? { agent: { to: takerOf(args), reason: 'hand_off', callId, note: `Over to ${takerOf(args)}.` } }
      : undefined,
};

function takerOf(args: unknown): string {
  return typeof args === 'object' && args !== null && 'to' in args ? String(args.to) : '';
}

const gives = (to: string) => ({ toolCalls: [{ name: 'give', arguments: { to } }] });

/** Agents by id, each with a script; the turn begins with `tester`. */
function agentsOf(scripts: Readonly<Record<string, readonly ScriptedLLMStep[]>>, setup: Partial<AgentSetup> = {}) {
  const models = Object.fromEntries(Object.entries(scripts).map(([id, steps]) => [id, bench.model(steps)]));
  const agents = (id: string): AgentSetup | undefined => {
    const llmProvider = models[id];
    return llmProvider && { llmProvider, systemPrompt: `You are ${id}.`, ...setup };
  };
  return { models, agents };
}

function loopWith(agents: AgentLoopConfig['agents'], steps: readonly ScriptedLLMStep[], options = {}) {
  return bench.config(bench.model(steps), { extensions: [giving], ...(agents && { agents }), ...options });
}

const typesOf = (records: readonly JournalRecord[]) => records.map(({ type }) => type);

describe('a change of agent inside a turn', () => {
  it('goes on with the provider, the prompt and the iterations of the other one, on the same history', async () => {
    const { models, agents } = agentsOf({ b: [gives('c')], c: [{ text: ['It is ', 'C.'] }] }, { maxIterations: 1 });
    const turn = new AgentLoop(loopWith(agents, [gives('b')], { maxIterations: 1 })).startTurn(question, {
      taskId: 't',
    });
    const reader = watch(turn);
    await expect(turn.result()).resolves.toMatchObject({ text: 'It is C.', agentId: 'c', iterations: 3 });
    const [first] = models['c']?.calls ?? [];
    expect(first?.messages.map(({ role }) => role)).toEqual([
      ...['system', 'user', 'assistant', 'tool', 'user', 'assistant', 'tool', 'user'],
    ]);
    expect(first?.messages[0]).toEqual({ role: 'system', content: 'You are c.' });
    expect(first?.messages.at(-1)).toEqual({ role: 'user', content: 'Over to c.', name: 'b' });
    const speakers = reader.of('internal:llm-response').map(({ agentId }) => agentId);
    expect(speakers).toEqual(['tester', 'b', 'c']);
    expect(reader.of('artifact-update').map(({ agentId }) => agentId)).toEqual(['c', 'c', 'c']);
    expect(reader.events.at(-1)).toMatchObject({ kind: 'status-update', agentId: 'c', final: true });
  });

  it('is recorded right behind the result that closes the batch', async () => {
    const appends: (readonly string[])[] = [];
    const { models, agents } = agentsOf({ b: [{ text: 'B.' }], c: [] });
    const append = bench.store.append.bind(bench.store);
    bench.store.append = (...given: Parameters<typeof append>) => {
      appends.push(given[1].map(({ type }) => type));
      return append(...given);
    };
    const both = { toolCalls: [...gives('b').toolCalls, ...gives('c').toolCalls] };
    await new AgentLoop(loopWith(agents, [both])).startTurn(question).result();
    expect(appends.find((types) => types.includes('agent.changed'))).toEqual([
      'tool.result',
      'x.giving',
      'tool.result',
      'x.giving',
      'agent.changed',
    ]);
    expect(models['b']?.calls[0]?.messages.at(-1)).toEqual({ role: 'user', content: 'Over to b.', name: 'tester' });
  });

  it('asks the extensions of the one that leaves about its last iteration, and those of the other one before its first', async () => {
    const asked: string[] = [];
    const noting = (name: string): Extension => ({
      name,
      beforeTurn: ({ agentId }) => void asked.push(`${name} beforeTurn ${agentId}`),
      afterIteration: ({ agentId, iteration }) => void asked.push(`${name} afterIteration ${agentId} ${iteration}`),
      afterEnd: ({ agentId }) => void asked.push(`${name} afterEnd ${agentId}`),
    });
    const { agents } = agentsOf({ b: [{ text: 'B.' }] }, { extensions: [noting('own')] });
    const extensions = [giving, noting('shared')];
    await new AgentLoop(loopWith(agents, [gives('b')], { extensions })).startTurn(question).result();
    expect(asked).toEqual([
      'shared beforeTurn tester',
      'shared afterIteration tester 1',
      'own beforeTurn b',
      'shared afterIteration b 2',
      'own afterIteration b 2',
      'shared afterEnd b',
      'own afterEnd b',
    ]);
  });

  it('fails the turn with LIMIT where agents hand it over too often', async () => {
    const { agents } = agentsOf({ a: [gives('b'), gives('b')], b: [gives('a')] });
    const loop = new AgentLoop(loopWith(agents, [gives('a')], { maxHandOffs: 3 }));
    await expect(loop.startTurn(question).result()).rejects.toMatchObject({ code: 'LIMIT', reason: 'max_hand_offs' });
  });

  it('is lost, not failed, where the agent is not known, and goes on where it is', async () => {
    const { agents } = agentsOf({ b: [{ text: 'B.' }] });
    const down = new AbortController();
    const before = agentsOf({ b: [{ never: true }] });
    const config = loopWith(before.agents, [gives('b')], { shutdown: down.signal });
    const reader = watch(new AgentLoop(config).startTurn(question, { taskId: 't' }));
    await reader.until('internal:llm-call', ({ agentId }) => agentId === 'b');
    down.abort();
    await reader.ended;
    const without = AgentLoop.resume(
      't',
      loopWith(() => undefined, []),
    );
    await expect(without.result()).rejects.toMatchObject({ code: 'MISSING_AGENT', retryable: true });
    expect(typesOf(bench.store.read('t'))).not.toContain('turn.failed');
    await expect(AgentLoop.resume('t', loopWith(agents, [])).result()).resolves.toMatchObject({ text: 'B.' });
  });

  it('goes on for any number of changes, also where all answer at once', async () => {
    const { agents } = agentsOf({
      a: Array.from({ length: 200 }, () => gives('b')),
      b: [...Array.from({ length: 199 }, () => gives('a')), { text: 'Done.' }],
    });
    const loop = new AgentLoop(loopWith(agents, [gives('a')], { maxHandOffs: 1_000, store: false }));
    await expect(loop.startTurn(question).result()).resolves.toMatchObject({ text: 'Done.', iterations: 401 });
  });

  it('has a span of its own below the execution, with the name of the agent', async () => {
    const { agents } = agentsOf({ b: [{ text: 'B.' }] }, { name: 'Bea' });
    await new AgentLoop(loopWith(agents, [gives('b')])).startTurn(question).result();
    const [segment] = bench.spans.spans().filter(({ name }) => name === 'agent.segment');
    expect(segment?.attributes).toMatchObject({ 'gen_ai.agent.name': 'Bea', 'millrace.agent.id': 'b' });
  });
});
