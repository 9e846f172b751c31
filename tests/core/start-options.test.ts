import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT } from '@opentelemetry/api';
import { InMemoryStateStore, type Message, type StartOptions } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { openResources, scriptedLLM } from 'millrace/testing';
import { refusalOf } from './refusal-of.ts';

let ledger = openResources();
beforeEach(() => {
  ledger = openResources();
});
afterEach(() => ledger.assertNone());

const agent = { agentId: 'tester', llmProvider: scriptedLLM([]) };
const question: readonly Message[] = [{ role: 'user', content: 'Hello' }];

describe('the options of a turn', () => {
  const wrong: readonly (readonly [option: keyof StartOptions, values: readonly unknown[], words: string])[] = [
    ['taskId', ['', 'a b', 'x'.repeat(129), 'ä', 7], 'must have 1 to 128 characters'],
    ['agentId', ['', 7, null], 'must be a non-empty string'],
    ['contextId', ['', 7, null], 'must be a non-empty string'],
    ['parentContext', [{}, null, 'trace'], 'must be a Context of @opentelemetry/api'],
    ['authContext', ['ann', null, []], 'must be an object'],
    ['systemPrompt', [7, null], 'must be a string'],
    ['maxIterations', [0, 1.5, '3', null], 'must be a whole number of at least 1'],
    ['metadata', ['one', null, []], 'must be an object'],
    ['temperature', [-1, '1', null], 'must be a number of at least 0'],
    ['maxTokens', [0, '9', null], 'must be a whole number of at least 1'],
    ['reasoning', ['max', {}, { budgetTokens: 0 }, null], 'must be "none", "minimal"'],
    ['topP', [0, 2, '1', null], 'must be a number above 0 and at most 1'],
    ['stop', ['END', [], [''], null], 'must be an array of 1 to 8 non-empty strings'],
    ['seed', [0.5, '7', null], 'must be an integer'],
    ['parallelToolCalls', ['no', null], 'must be true or false'],
    ['cache', ['yes', null], 'must be true or false'],
    ['retryPlan', [5, null, { attempts: 0 }], 'must be { attempts'],
    ['signal', [{}, null, new AbortController()], 'must be an AbortSignal'],
    ['detached', ['yes', 1, null], 'must be true or false'],
    ['parent', [{}, null, { link: {}, usageBy: [] }], 'must be the one that the context of a call or a hook has'],
  ];
  const startWith = (name: string, value: unknown) =>
    new AgentLoop(agent).startTurn(question, Object.fromEntries([[name, value]]));

  it.each(wrong)('are refused at once for %s out of %j: it %s', (name, values, words) => {
    for (const value of values) {
      const { code, message } = refusalOf(() => startWith(name, value));
      expect(code).toBe('INVALID_INPUT');
      expect(message).toMatch(new RegExp(`^${name} .*; or leave it out\\.$`));
      expect(message).toContain(words);
    }
  });

  it('are refused for one that there is not, and lists those that there are', () => {
    const { code, message } = refusalOf(() => startWith('maxIteration', 3));
    expect(code).toBe('INVALID_INPUT');
    const names = wrong.flatMap(([name]) => (name === 'authContext' ? [name, 'context'] : [name]));
    expect(message).toBe(`maxIteration is not an option here; the options are: ${names.join(', ')}.`);
    expect(refusalOf(() => new AgentLoop(agent).startTurn(question, JSON.parse('null'))).message).toContain(
      'an object',
    );
  });

  it('of a resume are those that it is given anew', () => {
    const config = { ...agent, taskStateStore: new InMemoryStateStore() };
    const resumeWith = (name: string, value: unknown) => () =>
      AgentLoop.resume('t', config, Object.fromEntries([[name, value]]));
    expect(refusalOf(resumeWith('maxIterations', 3)).message).toBe(
      'maxIterations is not an option here; the options are: contextId, authContext, context, parentContext, signal, detached, parent, answers, onBusy, from, shutdown.',
    );
    expect(refusalOf(resumeWith('authContext', 'ann')).message).toContain('authContext must be an object');
    expect(refusalOf(() => AgentLoop.resume('a b', config)).message).toContain('taskId must have 1 to 128 characters');
    expect(refusalOf(() => AgentLoop.resume('t', agent)).message).toContain('needs taskStateStore');
  });

  it('may all be given, also as undefined', async () => {
    const options: Required<Omit<StartOptions, 'parent'>> = {
      taskId: 'task_1.a:b-C',
      agentId: 'other',
      contextId: 'c',
      parentContext: ROOT_CONTEXT,
      authContext: {},
      context: {},
      systemPrompt: '',
      maxIterations: 1,
      temperature: 0,
      maxTokens: 1,
      reasoning: 'none',
      topP: 0.5,
      stop: ['END'],
      seed: 7,
      parallelToolCalls: true,
      cache: false,
      retryPlan: {},
      metadata: {},
      signal: new AbortController().signal,
      detached: false,
    };
    const model = scriptedLLM([{ text: 'Hi.' }, { text: 'Hi.' }]);
    const loop = new AgentLoop({ ...agent, llmProvider: model });
    expect(await loop.startTurn(question, options).result()).toMatchObject({ taskId: 'task_1.a:b-C', contextId: 'c' });
    const none = Object.fromEntries(Object.keys(options).map((name) => [name, undefined]));
    expect(await loop.startTurn(question, none).result()).toMatchObject({ status: 'completed' });
  });

  it('S1-24 count before those of the configuration, for that turn alone', async () => {
    const asking = { toolCalls: [{ name: 'unknown' }] };
    const model = scriptedLLM([asking, asking, asking, { text: 'Done.' }]);
    const loop = new AgentLoop({ agentId: 'tester', llmProvider: model, systemPrompt: 'Be brief.', maxIterations: 10 });
    const limited = loop.startTurn(question, { systemPrompt: 'Be long.', maxIterations: 2 });
    await expect(limited.result()).rejects.toMatchObject({ code: 'MAX_ITERATIONS', reason: 'max_iterations' });
    expect(model.calls).toHaveLength(2);
    await loop.startTurn(question).result();
    expect(model.calls).toHaveLength(4);
    const prompts = model.calls.map(({ messages }) => messages[0]?.content);
    expect(prompts).toEqual(['Be long.', 'Be long.', 'Be brief.', 'Be brief.']);
  });

  it('S1-29 get ids where they have none, the same in all events of the turn, and other ones in the next', async () => {
    const loop = new AgentLoop({ ...agent, llmProvider: scriptedLLM([{ text: 'Hi.' }, { text: 'Hi.' }]) });
    const ids: string[][] = [];
    for (const turn of [loop.startTurn(question), loop.startTurn(question)]) {
      const seen = new Set<string>();
      for await (const { taskId, contextId } of turn) seen.add(`${taskId} ${contextId}`);
      expect([...seen]).toEqual([`${turn.taskId} ${turn.contextId}`]);
      ids.push([turn.taskId, turn.contextId]);
    }
    expect(new Set(ids.flat()).size).toBe(4);
    expect(ids.flat().every((id) => /^[A-Za-z0-9_.:-]{1,128}$/.test(id))).toBe(true);
  });
});

