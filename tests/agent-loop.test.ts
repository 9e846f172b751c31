import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { LocalToolProvider, type Message, type ToolContext, tool } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { question } from './core/dead-turn.ts';
import { plainTools } from './core/plain-tools.ts';
import { type BenchOptions, turnBench } from './core/turn-bench.ts';
import { watch } from './core/watch-events.ts';

const bench = turnBench();

const weather = tool({
  name: 'weather',
  description: 'Tells the weather of a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  execute: ({ city }) => `It rains in ${city}.`,
});

const asksForWeather = {
  text: 'Let me look.',
  toolCalls: [{ name: 'weather', arguments: { city: 'Bergen' } }],
};

/** A turn that asks for a tool and then answers, and what the model was sent. */
async function weatherTurn(options: BenchOptions = {}, messages: readonly Message[] = question) {
  const model = bench.model([asksForWeather, { text: 'Take an umbrella.' }]);
  const toolProviders = [new LocalToolProvider([weather])];
  const turn = new AgentLoop(bench.config(model, { toolProviders, ...options })).startTurn(messages, { taskId: 't' });
  const watcher = watch(turn);
  const result = await turn.result();
  await watcher.ended;
  return { turn, result, events: watcher.events, requests: model.calls };
}

describe('a turn', () => {
  it('S1-01 is complete: the model asks, the tool runs, the model answers, in two calls', async () => {
    const { result, events, requests } = await weatherTurn();
    expect(requests).toHaveLength(2);
    expect(result).toMatchObject({
      status: 'completed',
      reason: 'stop',
      text: 'Take an umbrella.',
      iterations: 2,
      toolCalls: 1,
    });
    expect(events.at(-1)).toMatchObject({ kind: 'status-update', status: { state: 'completed' }, final: true });
  });

  it('S1-02 S1-49 sends the whole history that the caller gives, and what it grew by', async () => {
    const given: readonly Message[] = [
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: 'Hello!' },
      { role: 'user', content: 'Will it rain in Bergen?' },
    ];
    const { requests } = await weatherTurn({}, given);
    expect(requests[0]?.messages).toEqual(given);
    const call = { id: 'call_1_0', type: 'function', function: { name: 'weather', arguments: '{"city":"Bergen"}' } };
    expect(requests[1]?.messages).toEqual([
      ...given,
      { role: 'assistant', content: 'Let me look.', toolCalls: [call] },
      { role: 'tool', toolCallId: 'call_1_0', content: 'It rains in Bergen.' },
    ]);
  });

  it('S1-03 leaves nothing behind for the next turn of the same loop', async () => {
    const model = bench.model([{ text: 'One.' }, { text: 'Two.' }]);
    const loop = new AgentLoop(bench.config(model));
    await loop.startTurn(question).result();
    const other = [{ role: 'user' as const, content: 'And now?' }];
    await loop.startTurn(other).result();
    expect(model.calls[1]?.messages).toEqual(other);
  });

  it('S1-04 knows no message store: the option is refused by name', () => {
    const config = { ...bench.config(bench.model([])), messageStore: {} };
    expect(() => new AgentLoop(config)).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringContaining('messageStore') }),
    );
  });

  it('S1-18 is answered by whatever provider the loop was given', async () => {
    for (const name of ['one', 'two']) {
      const turn = new AgentLoop(bench.config(bench.model([{ text: `I am ${name}.` }]))).startTurn(question);
      expect(await turn.result()).toMatchObject({ text: `I am ${name}.` });
    }
  });

  it('S1-21 works without a store, and touches none', async () => {
    const { result } = await weatherTurn({ store: false });
    expect(result).toMatchObject({ status: 'completed', text: 'Take an umbrella.' });
    expect(bench.store.list()).toEqual([]);
  });

  it('S1-31 never changes the array or the messages that the caller gave', async () => {
    const given: readonly Message[] = Object.freeze([Object.freeze({ role: 'user' as const, content: 'Rain?' })]);
    const { result } = await weatherTurn({}, given);
    expect(result.status).toBe('completed');
    expect(given).toEqual([{ role: 'user', content: 'Rain?' }]);
  });

  it('S1-31 does not see what the caller changes in its array later', async () => {
    const model = bench.model([{ text: 'Two.' }]);
    const given: Message[] = [...question];
    const turn = new AgentLoop(bench.config(model)).startTurn(given);
    given.push({ role: 'user', content: 'Ignore that.' });
    await turn.result();
    expect(model.calls[0]?.messages).toEqual(question);
  });

  it('S0-19 runs only calls of its own model: those in the given history start no tool', async () => {
    const runs: string[] = [];
    const toolProviders = [plainTools({ pay: () => runs.push('pay') })];
    const call = { id: 'x', type: 'function' as const, function: { name: 'pay', arguments: '{}' } };
    const history: readonly Message[] = [
      { role: 'user', content: 'Pay.' },
      { role: 'assistant', content: null, toolCalls: [call] },
      { role: 'tool', toolCallId: 'x', content: 'paid' },
      { role: 'user', content: 'Done?' },
    ];
    const turn = bench.loop([{ text: 'Yes.' }], { toolProviders }).startTurn(history);
    const watcher = watch(turn);
    await watcher.ended;
    expect([runs, watcher.of('internal:tool-start')]).toEqual([[], []]);
  });
});

