import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT } from '@opentelemetry/api';
import { AgentLoop } from '../../src/core/agent-loop.ts';
import type { AgentLoopConfig, Logger, StartOptions } from '../../src/core/config.ts';
import { AgentLoopError } from '../../src/core/errors.ts';
import type { Message } from '../../src/core/messages.ts';
import { resolveConfig } from '../../src/core/resolve-config.ts';
import { InMemoryStateStore } from '../../src/stores/memory/in-memory-state-store.ts';
import { openResources } from '../../src/testing/ledger.ts';
import { scriptedLLM } from '../../src/testing/scripted-llm.ts';
import { LocalToolProvider } from '../../src/tools/local-tools.ts';

let ledger = openResources();
beforeEach(() => {
  ledger = openResources();
});
afterEach(() => ledger.assertNone());

const agent = { agentId: 'tester', llmProvider: scriptedLLM([]) };
const question: readonly Message[] = [{ role: 'user', content: 'Hello' }];

/** What `act` throws; fails where it throws nothing, or nothing of ours. */
function refusalOf(act: () => unknown): AgentLoopError {
  try {
    act();
  } catch (error) {
    if (AgentLoopError.isInstance(error)) return error;
    throw error;
  }
  throw new Error('Nothing was refused.');
}

/** A configuration with a value that the types would not let through. */
function configWith(name: string, value: unknown): AgentLoopConfig {
  const config: AgentLoopConfig = { ...agent };
  Reflect.set(config, name, value);
  return config;
}

