import { describe, expect, it } from '@jest/globals';
import { LocalToolProvider, type ToolDefinition, type ToolListContext, type ToolProvider, tool } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, scriptedLLM } from 'millrace/testing';
import { plainTools } from '../plain-tools.ts';
import { turnBench } from '../turn-bench.ts';
import { question, runTurn } from './run-turn.ts';

const bench = turnBench();

const parameters = { type: 'object', properties: { q: { type: 'string' } }, required: ['q'] } as const;
const search = (answer: string) =>
  tool({ name: 'search', description: 'Searches.', parameters, execute: () => answer });
const definition: ToolDefinition = {
  type: 'function',
  function: { name: 'search', description: 'Searches.', parameters },
};

/** A provider that notes what it is asked. */
function asked(getTools: ToolProvider['getTools'] = () => [definition]) {
  const lists: ToolListContext[] = [];
  const runs: string[] = [];
  const provider: ToolProvider = {
    name: 'asked',
    getTools(context) {
      lists.push(context);
      return getTools(context);
    },
    executeTool(call) {
      runs.push(call.id);
      return { toolCallId: call.id, content: 'found', success: true };
    },
  };
  return { provider, lists, runs };
}

describe('tool providers', () => {
  it('S1-47 are asked for their tools once a turn, whatever the number of iterations, and again on resume', async () => {
    const { provider, lists, runs } = asked();
    const pausing = plainTools({ pause: () => turn.pause('lunch') });
    const loop = bench.loop(
      [
        { toolCalls: [{ name: 'search', arguments: { q: 'a' } }] },
        { toolCalls: [{ name: 'search', arguments: { q: 'b' } }, { name: 'pause' }] },
      ],
      { toolProviders: [provider, pausing] },
    );
    const turn = loop.startTurn(question, {
      taskId: 't',
      contextId: 'c',
      metadata: { tenant: 'one' },
      authContext: { user: 'ann' },
    });
    expect(lists).toHaveLength(0);
    expect(await turn.result()).toMatchObject({ status: 'input-required' });
    const context = { taskId: 't', agentId: 'tester', contextId: 'c', metadata: { tenant: 'one' } };
    expect(lists).toEqual([expect.objectContaining({ ...context, authContext: { user: 'ann' } })]);
    const config = bench.config(bench.model([{ text: 'Done.' }]), { toolProviders: [provider, pausing] });
    await AgentLoop.resume('t', config, { authContext: { user: 'bob' } }).result();
    expect(lists[1]).toMatchObject({ ...context, authContext: { user: 'bob' } });
    expect(lists).toHaveLength(2);
    expect(runs).toEqual(['call_1_0', 'call_2_0']);
  });

  it('are offered as they list their tools for this turn, also where they listed others for the turn before', async () => {
    const named = (name: string): ToolDefinition => ({ ...definition, function: { ...definition.function, name } });
    const [find, hunt] = [named('find'), named('hunt')];
    const listed = [[definition], [definition], [definition, find], [hunt, find], [find, hunt], [find]];
    let turns = 0;
    const { provider } = asked(() => listed[turns++] ?? []);
    const model = bench.model([...listed, []].map(() => ({ text: 'Done.' })));
    const loop = new AgentLoop(bench.config(model, { toolProviders: [provider] }));
    for (const _ of [...listed, []]) await loop.startTurn(question).result();
    const names = model.calls.map(({ tools = [] }) => tools.map((each) => each.function.name));
    expect(names).toEqual([
      ['search'],
      ['search'],
      ['search', 'find'],
      ['hunt', 'find'],
      ['find', 'hunt'],
      ['find'],
      [],
    ]);
  });

  it('that an extension adds to one turn are unknown in the next turn of the loop', async () => {
    const extra = plainTools({ extra: () => 'ran' });
    const model = bench.model([
      { toolCalls: [{ name: 'search', arguments: { q: 'a' } }] },
      { toolCalls: [{ name: 'extra' }] },
      { text: 'Done.' },
      { toolCalls: [{ name: 'extra' }] },
      { text: 'Done.' },
    ]);
    const extensions = [
      {
        name: 'adder',
        afterIteration: ({ taskId, iteration }: { readonly taskId: string; readonly iteration: number }) =>
          taskId === 'one' && iteration === 1 ? { tools: { add: [extra] } } : undefined,
      },
    ];
    const loop = new AgentLoop(bench.config(model, { toolProviders: [asked().provider], extensions }));
    await loop.startTurn(question, { taskId: 'one' }).result();
    await loop.startTurn(question, { taskId: 'two' }).result();
    const results = model.calls.map(({ messages }) => messages.at(-1)?.content);
    expect([results[2], results[4]]).toEqual(['ran', expect.stringMatching(/tool "extra" is not known/)]);
  });

  it('S1-48 run each call of theirs once', async () => {
    const [first, second] = [
      asked(),
      asked(() => [{ ...definition, function: { ...definition.function, name: 'find' } }]),
    ];
    const model = bench.model([
      {
        toolCalls: [
          { name: 'search', id: 'a' },
          { name: 'find', id: 'b' },
          { name: 'search', id: 'c' },
        ],
      },
      { text: 'Done.' },
    ]);
    const loop = new AgentLoop(bench.config(model, { toolProviders: [first.provider, second.provider] }));
    const { seen } = await runTurn(loop);
    expect([first.runs, second.runs]).toEqual([['a', 'c'], ['b']]);
    expect(model.calls[1]?.messages.slice(-3)).toMatchObject(
      ['a', 'b', 'c'].map((id) => ({ role: 'tool', toolCallId: id, content: 'found' })),
    );
    expect(seen.of('internal:tool-complete')).toHaveLength(3);
  });

  it('S1-19 S4-11 are merged: the model is offered the tools of all, with their schemas unchanged, without the engine’s own members', async () => {
    const weigh = tool({
      name: 'weigh',
      description: 'Weighs.',
      parameters,
      execute: () => 1,
      timeoutMs: 5,
      readOnly: true,
    });
    const model = bench.model([{ text: 'Done.' }]);
    const toolProviders = [new LocalToolProvider([weigh]), asked().provider, plainTools({})];
    await runTurn(new AgentLoop(bench.config(model, { toolProviders })));
    expect(model.calls[0]?.tools).toEqual([
      { type: 'function', function: { name: 'weigh', description: 'Weighs.', parameters } },
      { type: 'function', function: { name: 'search', description: 'Searches.', parameters } },
    ]);
  });

  it('S0-03 list and run what was registered, and nothing else', async () => {
    const provider = new LocalToolProvider([search('found')]);
    const model = bench.model([
      { toolCalls: [{ name: 'search', arguments: { q: 'a' } }, { name: 'find' }] },
      { text: 'Done.' },
    ]);
    const { seen } = await runTurn(new AgentLoop(bench.config(model, { toolProviders: [provider] })));
    expect(model.calls[0]?.tools?.map((each) => each.function.name)).toEqual(['search']);
    expect(seen.of('internal:tool-complete')).toMatchObject([
      { toolName: 'find', success: false },
      { toolName: 'search', success: true, content: 'found' },
    ]);
  });

  it('S4-13 are offered only to a model that takes tools, and only where there are any', async () => {
    const plain = bench.model([{ text: 'Done.' }], { capabilities: { tools: false } });
    const able = bench.model([{ text: 'Done.' }]);
    await runTurn(new AgentLoop(bench.config(plain, { toolProviders: [asked().provider] })));
    await runTurn(new AgentLoop(bench.config(able, { toolProviders: [plainTools({})] })));
    for (const { calls } of [plain, able]) {
      expect(calls).toHaveLength(1);
      expect(calls[0]).not.toHaveProperty('tools');
    }
  });

  it('S1-20 S4-45 of two tools with one name fail the turn at the start, both named', async () => {
    const model = bench.model([]);
    const toolProviders = [new LocalToolProvider([search('a')], { name: 'web' }), asked().provider];
    const { seen, result } = await runTurn(new AgentLoop(bench.config(model, { toolProviders })));
    expect(result).toMatchObject({
      code: 'DUPLICATE_TOOL',
      message: 'Two tools are called "search", one of web and one of asked; rename one of them.',
    });
    expect(seen.events.at(-1)).toMatchObject({ status: { state: 'failed' }, error: { code: 'DUPLICATE_TOOL' } });
    expect(model.calls).toHaveLength(0);
  });

  it('S1-20 S4-45 are known by their class where they have no name, and one may repeat itself', async () => {
    class Twice implements ToolProvider {
      getTools() {
        return [definition, definition];
      }
      executeTool = asked().provider.executeTool;
    }
    const { result } = await runTurn(bench.loop([], { toolProviders: [new Twice()] }));
    expect(result).toMatchObject({ message: expect.stringContaining('one of Twice and one of Twice') });
  });

  it('S4-46 of two loops have tools of the same name, and each runs its own', async () => {
    const run = async (answer: string) => {
      const model = bench.model([{ toolCalls: [{ name: 'search', arguments: { q: 'a' } }] }, { text: 'Done.' }]);
      await runTurn(new AgentLoop(bench.config(model, { toolProviders: [new LocalToolProvider([search(answer)])] })));
      return model.calls[1]?.messages.at(-1)?.content;
    };
    expect(await Promise.all([run('ours'), run('theirs')])).toEqual(['ours', 'theirs']);
  });

  it.each([
    ['rejects', () => Promise.reject(new Error('the registry is down'))],
    [
      'throws',
      (): never => {
        throw new Error('the registry is down');
      },
    ],
  ])('that %s when they are asked for their tools fail the turn before a model call', async (_, getTools) => {
    const model = bench.model([]);
    const { result, seen } = await runTurn(
      new AgentLoop(bench.config(model, { toolProviders: [asked(getTools).provider] })),
    );
    expect(result).toMatchObject({ code: 'TOOL_FAILED', message: expect.stringContaining('the registry is down') });
    expect(seen.events.at(-1)).toMatchObject({ status: { state: 'failed' }, final: true });
    expect(model.calls).toHaveLength(0);
  });

  it('that give no list fail the turn', async () => {
    const { result } = await runTurn(bench.loop([], { toolProviders: [asked(() => JSON.parse('null')).provider] }));
    expect(result).toMatchObject({ code: 'TOOL_FAILED', message: expect.stringContaining('must return an array') });
  });

  it('that never answer do not hold a cancel', async () => {
    const silent = gate();
    const model = bench.model([]);
    const { provider, runs } = asked(async () => {
      await silent.pass();
      return [definition];
    });
    const turn = new AgentLoop(bench.config(model, { toolProviders: [provider] })).startTurn(question, { taskId: 't' });
    const result = turn.result().catch((error) => error);
    await silent.reached;
    await turn.cancel('enough');
    expect(await result).toMatchObject({ code: 'CANCELED', reason: 'enough' });
    expect(bench.store.read('t').map(({ type }) => type)).toEqual(['turn.started', 'turn.canceled']);
    silent.open();
    await new Promise((resolve) => setImmediate(resolve));
    expect([model.calls, runs]).toEqual([[], []]);
  });

  it('are asked at the same time', async () => {
    const [one, other] = [gate(), gate()];
    const slow = ({ pass }: typeof one, name: string) =>
      asked(async () => {
        await pass();
        return [{ ...definition, function: { ...definition.function, name } }];
      }).provider;
    const model = bench.model([{ text: 'Done.' }]);
    const result = new AgentLoop(bench.config(model, { toolProviders: [slow(one, 'a'), slow(other, 'b')] }))
      .startTurn(question)
      .result();
    await Promise.all([one.reached, other.reached]);
    other.open();
    one.open();
    await result;
    expect(model.calls[0]?.tools?.map((each) => each.function.name)).toEqual(['a', 'b']);
  });

  it('S1-21 serve a turn without a store too', async () => {
    const { provider, runs } = asked();
    const model = scriptedLLM([{ toolCalls: [{ name: 'search' }] }, { text: 'Done.' }]);
    const loop = new AgentLoop({ agentId: 'tester', llmProvider: model, toolProviders: [provider] });
    expect(await loop.startTurn(question).result()).toMatchObject({ status: 'completed', text: 'Done.' });
    expect(runs).toHaveLength(1);
  });
});