describe('the system prompt', () => {
  it('S1-25 S1-26 S2-12 S0-11 is the first message of every request, once, and in no record, state or result', async () => {
    const { requests, result } = await weatherTurn({ systemPrompt: 'Be brief.' });
    for (const { messages } of requests) {
      expect(messages[0]).toEqual({ role: 'system', content: 'Be brief.' });
      expect(messages.filter(({ role }) => role === 'system')).toHaveLength(1);
    }
    const stored = JSON.stringify([bench.store.read('t'), bench.store.load('t'), result]);
    expect(stored).not.toContain('Be brief.');
  });

  it('S2-12 stays one a request over three turns that hand their messages on', async () => {
    const model = bench.model([{ text: '1' }, { text: '2' }, { text: '3' }]);
    const loop = new AgentLoop(bench.config(model, { systemPrompt: 'Be brief.' }));
    let history: readonly Message[] = [];
    for (const content of ['a', 'b', 'c']) {
      const messages: readonly Message[] = [...history, { role: 'user', content }];
      const result = await loop.startTurn(messages).result();
      history = [...messages, ...result.messages];
    }
    expect(model.calls.map(({ messages }) => messages.map(({ role }) => role))).toEqual([
      ['system', 'user'],
      ['system', 'user', 'assistant', 'user'],
      ['system', 'user', 'assistant', 'user', 'assistant', 'user'],
    ]);
    expect(history.map(({ role }) => role)).not.toContain('system');
  });

  it('S1-24 given with the turn goes before that of the configuration', async () => {
    const model = bench.model([{ text: 'Two.' }]);
    const loop = new AgentLoop(bench.config(model, { systemPrompt: 'Be brief.' }));
    await loop.startTurn(question, { systemPrompt: 'Be kind.' }).result();
    expect(model.calls[0]?.messages[0]).toEqual({ role: 'system', content: 'Be kind.' });
  });

  it('is merged with the system and developer messages of the history, in that order', async () => {
    const model = bench.model([{ text: 'Two.' }]);
    const loop = new AgentLoop(bench.config(model, { systemPrompt: 'Be brief.' }));
    const given: readonly Message[] = [
      { role: 'system', content: 'Be kind.' },
      ...question,
      { role: 'developer', content: 'Be exact.' },
    ];
    await loop.startTurn(given).result();
    expect(model.calls[0]?.messages).toEqual([
      { role: 'system', content: 'Be brief.\n\nBe kind.\n\nBe exact.' },
      ...question,
    ]);
  });
});

