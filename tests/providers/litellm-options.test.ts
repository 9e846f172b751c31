import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { AgentLoopError } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';

const good = { baseUrl: 'http://127.0.0.1:4000/v1', model: 'm' };

/** As a caller without types could get it wrong. */
function create(options: unknown): LiteLLMProvider {
  return Reflect.construct(LiteLLMProvider, [options]);
}

function refusal(options: unknown): AgentLoopError {
  try {
    create(options);
  } catch (error) {
    if (AgentLoopError.isInstance(error)) return error;
    throw error;
  }
  throw new Error('It was accepted.');
}

describe('the options of LiteLLMProvider', () => {
  const wrong: readonly (readonly [string, unknown])[] = [
    ['baseUrl', { model: 'm' }],
    ['baseUrl', { ...good, baseUrl: 'localhost:4000' }],
    ['baseUrl', { ...good, baseUrl: 'ftp://x.test' }],
    ['baseUrl', { ...good, baseUrl: '/v1' }],
    ['baseUrl', { ...good, baseUrl: 'http://x.test/v1?a=1' }],
    ['baseUrl', { ...good, baseUrl: 'http://x.test/v1#a' }],
    ['baseUrl', { ...good, baseUrl: 'http://me:hush-hush@x.test/v1' }],
    ['model', { baseUrl: good.baseUrl }],
    ['model', { ...good, model: ' ' }],
    ['apiKey', { ...good, apiKey: '' }],
    ['apiKey', { ...good, apiKey: 'hush-hush\n' }],
    ['apiKey', { ...good, apiKey: 'Bearer hush-hush' }],
    ['apiKey', { ...good, apiKey: 7 }],
    ['headers', { ...good, headers: ['a'] }],
    ['headers["x-a"]', { ...good, headers: { 'x-a': 'hush-hush\r\nx-b: 1' } }],
    ['headers["x a"]', { ...good, headers: { 'x a': 'hush-hush' } }],
    ['headers["x-a"]', { ...good, headers: { 'x-a': 1 } }],
    ['timeoutMs', { ...good, timeoutMs: -1 }],
    ['timeoutMs', { ...good, timeoutMs: 2 ** 31 }],
    ['chunkTimeoutMs', { ...good, chunkTimeoutMs: 1.5 }],
    ['chunkTimeoutMs', { ...good, chunkTimeoutMs: '100' }],
    ['maxBodyBytes', { ...good, maxBodyBytes: 0 }],
    ['maxBodyBytes', { ...good, maxBodyBytes: Number.NaN }],
    ['providerName', { ...good, providerName: '' }],
    ['capabilities.tools', { ...good, capabilities: { tools: 'no' } }],
    ['capabilities.tool', { ...good, capabilities: { tool: false } }],
    ['capabilities', { ...good, capabilities: ['tools'] }],
    ['capabilities', { ...good, capabilities: false }],
    ['maxTokensField', { ...good, maxTokensField: 'max' }],
    ['reasoningField', { ...good, reasoningField: 'thoughts' }],
    ['includeUsage', { ...good, includeUsage: 1 }],
    ['sendMetadata', { ...good, sendMetadata: 'yes' }],
    ['propagateTrace', { ...good, propagateTrace: null }],
    ['extraBody', { ...good, extraBody: 'x' }],
    ['extraBody.model', { ...good, extraBody: { model: 'other' } }],
    ['extraBody.stream', { ...good, extraBody: { stream: true } }],
    ['fetch', { ...good, fetch: 'node-fetch' }],
    ['clock', { ...good, clock: Date }],
  ];

  it.each(wrong)('names %s in what is wrong with it, never its secret', (name, options) => {
    const error = refusal(options);
    expect(error).toMatchObject({ code: 'INVALID_CONFIG', retryable: false });
    expect(error.message.startsWith(`LiteLLMProvider: ${name} `)).toBe(true);
    expect(inspect(error)).not.toContain('hush-hush');
  });

  it('tells the options there are where one is not known', () => {
    const stray = refusal({ baseURL: good.baseUrl, model: 'm' });
    expect(stray).toMatchObject({ code: 'INVALID_CONFIG', retryable: false });
    expect(stray.message).toMatch(/^LiteLLMProvider has no option "baseURL"; the options are: baseUrl, model, apiKey/);
  });

  it('refuses what is no object of options', () => {
    expect(refusal(undefined)).toMatchObject({ code: 'INVALID_CONFIG', retryable: false });
    expect(refusal(undefined).message).toMatch(/^LiteLLMProvider takes an object of options, not undefined; /);
  });

  it('may all be left out but baseUrl and model, or be 0 where that means no limit', () => {
    expect(() => create(good)).not.toThrow();
    expect(() => create({ ...good, timeoutMs: 0, chunkTimeoutMs: 0 })).not.toThrow();
  });
});