describe('the configuration', () => {
  const wrong: readonly (readonly [option: string, values: readonly unknown[], words: string])[] = [
    ['agentId', ['', 7, null], 'must be a non-empty string'],
    ['llmProvider', [{}, null, 'gpt', { call: 1 }], 'an object with a call(params) method'],
    ['llmProvider', [{ call: () => {}, stream: true }], 'llmProvider.stream must be a method'],
    ['toolProviders', [{}, null, new LocalToolProvider()], 'must be an array'],
    [
      'toolProviders',
      [[{}], [null], [() => 1], [{ getTools: () => [] }]],
      'toolProviders[0] must have getTools and executeTool',
    ],
    ['taskStateStore', [{}, 'redis', null], 'must be a TaskStateStore'],
    [
      'maxIterations',
      [0, -1, 1.5, Number.NaN, '3', Number.POSITIVE_INFINITY, null],
      'must be a whole number of at least 1',
    ],
    ['model', ['', 7, null], 'model must be a name'],
    [
      'responseFormat',
      ['json', {}, { type: 'json_schema', name: 'x' }],
      'must be { type: "json_schema", name, schema }',
    ],
    ['providerOptions', ['x', [], null], 'providerOptions must be an object'],
    ['onLimit', ['finish', true, null], 'must be one of fail, summarize, stop'],
    ['systemPrompt', [7, ['Be brief.'], null], 'must be a string'],
    ['toolChoice', ['any', 7, {}, { name: 3 }, null], 'must be "auto", "none", "required" or { name }'],
    ['temperature', [-0.1, Number.NaN, '1', null], 'must be a number of at least 0'],
    ['maxTokens', [0, 0.5, '9', null], 'must be a whole number of at least 1'],
    ['toolConcurrency', [0, 2.5, Number.POSITIVE_INFINITY, '5', null], 'must be a whole number of at least 1'],
    ['toolTimeoutMs', [-1, Number.POSITIVE_INFINITY, 2 ** 31, '1', null], 'must be milliseconds from 0'],
    ['toolFailureMode', ['stop', null], 'must be one of continue, fail'],
    ['abortGraceMs', [-1, Number.NaN, 2 ** 31, null], 'must be milliseconds from 0'],
    ['leaseMs', [0, 99, Number.NaN, 2 ** 31, null], 'must be milliseconds from 100'],
    ['extensions', [{}, 7, null], 'must be an array'],
    ['extensions', [[null], [{}], [{ name: '' }]], 'extensions[0] must have a name'],
    [
      'extensions',
      [[{ name: 'x', beforeLunch() {} }], [{ name: 'x', approveToolCall: true }]],
      'is no hook; the hooks',
    ],
    ['maxResumes', [0, 1.5, '3', null], 'must be a whole number of at least 1'],
    ['shutdown', [true, {}, new AbortController()], 'must be an AbortSignal'],
    ['storeDeadlineMs', [-1, Number.NaN, 2 ** 31, null], 'must be milliseconds from 0'],
    ['enableTracing', ['yes', 1, null], 'must be true or false'],
    ['captureContent', ['yes', 0, null], 'must be true or false'],
    ['redact', ['***', {}, null], 'must be a function'],
    ['spanNames', ['otel', null], 'must be one of millrace, semconv'],
    [
      'logger',
      [{}, null, 'console', { debug() {}, info() {}, warn() {} }],
      'must have the methods debug, info, warn, error',
    ],
    ['clock', [{}, null, Date, { now: () => 0 }], 'must have the methods now, schedule'],
    ['generateId', ['id', 7, null], 'must be a function'],
  ];

  it.each(wrong)('is refused for %s out of %j: it %s', (name, values, words) => {
    for (const value of values) {
      const { code, message, retryable } = refusalOf(() => new AgentLoop(configWith(name, value)));
      expect({ code, retryable }).toEqual({ code: 'INVALID_CONFIG', retryable: false });
      expect(message).toContain(words);
      expect(message).toMatch(new RegExp(`^${name}\\b.*; .*\\.$`));
    }
  });

  it('is checked for every option there is', () => {
    const { message } = refusalOf(() => new AgentLoop(configWith('verbose', true)));
    const options = message.replace(/^.*: /, '').replace('.', '').split(', ');
    expect(new Set(wrong.map(([name]) => name))).toEqual(new Set(options));
  });

  it('names the value, shortened, and the default that counts without it', () => {
    const messageOf = (name: string, value: unknown) => refusalOf(() => new AgentLoop(configWith(name, value))).message;
    expect(messageOf('maxIterations', -3)).toBe(
      'maxIterations must be a whole number of at least 1, not -3; leave it out for the default of 10.',
    );
    expect(messageOf('toolFailureMode', 'x'.repeat(99))).toBe(
      `toolFailureMode must be one of continue, fail, not "${'x'.repeat(40)}"; leave it out for the default of continue.`,
    );
    expect(messageOf('temperature', { secret: 'sesame' })).toBe(
      'temperature must be a number of at least 0, not an object; most models take 0 to 2.',
    );
    expect(messageOf('maxTokens', 0)).toBe('maxTokens must be a whole number of at least 1, not 0; or leave it out.');
  });

  it('is refused for an option that there is not, and lists those that there are', () => {
    const { code, message } = refusalOf(() => new AgentLoop(configWith('maxIteration', 3)));
    expect(code).toBe('INVALID_CONFIG');
    expect(message).toMatch(/^maxIteration is not an option; the options are: agentId, .*maxIterations, /);
  });

  it.each([undefined, null, 'tester', 7])('is refused where it is %s', (config) => {
    const { code, message } = refusalOf(() => Reflect.construct(AgentLoop, [config]));
    expect(code).toBe('INVALID_CONFIG');
    expect(message).toContain('new AgentLoop({ agentId, llmProvider })');
  });

  it.each(['agentId', 'llmProvider'])('is refused without %s', (name) => {
    expect(refusalOf(() => new AgentLoop(configWith(name, undefined))).message).toMatch(new RegExp(`^${name} must be`));
  });

  it('may have every option, and options that are undefined', () => {
    const logger: Logger = { debug() {}, info() {}, warn() {}, error() {} };
    const full: Required<AgentLoopConfig> = {
      ...agent,
      toolProviders: [new LocalToolProvider()],
      taskStateStore: new InMemoryStateStore(),
      extensions: [{ name: 'all', approveToolCall: () => ({ decision: 'approve' }) }],
      maxIterations: 1,
      onLimit: 'stop',
      systemPrompt: '',
      toolChoice: { name: 'count' },
      model: 'small',
      temperature: 0,
      maxTokens: 1,
      responseFormat: { type: 'json_schema', name: 'answer', schema: {} },
      providerOptions: {},
      toolConcurrency: 1,
      toolTimeoutMs: 0,
      toolFailureMode: 'fail',
      abortGraceMs: 0,
      leaseMs: 100,
      storeDeadlineMs: 0,
      maxResumes: 1,
      shutdown: new AbortController().signal,
      enableTracing: false,
      captureContent: true,
      redact: (text) => text,
      spanNames: 'semconv',
      logger,
      clock: { now: () => 0, schedule: () => () => {} },
      generateId: () => 'id',
    };
    const { hooks, ...resolved } = resolveConfig(full);
    expect(hooks.approveToolCall).toEqual(full.extensions);
    expect({ ...resolved, logger }).toEqual(full);
    const undefinedAll: AgentLoopConfig = { ...agent };
    for (const name of Object.keys(full)) if (!(name in agent)) Reflect.set(undefinedAll, name, undefined);
    expect(resolveConfig(undefinedAll)).toEqual(resolveConfig(agent));
  });

  it('S1-23 S1-52 S0-22 has the defaults that it documents', () => {
    const { clock, generateId, hooks, logger, ...rest } = resolveConfig(agent);
    expect(Object.values(hooks).flat()).toEqual([]);
    expect(rest).toEqual({
      ...agent,
      toolProviders: [],
      extensions: [],
      maxIterations: 10,
      onLimit: 'fail',
      toolConcurrency: 5,
      toolTimeoutMs: 30_000,
      toolFailureMode: 'continue',
      abortGraceMs: 5_000,
      leaseMs: 30_000,
      storeDeadlineMs: 30_000,
      maxResumes: 10,
      enableTracing: true,
    });
    expect(Math.abs(clock.now() - Date.now())).toBeLessThan(1_000);
    expect(generateId()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(logger.error('nobody hears')).toBeUndefined();
  });

  it('is not the caller’s object: a change behind the loop’s back changes nothing', async () => {
    const model = scriptedLLM([{ text: 'Hi.' }]);
    const config = { agentId: 'tester', llmProvider: model, systemPrompt: 'Be brief.' };
    const loop = new AgentLoop(config);
    config.systemPrompt = 'Be long.';
    config.llmProvider = scriptedLLM([]);
    await loop.startTurn(question).result();
    expect(model.calls[0]?.messages[0]).toEqual({ role: 'system', content: 'Be brief.' });
  });
});

describe('a logger', () => {
  function recording() {
    const lines: unknown[][] = [];
    const at =
      (level: string) =>
      (...line: unknown[]) =>
        lines.push([level, ...line]);
    return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  }

  it('S1-105 gets metrics of responses and errors with ids, and no content', async () => {
    const logger = recording();
    const usage = { promptTokens: 12, completionTokens: 3, totalTokens: 15 };
    const model = scriptedLLM([{ text: 'Sesame.', usage, finishReason: 'stop' }, { error: new Error('broken') }]);
    const loop = new AgentLoop({ agentId: 'tester', llmProvider: model, logger });
    await loop.startTurn(question, { taskId: 'one' }).result();
    await loop
      .startTurn(question, { taskId: 'two' })
      .result()
      .catch(() => undefined);
    expect(logger.lines).toEqual([
      [
        'debug',
        'model call done',
        { taskId: 'one', durationMs: expect.any(Number), finishReason: 'stop', totalTokens: 15 },
      ],
      ['error', 'model call failed', { taskId: 'two', agentId: 'tester', code: 'PROVIDER_FAILED' }],
      ['error', 'turn failed', { taskId: 'two', agentId: 'tester', code: 'PROVIDER_FAILED' }],
    ]);
    expect(JSON.stringify(logger.lines)).not.toMatch(/Sesame|Hello|broken/);
  });

  it('that throws does not disturb a turn', async () => {
    const broken = () => {
      throw new Error('the disk is full');
    };
    const logger = { debug: broken, info: broken, warn: broken, error: broken };
    const model = scriptedLLM([{ text: 'Hi.' }, { error: new Error('no') }]);
    const loop = new AgentLoop({ agentId: 'tester', llmProvider: model, logger });
    expect(await loop.startTurn(question).result()).toMatchObject({ status: 'completed' });
    await expect(loop.startTurn(question).result()).rejects.toMatchObject({ code: 'PROVIDER_FAILED' });
  });

  it('keeps its `this`', async () => {
    class Counter implements Logger {
      #count = 0;
      debug() {
        this.#count++;
      }
      info() {}
      warn() {}
      error() {}
      get count() {
        return this.#count;
      }
    }
    const logger = new Counter();
    await new AgentLoop({ agentId: 'tester', llmProvider: scriptedLLM([{ text: 'Hi.' }]), logger })
      .startTurn(question)
      .result();
    expect(logger.count).toBe(1);
  });
});

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
    ['signal', [{}, null, new AbortController()], 'must be an AbortSignal'],
    ['detached', ['yes', 1, null], 'must be true or false'],
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
    expect(message).toBe(
      `maxIteration is not an option here; the options are: ${wrong.map(([name]) => name).join(', ')}.`,
    );
    expect(refusalOf(() => new AgentLoop(agent).startTurn(question, JSON.parse('null'))).message).toContain(
      'an object',
    );
  });

  it('of a resume are those that it is given anew', () => {
    const config = { ...agent, taskStateStore: new InMemoryStateStore() };
    const resumeWith = (name: string, value: unknown) => () =>
      AgentLoop.resume('t', config, Object.fromEntries([[name, value]]));
    expect(refusalOf(resumeWith('maxIterations', 3)).message).toBe(
      'maxIterations is not an option here; the options are: contextId, authContext, parentContext, signal, detached, answers.',
    );
    expect(refusalOf(resumeWith('authContext', 'ann')).message).toContain('authContext must be an object');
    expect(refusalOf(() => AgentLoop.resume('a b', config)).message).toContain('taskId must have 1 to 128 characters');
    expect(refusalOf(() => AgentLoop.resume('t', agent)).message).toContain('needs taskStateStore');
  });

  it('may all be given, also as undefined', async () => {
    const options: Required<StartOptions> = {
      taskId: 'task_1.a:b-C',
      agentId: 'other',
      contextId: 'c',
      parentContext: ROOT_CONTEXT,
      authContext: {},
      systemPrompt: '',
      maxIterations: 1,
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
    ['[{"role":"user"}]', 'messages[0].content must be a text or an array of parts, not undefined.'],
    ['[{"role":"user","content":null}]', 'messages[0].content must be a text or an array of parts, not null.'],
    ['[{"role":"user","content":{"text":"a"}}]', 'not an object.'],
    [
      '[{"role":"user","content":["a"]}]',
      'messages[0].content[0] needs a type out of: text, image_url, file; it is undefined.',
    ],
    ['[{"role":"user","content":[{"type":"audio"}]}]', 'it is "audio".'],
    [
      '[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text"}]}]',
      'messages[0].content[1].text must be a text.',
    ],
    [
      '[{"role":"user","content":[{"type":"image_url","image_url":"https://a"}]}]',
      'messages[0].content[0].image_url.url must be an address',
    ],
    ['[{"role":"user","content":[{"type":"file"}]}]', 'messages[0].content[0].file must be an object'],
    ['[{"role":"tool","content":"a"}]', 'messages[0] is a tool message and needs the toolCallId'],
    ['[{"role":"tool","content":"a","toolCallId":"a","status":"done"}]', 'messages[0].status must be ok or error'],
    ['[{"role":"user","content":"a","id":7}]', 'messages[0].id must be a text, not 7.'],
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

  it('may be of every kind, or none', async () => {
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
    const model = scriptedLLM([{ text: 'Hi.' }, { text: 'Hi.' }]);
    const loop = new AgentLoop({ ...agent, llmProvider: model });
    await loop.startTurn(all).result();
    await loop.startTurn([]).result();
    expect(model.calls.map(({ messages }) => messages.length)).toEqual([4, 0]);
  });
});