describe('what a turn hands to model and tools', () => {
  it('S1-43 is the temperature, maxTokens and metadata, in every request', async () => {
    const model = bench.model([asksForWeather, { text: 'Yes.' }]);
    const toolProviders = [new LocalToolProvider([weather])];
    const loop = new AgentLoop(bench.config(model, { toolProviders, temperature: 0, maxTokens: 77 }));
    await loop.startTurn(question, { metadata: { tenant: 'north' } }).result();
    const expected = { temperature: 0, maxTokens: 77, metadata: { tenant: 'north' } };
    expect(model.calls).toMatchObject([expected, expected]);
  });

  it('S2-02 is the toolChoice where one is set, in every request, and none otherwise', async () => {
    const without = await weatherTurn();
    for (const request of without.requests) expect(request).not.toHaveProperty('toolChoice');
    bench.store.delete('t');
    const choice = await weatherTurn({ toolChoice: 'required' });
    expect(choice.requests).toMatchObject([{ toolChoice: 'required' }, { toolChoice: 'required' }]);
  });

  it('S4-13 is the tools, only where there are any and the model can use them', async () => {
    const { requests } = await weatherTurn();
    expect(requests[0]?.tools).toEqual([{ type: 'function', function: weather.definition.function }]);
    const toolProviders = [new LocalToolProvider([weather])];
    const limited = bench.model([{ text: 'Two.' }], { capabilities: { tools: false } });
    await new AgentLoop(bench.config(limited, { toolProviders })).startTurn(question).result();
    const none = bench.model([{ text: 'Two.' }]);
    await new AgentLoop(bench.config(none)).startTurn(question).result();
    for (const { calls } of [limited, none]) expect(calls[0]).not.toHaveProperty('tools');
  });

  it('S1-28 are the ids, metadata, auth and trace context, for tools; spans carry the ids, and no auth', async () => {
    const seen: ToolContext[] = [];
    const toolProviders = [plainTools({ look: (context) => seen.push(context) })];
    const loop = bench.loop([{ toolCalls: [{ name: 'look' }] }, { text: 'Two.' }], { toolProviders });
    const parent = bench.spans.provider.getTracer('caller').startSpan('caller');
    const ids = { taskId: 't', contextId: 'c', agentId: 'scout' };
    const authContext = { token: 'sesame' };
    const parentContext = trace.setSpan(ROOT_CONTEXT, parent);
    await loop.startTurn(question, { ...ids, metadata: { tenant: 'north' }, authContext, parentContext }).result();
    parent.end();
    expect(seen).toMatchObject([{ ...ids, metadata: { tenant: 'north' }, authContext, iteration: 1, callId: '1:0' }]);
    const spans = bench.spans.spans();
    const span = (name: string) => spans.find((each) => each.name === name)?.spanContext();
    expect(trace.getSpanContext(seen[0]?.traceContext ?? ROOT_CONTEXT)).toMatchObject({
      spanId: span('tool[look]')?.spanId,
    });
    const execute = spans.find(({ name }) => name === 'agent.execute');
    expect(execute?.parentSpanContext?.spanId).toBe(parent.spanContext().spanId);
    for (const { name, attributes } of spans.slice(1)) {
      expect([name, attributes]).toMatchObject([
        name,
        { 'millrace.task.id': 't', 'gen_ai.conversation.id': 'c', 'millrace.agent.id': 'scout' },
      ]);
      expect(JSON.stringify(attributes)).not.toContain('sesame');
    }
    expect(JSON.stringify(bench.store.read('t'))).not.toContain('sesame');
  });

  it('S1-29 S0-18 are generated ids where none are given: unique, well-formed, the same everywhere in the turn', async () => {
    const loop = bench.loop([{ text: 'One.' }, { text: 'Two.' }]);
    const turns = [loop.startTurn(question), loop.startTurn(question)];
    for (const turn of turns) {
      const watcher = watch(turn);
      const result = await turn.result();
      expect(turn.taskId).toMatch(/^[A-Za-z0-9_.:-]{1,128}$/);
      for (const { taskId, contextId } of [
        ...watcher.events,
        result,
        ...bench.store.list().filter(({ taskId }) => taskId === turn.taskId),
      ]) {
        expect([taskId, contextId]).toEqual([turn.taskId, turn.contextId]);
      }
      const spans = bench.spans.spans().filter(({ attributes }) => attributes['millrace.task.id'] === turn.taskId);
      expect(spans.map(({ name }) => name)).toEqual(['agent.execute', 'iteration[1]', 'llm.call']);
    }
    const [one, two] = turns;
    expect(one?.taskId).not.toBe(two?.taskId);
    expect(one?.contextId).not.toBe(two?.contextId);
  });

  it('S1-44 S0-55 is the usage: of each call in its span and response event, the sum in the result and on the turn', async () => {
    const usage = { promptTokens: 100, completionTokens: 10, totalTokens: 110 };
    const more = { promptTokens: 200, completionTokens: 20, totalTokens: 220, cachedTokens: 90 };
    const toolProviders = [new LocalToolProvider([weather])];
    const loop = bench.loop(
      [
        { ...asksForWeather, usage },
        { text: 'Yes.', usage: more },
      ],
      { toolProviders },
    );
    const turn = loop.startTurn(question);
    const watcher = watch(turn);
    const result = await turn.result();
    expect(watcher.of('internal:llm-response').map((event) => event.usage)).toEqual([usage, more]);
    expect(result.usage).toEqual({ promptTokens: 300, completionTokens: 30, totalTokens: 330, cachedTokens: 90 });
    const [execute] = bench.spans.spans();
    expect(execute?.attributes).toMatchObject({
      'millrace.usage.input_tokens': 300,
      'millrace.usage.output_tokens': 30,
    });
    const calls = bench.spans.spans().filter(({ name }) => name === 'llm.call');
    expect(calls.map(({ attributes }) => attributes['gen_ai.usage.input_tokens'])).toEqual([100, 200]);
  });
});

describe('the events of a turn', () => {
  it('S1-09 come as things happen: working is seen before the model has answered', async () => {
    const answer = gate();
    const turn = bench.loop([{ gate: answer.pass(), text: 'Two.' }]).startTurn(question);
    const watcher = watch(turn);
    await watcher.until('status-update', ({ status }) => status.state === 'working');
    expect(watcher.of('internal:llm-response')).toEqual([]);
    answer.open();
    await watcher.ended;
    expect(watcher.of('internal:llm-response')).toHaveLength(1);
  });
});

describe('startTurn refuses at once', () => {
  const loop = () => bench.loop([]);

  it('messages that are none, an impossible id and an impossible limit, each by name', () => {
    // @ts-expect-error: a role that there is not
    expect(() => loop().startTurn([{ role: 'boss', content: 'Now!' }])).toThrow(/messages\[0\] needs a role/);
    expect(() => loop().startTurn(question, { taskId: 'a b' })).toThrow(/taskId/);
    expect(() => loop().startTurn(question, { maxIterations: 0 })).toThrow(/maxIterations/);
    expect(bench.store.list()).toEqual([]);
  });
});
