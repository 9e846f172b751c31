import { describe, expect, it } from '@jest/globals';
import { type Extension, type Message, textOf } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { ScriptedLLMStep } from 'millrace/testing';
import { answerOf, deadTurn, firstCall, intentOf, question, resultOf } from '../dead-turn.ts';
import { plainTools } from '../plain-tools.ts';
import { turnBench } from '../turn-bench.ts';
import { watch } from '../watch-events.ts';

const bench = turnBench();
const counting: ScriptedLLMStep = { toolCalls: [{ name: 'count' }] };
const done: ScriptedLLMStep = { text: 'Two.' };
const toolProviders = [plainTools({ count: { readOnly: true, onInDoubt: 'retry', execute: () => 2 } })];

function turnOf(steps: readonly ScriptedLLMStep[], ...hooks: readonly Omit<Extension, 'name'>[]) {
  const model = bench.model(steps);
  const extensions = hooks.map((each, index): Extension => ({ name: `x${index}`, ...each }));
  const config = bench.config(model, { toolProviders, extensions });
  return { model, config, turn: new AgentLoop(config).startTurn(question, { taskId: 'live' }) };
}

const lastText = (messages: readonly { readonly content: Parameters<typeof textOf>[0] }[] = []) =>
  textOf(messages.at(-1)?.content);

