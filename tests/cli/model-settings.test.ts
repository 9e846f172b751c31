import { describe, expect, it } from '@jest/globals';
import { type Environment, type ModelFlags, modelSettings } from 'millrace/internals';

const local = 'http://localhost:4000/v1';

describe('modelSettings', () => {
  it('without any setting: the stand-in, and a sentence that says so', () => {
    expect(modelSettings({}, { OPENAI_BASE_URL: '' })).toEqual({
      kind: 'demo',
      warnings: [
        expect.stringContaining('the built-in demo model answers; it is a small program, not a language model'),
      ],
    });
  });

  it('a key alone does not send anything anywhere', () => {
    const settings = modelSettings({}, { OPENAI_API_KEY: 'sk-secret' });
    expect(settings).toMatchObject({ kind: 'demo' });
    expect(settings.warnings.join()).toContain('add --model NAME to ask api.openai.com');
    expect(JSON.stringify(settings)).not.toContain('sk-secret');
  });

  it.each<[string, ModelFlags, Environment, object]>([
    ['flags', { baseUrl: local, model: 'm' }, {}, { baseUrl: local, model: 'm' }],
    ['environment', {}, { OPENAI_BASE_URL: local, OPENAI_MODEL: 'm' }, { baseUrl: local, model: 'm' }],
    ['LiteLLM', {}, { LITELLM_BASE_URL: local, LITELLM_MODEL: 'm' }, { baseUrl: local, model: 'm' }],
    [
      'flags before the environment',
      { baseUrl: local, model: 'm' },
      { OPENAI_BASE_URL: 'https://other', OPENAI_MODEL: 'x' },
      { baseUrl: local, model: 'm' },
    ],
    [
      'a named key',
      { baseUrl: local, model: 'm', apiKeyEnv: 'MY_KEY' },
      { MY_KEY: ' k \n', OPENAI_API_KEY: 'other' },
      { baseUrl: local, model: 'm', apiKey: 'k' },
    ],
    [
      'a key and a model: api.openai.com',
      { model: 'm' },
      { OPENAI_API_KEY: 'k' },
      { baseUrl: 'https://api.openai.com/v1', model: 'm', apiKey: 'k' },
    ],
  ])('from %s', (_from, flags, env, expected) => {
    expect(modelSettings(flags, env)).toEqual({ kind: 'server', warnings: [], ...expected });
  });

  it.each<[string, ModelFlags, Environment, object]>([
    [
      'anthropic:claude-x',
      {},
      { ANTHROPIC_API_KEY: ' k ', OPENAI_API_KEY: 'other', OPENAI_BASE_URL: 'http://other' },
      { apiKey: 'k', baseUrl: 'https://api.anthropic.com/v1' },
    ],
    [
      'google:gemini-x',
      {},
      { GEMINI_API_KEY: 'k' },
      { apiKey: 'k', baseUrl: 'https://generativelanguage.googleapis.com/v1beta' },
    ],
    [
      'google:gemini-x',
      {},
      { GEMINI_API_KEY: 'other', GOOGLE_GENERATIVE_AI_API_KEY: 'k' },
      { apiKey: 'k', baseUrl: 'https://generativelanguage.googleapis.com/v1beta' },
    ],
    ['openai:gpt-x', {}, { OPENAI_API_KEY: 'k' }, { apiKey: 'k', baseUrl: 'https://api.openai.com/v1' }],
    ['openai:gpt-x', {}, { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: local }, { apiKey: 'k', baseUrl: local }],
    ['anthropic:m', { baseUrl: local, apiKeyEnv: 'MY_KEY' }, { MY_KEY: 'k' }, { apiKey: 'k', baseUrl: local }],
  ])('%s is asked of its vendor, with %j of the command line and %j', (model, flags, env, expected) => {
    const settings = { kind: 'vendor', model, warnings: [], ...expected };
    expect(modelSettings({ ...flags, model }, env)).toEqual(settings);
    expect(modelSettings(flags, { ...env, OPENAI_MODEL: model })).toEqual(settings);
  });

  it('a prefix of nobody is a part of the name', () => {
    expect(modelSettings({ baseUrl: local, model: 'llama3:8b' }, {})).toMatchObject({
      kind: 'server',
      model: 'llama3:8b',
    });
  });

  it.each<[string, ModelFlags, Environment, string]>([
    [
      "a vendor's model without a key",
      { model: 'google:gemini-x' },
      { OPENAI_API_KEY: 'k' },
      'model google:gemini-x needs a key: set GOOGLE_GENERATIVE_AI_API_KEY or GEMINI_API_KEY, or name another variable',
    ],
    ['a vendor without a model', { model: 'openai:' }, { OPENAI_API_KEY: 'k' }, '--model openai: needs the name'],
    ['an address without a model', { baseUrl: local }, {}, `${local} needs the name of a model`],
    ['a model without address and key', { model: 'm' }, {}, 'model m needs an address'],
    [
      'a named key that is unset',
      { apiKeyEnv: 'MY_KEY' },
      {},
      'the environment variable MY_KEY of --api-key-env is not set',
    ],
    ['a named key without a model', { apiKeyEnv: 'MY_KEY' }, { MY_KEY: 'k' }, '--api-key-env needs --model NAME'],
    ['a bad address', {}, { OPENAI_BASE_URL: 'localhost:4000' }, 'OPENAI_BASE_URL is not an http or https address'],
  ])('%s is refused', (_what, flags, env, sentence) => {
    const act = () => modelSettings(flags, env);
    expect(act).toThrow(sentence);
    expect(act).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
  });

  it('never shows a key that was given in place of its name, nor a password in an address', () => {
    expect(() => modelSettings({ apiKeyEnv: 'sk-secret' }, {})).toThrow(
      '--api-key-env takes the name of an environment variable, never the key itself',
    );
    expect(() => modelSettings({ baseUrl: 'https://me:secret@host/v1?key=secret' }, {})).toThrow(
      'https://host/v1 needs',
    );
  });

  it.each([
    ['http://10.0.0.5:4000', 'the API key goes to 10.0.0.5:4000 over plain http'],
    ['http://127.0.0.1.example.com', 'the API key goes to 127.0.0.1.example.com over plain http'],
  ])('warns of a key on its way to %s', (baseUrl, warning) => {
    const { warnings } = modelSettings({ baseUrl, model: 'm' }, { OPENAI_API_KEY: 'sk-secret' });
    expect(warnings).toEqual([expect.stringContaining(warning)]);
    expect(warnings.join()).not.toContain('sk-secret');
  });

  it.each(['https://10.0.0.5', 'http://127.1.2.3:1', 'http://[::1]:1', 'http://proxy.localhost'])(
    'does not for %s',
    (baseUrl) => {
      expect(modelSettings({ baseUrl, model: 'm' }, { OPENAI_API_KEY: 'k' }).warnings).toEqual([]);
    },
  );
});
