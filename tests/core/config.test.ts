import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  type AgentLoopConfig,
  InMemoryArtifactStore,
  InMemoryStateStore,
  LocalToolProvider,
  type Logger,
  limits,
  type Message,
} from 'millrace';
import { AgentLoop, resolveConfig } from 'millrace/internals';
import { openResources, scriptedLLM } from 'millrace/testing';
import { refusalOf } from './refusal-of.ts';

let ledger = openResources();
beforeEach(() => {
  ledger = openResources();
});
afterEach(() => ledger.assertNone());

const agent = { agentId: 'tester', llmProvider: scriptedLLM([]) };
const question: readonly Message[] = [{ role: 'user', content: 'Hello' }];

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
    // The core has no tools of its own: the AgentLoop of the package makes them of the store.
    ['artifactStore', [new InMemoryArtifactStore()], 'is given to the core'],
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
    ['onLength', ['stop', true, null], 'must be one of fail, complete'],
    ['systemPrompt', [7, ['Be brief.'], null], 'must be a string'],
    ['toolChoice', ['any', 7, {}, { name: 3 }, null], 'must be "auto", "none", "required" or { name }'],
    ['temperature', [-0.1, Number.NaN, '1', null], 'must be a number of at least 0'],
    ['maxTokens', [0, 0.5, '9', null], 'must be a whole number of at least 1'],
    [
      'reasoning',
      ['max', true, {}, { budgetTokens: 0 }, { budgetTokens: 1, effort: 'low' }, null],
      'must be "none", "minimal"',
    ],
    ['topP', [0, 1.01, Number.NaN, '1', null], 'must be a number above 0 and at most 1'],
    ['stop', ['END', [], [''], [1], Array(9).fill('END'), null], 'must be an array of 1 to 8 non-empty strings'],
    ['seed', [0.5, '7', Number.NaN, null], 'must be an integer'],
    ['parallelToolCalls', ['no', 0, null], 'must be true or false'],
    ['cache', ['yes', 1, null], 'must be true or false'],
    ['toolConcurrency', [0, 2.5, Number.POSITIVE_INFINITY, '5', null], 'must be a whole number of at least 1'],
    ['modelSilenceMs', [-1, 2 ** 31, '1'], 'must be milliseconds from 0'],
    ['toolListTimeoutMs', [-1, 2 ** 31, '1'], 'must be milliseconds from 0'],
    ['toolTimeoutMs', [-1, Number.POSITIVE_INFINITY, 2 ** 31, '1', null], 'must be milliseconds from 0'],
    ['toolFailureMode', ['stop', null], 'must be one of continue, fail'],
    ['abortGraceMs', [-1, Number.NaN, 2 ** 31, null], 'must be milliseconds from 0'],
    ['leaseMs', [0, 99, Number.NaN, 2 ** 31, null], 'must be milliseconds from 100'],
    ['extensions', [{}, 7, null], 'must be an array'],
    ['extensions', [[null], [{}], [{ name: '' }]], 'extensions[0] must have a name'],
    ['extensions', [[limits]], 'extensions[0] must be an extension, not a function'],
    [
      'extensions',
      [[{ name: 'x', beforeLunch() {} }], [{ name: 'x', approveToolCall: true }]],
      'is not a hook; the hooks',
    ],
    ['maxResumes', [0, 1.5, '3', null], 'must be a whole number of at least 1'],
    ['retryPlan', [null, [], 5], 'must be an object { attempts'],
    ['agents', [{}, [], null], 'must be a function'],
    ['argumentChecks', [{}, true], 'must be a function'],
    ['maxHandOffs', [-1, 1.5, '3', null], 'must be a whole number of at least 0'],
    ['shutdown', [true, {}, new AbortController()], 'must be an AbortSignal'],
    ['subAgentEvents', ['some', null], 'must be one of all, records, none'],
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
    const full: Required<Omit<AgentLoopConfig, 'artifactStore'>> = {
      ...agent,
      agents: () => undefined,
      maxHandOffs: 0,
      toolProviders: [new LocalToolProvider()],
      argumentChecks: null,
      taskStateStore: new InMemoryStateStore(),
      extensions: [{ name: 'all', approveToolCall: () => ({ decision: 'approve' }) }],
      maxIterations: 1,
      onLimit: 'stop',
      onLength: 'complete',
      systemPrompt: '',
      toolChoice: { name: 'count' },
      model: 'small',
      temperature: 0,
      maxTokens: 1,
      reasoning: { budgetTokens: 1 },
      topP: 1,
      stop: ['END'],
      seed: -1,
      parallelToolCalls: false,
      cache: true,
      responseFormat: { type: 'json_schema', name: 'answer', schema: {} },
      providerOptions: {},
      toolConcurrency: 1,
      modelSilenceMs: 0,
      toolListTimeoutMs: 0,
      toolTimeoutMs: 0,
      toolFailureMode: 'fail',
      abortGraceMs: 0,
      leaseMs: 100,
      storeDeadlineMs: 0,
      maxResumes: 1,
      retryPlan: { attempts: 1, delayMs: 0, maxDelayMs: 0, on: ['PROVIDER_SERVER'] },
      subAgentEvents: 'records',
      shutdown: new AbortController().signal,
      enableTracing: false,
      captureContent: true,
      redact: (text) => text,
      spanNames: 'semconv',
      logger,
      clock: { now: () => 0, schedule: () => () => {} },
      generateId: () => 'id',
    };
    const { hooks, outside, resolve, ...resolved } = resolveConfig(full);
    expect(hooks.approveToolCall).toEqual(full.extensions);
    expect(resolve).toBe(resolveConfig);
    expect({ ...resolved, logger }).toEqual(full);
    const undefinedAll: AgentLoopConfig = { ...agent };
    for (const name of Object.keys(full)) if (!(name in agent)) Reflect.set(undefinedAll, name, undefined);
    expect(resolveConfig(undefinedAll)).toEqual(resolveConfig(agent));
  });

  it('S1-23 S1-52 S0-22 has the defaults that it documents', () => {
    const { clock, generateId, hooks, outside, resolve, logger, ...rest } = resolveConfig(agent);
    expect(Object.values(hooks).flat()).toEqual([]);
    expect(resolve).toBe(resolveConfig);
    expect(rest).toEqual({
      ...agent,
      toolProviders: [],
      extensions: [],
      maxIterations: 10,
      maxHandOffs: 10,
      onLimit: 'fail',
      onLength: 'fail',
      toolConcurrency: 5,
      modelSilenceMs: 900_000,
      toolListTimeoutMs: 120_000,
      toolTimeoutMs: 30_000,
      toolFailureMode: 'continue',
      abortGraceMs: 5_000,
      leaseMs: 30_000,
      storeDeadlineMs: 30_000,
      maxResumes: 10,
      subAgentEvents: 'all',
      enableTracing: true,
    });
    const before = Date.now();
    const now = clock.now();
    expect(now).toBeGreaterThanOrEqual(before);
    expect(now).toBeLessThanOrEqual(Date.now());
    expect(generateId()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(new Set(Array.from({ length: 1_000 }, generateId)).size).toBe(1_000);
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