describe('the hooks of a turn', () => {
  it('S0-33 change what the provider is asked, or answer in its place', async () => {
    const changed = turnOf([done], {
      beforeLLMCall: ({ messages }) => ({ params: { temperature: 0.1, messages: [...messages, question[0]] } }),
    });
    await changed.turn.result();
    expect(changed.model.calls[0]).toMatchObject({ temperature: 0.1, messages: [question[0], question[0]] });
    const answered = turnOf([], {
      beforeLLMCall: () => ({ response: { message: { role: 'assistant', content: 'From memory.' } } }),
    });
    const result = await new AgentLoop(answered.config).startTurn(question).result();
    expect(result).toMatchObject({ text: 'From memory.', iterations: 1 });
    expect(answered.model.calls).toHaveLength(0);
  });

  it('S0-34 see the answer of the model before it is recorded', async () => {
    const seen: unknown[] = [];
    const { turn } = turnOf([done], {
      afterLLMCall: ({ message }, { taskId }) =>
        void seen.push([message.content, bench.store.read(taskId).at(-1)?.type]),
    });
    await turn.result();
    expect(seen).toEqual([['Two.', 'llm.start']]);
  });

  it('S0-38 suspend the turn between two iterations, and it can go on', async () => {
    const asked: number[] = [];
    const { turn, config } = turnOf([counting, done], {
      shouldPause({ iteration }) {
        asked.push(iteration);
        return iteration === 1 && { reason: 'office is closed' };
      },
    });
    const watcher = watch(turn);
    await watcher.ended;
    expect(watcher.of('internal:paused')).toMatchObject([{ reason: 'office is closed' }]);
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'input-required' }, final: true });
    expect(watcher.of('internal:llm-call')).toHaveLength(1);
    expect(await AgentLoop.resume('live', config).result()).toMatchObject({ status: 'completed', text: 'Two.' });
    expect(asked.filter((iteration) => iteration === 1)).toHaveLength(1);
  });

  it('S0-66 change the settings of the turn before it, and its result behind it', async () => {
    const { model, turn } = turnOf([done], {
      beforeTurn: () => ({ settings: { temperature: 0.3, systemPrompt: 'Be brief.' } }),
      afterTurn: ({ text }) => ({ text: text.toUpperCase(), value: { n: 2 } }),
    });
    expect(await turn.result()).toMatchObject({ text: 'TWO.', value: { n: 2 } });
    expect(model.calls[0]).toMatchObject({ temperature: 0.3, messages: [{ content: 'Be brief.' }, question[0]] });
  });

  it('S2-15 change messages, tools and the choice of one in the view; the log stays as it is', async () => {
    const view = {
      messages: [{ role: 'user', content: 'Count.' }],
      tools: ['count'],
      settings: { toolChoice: 'required' },
    } as const;
    const { model, turn } = turnOf([done], { prepareIteration: () => ({ view }) });
    const result = await turn.result();
    const { messages, tools, toolChoice } = model.calls[0] ?? {};
    expect(messages).toEqual(view.messages);
    expect(tools?.map((tool) => tool.function.name)).toEqual(view.tools);
    expect(toolChoice).toBe('required');
    expect(result.messages.map(({ role }) => role)).toEqual(['assistant']);
    const observed = watch(AgentLoop.observe('live', { store: bench.store }));
    expect(observed.end).toBe('complete');
    expect(bench.store.read('live')[0]).toMatchObject({ messages: question });
  });

  const emptied: readonly (readonly [
    string,
    'prepareIteration' | 'beforeLLMCall',
    (all: readonly Message[]) => Message[],
  ])[] = [
    ['tool results only', 'prepareIteration', (all) => all.filter(({ role }) => role === 'tool')],
    ['tool results only', 'beforeLLMCall', (all) => all.filter(({ role }) => role === 'tool')],
    ['no messages', 'prepareIteration', () => []],
  ];

  it.each(emptied)('fail the turn where they leave %s (%s), and name the cure', async (what, hook, cut) => {
    const change = ({ messages }: { readonly messages: readonly Message[] }) => {
      const left = { messages: cut(messages) };
      if (messages.length === 1) return undefined;
      return hook === 'prepareIteration' ? { view: left } : { params: left };
    };
    const { model, turn } = turnOf([counting], { [hook]: change });
    const message = expect.stringMatching(
      new RegExp(`"x0".*${hook}.*it leaves ${what}.*keep the assistant message with those calls, or a user message`),
    );
    await expect(turn.result()).rejects.toMatchObject({ code: 'EXTENSION_FAILED', message });
    expect(model.calls).toHaveLength(1);
  });

  it('S4-23 rewrite what the user said: the old text is in no request', async () => {
    const { model, turn } = turnOf([counting, done], {
      beforeTurn: () => ({ given: [{ role: 'user', content: 'How many apples?' }] }),
    });
    await turn.result();
    expect(model.calls.map(({ messages }) => textOf(messages[0]?.content))).toEqual(Array(2).fill('How many apples?'));
    expect(JSON.stringify(model.calls.map(({ messages }) => messages))).not.toContain('How many?');
  });

  it('S4-55 add messages, which are in a record and in the next request, also behind a crash', async () => {
    const told = { role: 'user', content: 'It is noon.' } as const;
    const live = turnOf([counting, done], {
      afterIteration: ({ finished }) => (finished ? undefined : { messages: [told] }),
    });
    await live.turn.result();
    expect(lastText(live.model.calls[1]?.messages)).toBe(told.content);
    const record = bench.store.read('live').find(({ type }) => type === 'x.x0');
    expect(record).toMatchObject({ effects: { messages: [told] }, hook: 'afterIteration' });
    deadTurn(bench, [
      firstCall,
      answerOf(['count']),
      intentOf(0),
      resultOf(0, '2'),
      { type: 'x.x0', effects: { messages: [told] }, hook: 'afterIteration' },
    ]);
    const model = bench.model([done]);
    await AgentLoop.resume('t', bench.config(model, { toolProviders })).result();
    expect(lastText(model.calls[0]?.messages)).toBe(told.content);
  });

  it('are not asked about a view or an end that an extension before them has done away with', async () => {
    const asked: string[] = [];
    const { turn } = turnOf(
      [done],
      {
        prepareIteration: (_, { iteration }) => (iteration === 1 ? { finish: { text: 'Enough.' } } : undefined),
        beforeFinish: ({ iteration, state }) =>
          iteration === 1 && !state.changes.finish ? { messages: [{ role: 'user', content: 'Go on.' }] } : undefined,
      },
      {
        prepareIteration: (_, { iteration }) => void asked.push(`prepareIteration ${iteration}`),
        beforeFinish: ({ text }) => void asked.push(`beforeFinish ${text}`),
      },
    );
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Enough.' });
    expect(asked).toEqual(['prepareIteration 0']);
  });

  it('make a turn go on that another hook has finished: it ends with what comes then', async () => {
    const { turn } = turnOf([counting, done], {
      afterToolCall: () => ({ finish: { text: 'Enough.', value: 1 } }),
      beforeFinish: ({ iteration }) =>
        iteration === 1 ? { messages: [{ role: 'user', content: 'Go on.' }] } : undefined,
    });
    expect(await turn.result()).toMatchObject({ text: 'Two.', value: undefined, iterations: 2 });
  });

  it('see what the extensions before them changed', async () => {
    const seen: unknown[] = [];
    const { turn } = turnOf(
      [done],
      {
        beforeTurn: () => ({ data: 1, settings: { temperature: 0.5 } }),
        prepareIteration: () => ({ view: { systemPrompt: 'First.' } }),
        beforeLLMCall: () => ({ params: { maxTokens: 7 } }),
        afterLLMCall: () => ({ response: { message: { role: 'assistant', content: 'Changed.' } } }),
        beforeFinish: () => ({ finish: { value: 1 } }),
      },
      {
        beforeTurn: ({ state, data }) => void seen.push(state.changes.settings.temperature, data),
        prepareIteration: ({ systemPrompt }) => void seen.push(systemPrompt),
        beforeLLMCall: ({ maxTokens }) => void seen.push(maxTokens),
        afterLLMCall: ({ message }) => void seen.push(message.content),
        beforeFinish: ({ value }) => void seen.push(value),
      },
    );
    await turn.result();
    expect(seen).toEqual([0.5, undefined, 'First.', 7, 'Changed.', 1]);
  });
});