describe('the messages of a turn', () => {
  const wrong: readonly (readonly [json: string, words: string])[] = [
    ['null', 'messages must be an array'],
    ['"Hello"', 'messages must be an array'],
    ['[null]', 'messages[0] needs a role out of: system, developer, user, assistant, tool.'],
    ['["Hello"]', 'messages[0] needs a role'],
    ['[{"role":"user","content":"a"},{"role":"bot","content":"b"}]', 'messages[1] needs a role'],
    ['[{"role":"user"}]', 'messages[0].content must be a string or an array of parts, not undefined.'],
    ['[{"role":"user","content":null}]', 'messages[0].content must be a string or an array of parts, not null.'],
    ['[{"role":"user","content":{"text":"a"}}]', 'not an object.'],
    [
      '[{"role":"user","content":["a"]}]',
      'messages[0].content[0] needs a type out of: text, image_url, file; it is undefined.',
    ],
    ['[{"role":"user","content":[{"type":"audio"}]}]', 'it is "audio".'],
    [
      '[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text"}]}]',
      'messages[0].content[1].text must be a string.',
    ],
    [
      '[{"role":"user","content":[{"type":"image_url","image_url":"https://a"}]}]',
      'messages[0].content[0].image_url.url must be an address',
    ],
    ['[{"role":"user","content":[{"type":"file"}]}]', 'messages[0].content[0].file must be an object'],
    ['[{"role":"tool","content":"a"}]', 'messages[0] is a tool message and needs the toolCallId'],
    ['[{"role":"tool","content":"a","toolCallId":"a","status":"done"}]', 'messages[0].status must be ok or error'],
    ['[{"role":"user","content":"a","id":7}]', 'messages[0].id must be a string, not 7.'],
    ['[{"role":"user","content":"a","createdAt":"soon"}]', 'messages[0].createdAt must be a time of ISO 8601'],
    ['[{"role":"user","content":"a","createdAt":0}]', 'messages[0].createdAt must be a time of ISO 8601, not 0.'],
    ['[{"role":"user","content":"a","metadata":[]}]', 'messages[0].metadata must be an object, not an array.'],
    ['[{"role":"assistant","content":null,"toolCalls":{}}]', 'messages[0].toolCalls must be an array, not an object.'],
    [
      '[{"role":"assistant","content":null,"toolCalls":[{"id":"a","name":"count"}]}]',
      'messages[0].toolCalls[0] must be a call',
    ],
  ];

  it.each(wrong)('are refused at once where they are %s', (json, words) => {
    const model = scriptedLLM([]);
    const { code, message } = refusalOf(() =>
      new AgentLoop({ ...agent, llmProvider: model }).startTurn(JSON.parse(json)),
    );
    expect(code).toBe('INVALID_INPUT');
    expect(message).toContain(words);
    expect(model.calls).toHaveLength(0);
  });

  it('may be of every kind', async () => {
    const call = { id: 'a', type: 'function', function: { name: 'count', arguments: '{}' } } as const;
    const all: readonly Message[] = [
      { role: 'system', content: 'Be brief.' },
      { role: 'developer', content: 'Be kind.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } },
          { type: 'file', file: { file_id: 'f1' } },
        ],
      },
      { role: 'assistant', content: null, toolCalls: [call] },
      { role: 'tool', toolCallId: 'a', content: [] },
    ];
    const model = scriptedLLM([{ text: 'Hi.' }]);
    const loop = new AgentLoop({ ...agent, llmProvider: model });
    await loop.startTurn(all).result();
    expect(model.calls.map(({ messages }) => messages.length)).toEqual([4]);
  });
});
