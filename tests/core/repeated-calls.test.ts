import { describe, expect, it } from '@jest/globals';
import {
  applyRecord,
  foldRecords,
  InMemoryStateStore,
  type LLMChunk,
  type LLMProvider,
  replay,
  type ToolCall,
  type ToolContext,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { from } from 'rxjs';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';

const pay = (id: string, args: string, name = 'pay'): ToolCall => ({
  id,
  type: 'function',
  function: { name, arguments: args },
});

/** Answers with these calls, each streamed whole, then with text. */
function payingModel(toolCalls: readonly ToolCall[]): LLMProvider {
  let asked = 0;
  const response = () =>
    asked++ === 0
      ? { message: { role: 'assistant' as const, content: null, toolCalls } }
      : { message: { role: 'assistant' as const, content: 'Paid.' } };
  return {
    call: async () => response(),
    stream: () => {
      const answer = response();
      const deltas: readonly LLMChunk[] = (asked === 1 ? toolCalls : []).map((call, index) => ({
        type: 'tool-call',
        index,
        id: call.id,
        name: call.function.name,
        arguments: call.function.arguments,
      }));
      return from([...deltas, { type: 'done' as const, response: answer }]);
    },
  };
}

async function ranWith(toolCalls: readonly ToolCall[]) {
  const ledger: unknown[] = [];
  const store = new InMemoryStateStore();
  const tool =
    (name: string) =>
    ({ arguments: args }: ToolContext) => {
      ledger.push([name, args]);
      return 'ok';
    };
  const loop = new AgentLoop({
    agentId: 'tester',
    llmProvider: payingModel(toolCalls),
    taskStateStore: store,
    toolProviders: [plainTools({ pay: tool('pay'), refund: tool('refund') })],
  });
  const turn = loop.startTurn(question, { taskId: 't' });
  const deltas: string[] = [];
  const completed: string[] = [];
  turn.subscribe((event) => {
    if (event.kind === 'internal:tool-call-delta') deltas.push(`${event.callId} ${event.arguments}`);
    if (event.kind === 'internal:tool-complete') completed.push(`${event.callId} ${JSON.stringify(event.arguments)}`);
  });
  const result = await turn.result();
  return { ledger, result, deltas, completed, store };
}

describe('a call that comes twice in one answer', () => {
  it.each([
    ['the same text', '{"to":"Ann","sum":5}', '{"to":"Ann","sum":5}'],
    ['other blanks', '{"to":"Ann","sum":5}', '{ "to": "Ann",\n "sum": 5 }'],
    ['another order of members', '{"to":"Ann","sum":5}', '{"sum":5,"to":"Ann"}'],
    ['no arguments', '', '{}'],
    ['a text that is not JSON', '{"to":', '{"to":'],
  ])('M-03 is one call, with %s', async (_, first, second) => {
    const { result } = await ranWith([pay('a', first), pay('a', second), pay('a', first)]);
    const calls = result.messages.flatMap((message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : []));
    expect(calls).toEqual([pay('a', first)]);
  });

  it('M-03 runs once', async () => {
    const { ledger } = await ranWith([pay('a', '{"to":"Ann"}'), pay('a', '{"to":"Ann"}')]);
    expect(ledger).toEqual([['pay', { to: 'Ann' }]]);
  });

  it.each([
    ['without an id', pay('', '{"to":"Ann"}'), pay('', '{"to":"Ann"}')],
    ['with another id', pay('a', '{"to":"Ann"}'), pay('b', '{"to":"Ann"}')],
    ['with other arguments', pay('a', '{"to":"Ann"}'), pay('a', '{"to":"Bob"}')],
    ['with another name', pay('a', '{"to":"Ann"}'), pay('a', '{"to":"Ann"}', 'refund')],
    ['where one is text and the other its JSON', pay('a', '{}'), pay('a', '"{}"')],
  ])('is another call %s', async (_, first, second) => {
    const { result } = await ranWith([first, second]);
    const calls = result.messages.flatMap((message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : []));
    expect(calls.map((call) => call.function)).toEqual([first.function, second.function]);
    expect(new Set(calls.map(({ id }) => id)).size).toBe(2);
  });

  it('leaves the ids of later calls as their deltas had them, also in a replay', async () => {
    const { ledger, deltas, completed, store } = await ranWith([
      pay('a', '{"n":1}'),
      pay('a', '{"n":1}'),
      pay('b', '{"n":2}'),
      pay('a', '{"n":1}'),
      pay('c', '{"n":3}', 'refund'),
    ]);
    expect(ledger).toEqual([
      ['pay', { n: 1 }],
      ['pay', { n: 2 }],
      ['refund', { n: 3 }],
    ]);
    expect(completed).toEqual(['1:0 {"n":1}', '1:2 {"n":2}', '1:4 {"n":3}']);
    for (const each of completed) expect(deltas).toContain(each);
    expect(await replay(store.read('t')).result()).toMatchObject({ deviations: [] });
  });
});

describe('a call that has its result', () => {
  it('M-04 cannot start again: the fold refuses the record', async () => {
    const { store } = await ranWith([pay('a', '{}'), pay('b', '{}')]);
    const records = store.read('t');
    const ended = records.findIndex((record) => record.type === 'tool.result' && record.callId === '1:0');
    const intent = records.find((record) => record.type === 'tool.intent' && record.callId === '1:0');
    if (!intent) throw new Error('the call never started');
    const state = foldRecords(records.slice(0, ended + 1));
    expect(() => applyRecord(state, { ...intent, seq: state.seq + 1 })).toThrow(
      expect.objectContaining({ code: 'POISON', message: expect.stringContaining('"1:0" has its result') }),
    );
  });

  it('M-04 does not run again where a hook repeats the calls of its response', async () => {
    const ledger: unknown[] = [];
    const loop = new AgentLoop({
      agentId: 'tester',
      llmProvider: payingModel([pay('a', '{}')]),
      toolProviders: [plainTools({ pay: ({ arguments: args }) => ledger.push(args) })],
      extensions: [
        {
          name: 'doubling',
          afterLLMCall: (response) => {
            const calls = response.message.role === 'assistant' ? (response.message.toolCalls ?? []) : [];
            return { response: { ...response, toolCalls: [...calls, ...calls] } };
          },
        },
      ],
    });
    await loop.startTurn(question).result();
    expect(ledger).toEqual([{}]);
  });

  it('is another call in another answer, also with the same id: both run', async () => {
    const ledger: unknown[] = [];
    let asked = 0;
    const call = async () => ({
      message: {
        role: 'assistant' as const,
        content: asked < 2 ? null : 'Done.',
        ...(asked++ < 2 && { toolCalls: [pay('a', '{}')] }),
      },
    });
    const tools = plainTools({ pay: ({ arguments: args }) => ledger.push(args) });
    await new AgentLoop({ agentId: 'tester', llmProvider: { call }, toolProviders: [tools] })
      .startTurn(question)
      .result();
    expect(ledger).toEqual([{}, {}]);
  });
});

describe('the deltas of calls with one id', () => {
  const whole = (index: number, id: string, args: string): LLMChunk => ({
    type: 'tool-call',
    index,
    id,
    name: 'pay',
    arguments: args,
  });
  const more = (index: number, args: string, id?: string): LLMChunk => ({
    type: 'tool-call',
    index,
    arguments: args,
    ...(id !== undefined && { id }),
  });
  const voided: LLMChunk = { type: 'attempt', state: 'void' };

  it.each<[string, readonly LLMChunk[], readonly string[]]>([
    ['are none for a call that repeats', [whole(0, 'a', '{"n":1}'), whole(1, 'a', '{"n":1}')], ['1:0 {"n":1}']],
    [
      'are none for one that repeats in pieces, with other blanks, also where a call follows',
      [whole(0, 'a', '{"n":1}'), whole(1, 'a', '{ "n"'), more(1, ': 1 }'), whole(2, 'b', '{}'), more(1, '\n')],
      ['1:0 {"n":1}', '1:2 {}'],
    ],
    [
      'are one for another call, before those of the call that follows',
      [whole(0, 'a', '{"n":1}'), whole(1, 'a', '{"n"'), more(1, ':2}'), whole(2, 'b', '{}')],
      ['1:0 {"n":1}', '1:1 {"n":2}', '1:2 {}'],
    ],
    [
      'are none for the third that repeats the second',
      [whole(0, 'a', '{"n":1}'), whole(1, 'a', '{"n":2}'), whole(2, 'a', '{"n":2}'), whole(3, 'b', '{}')],
      ['1:0 {"n":1}', '1:1 {"n":2}', '1:3 {}'],
    ],
    [
      'wait for the response, as all later ones, where the arguments come side by side',
      [whole(0, 'a', '{"n"'), whole(1, 'a', '{"n"'), whole(2, 'b', '{}'), more(0, ':1}'), more(1, ':1}'), more(2, ' ')],
      ['1:0 {"n"', '1:0 :1}'],
    ],
    [
      'begin anew in another attempt',
      [whole(0, 'a', '{"n":1}'), whole(1, 'a', '{"n":1'), voided, whole(0, 'a', '{"n":3}')],
      ['1:0 {"n":1}', '1:0 {"n":3}'],
    ],
    [
      'are those of each call without an id',
      [whole(0, '', '{"n":1}'), whole(1, '', '{"n":1}')],
      ['1:0 {"n":1}', '1:1 {"n":1}'],
    ],
    [
      'count for a call whose id comes late',
      [whole(0, '', '{"n"'), more(0, ':1}', 'a'), whole(1, 'a', '{"n":1}'), whole(2, 'b', '{}')],
      ['1:0 {"n"', '1:0 :1}', '1:2 {}'],
    ],
  ])('M-03 %s', async (_, chunks, expected) => {
    const done: LLMChunk = { type: 'done', response: { message: { role: 'assistant', content: 'Paid.' } } };
    const llmProvider: LLMProvider = {
      call: () => Promise.reject(new Error('only streams')),
      stream: () => from([...chunks, done]),
    };
    const turn = new AgentLoop({ agentId: 'tester', llmProvider }).startTurn(question);
    const deltas: string[] = [];
    turn.subscribe((event) => {
      if (event.kind === 'internal:tool-call-delta') deltas.push(`${event.callId} ${event.arguments}`);
    });
    await turn.result();
    expect(deltas).toEqual(expected);
  });
});
