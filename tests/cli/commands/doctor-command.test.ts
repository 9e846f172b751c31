import { afterEach, describe, expect, it } from '@jest/globals';
import { type ModelServer, type ModelServerOptions, startModelServer } from 'millrace/testing';
import { type InProcessEnd, runInProcess } from '../run-in-process.ts';

const key = 'sk-very-secret-0123456789';
const env = { OPENAI_API_KEY: key, ANTHROPIC_API_KEY: key, GEMINI_API_KEY: key };
const servers: ModelServer[] = [];

async function start(options: ModelServerOptions): Promise<ModelServer> {
  const server = await startModelServer(options);
  servers.push(server);
  return server;
}

async function doctor(model: string, baseUrl: string, ...more: readonly string[]): Promise<InProcessEnd> {
  const end = await runInProcess(['doctor', '--model', model, '--base-url', baseUrl, ...more], { env });
  expect(end.stdout + end.stderr).not.toContain(key);
  return end;
}

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

describe('M-25 millrace doctor', () => {
  it.each([
    ['openai-responses', 'openai:gpt-5.6-sol'],
    ['openai-chat', 'openai-chat:gpt-4o'],
    ['anthropic', 'anthropic:claude-opus-4-8'],
    ['google', 'google:gemini-3-pro'],
  ] as const)('finds nothing wrong with a server of %s', async (strict, model) => {
    const { baseUrl } = await start({ strict });
    const end = await doctor(model, baseUrl);
    expect(end.stdout.split('\n')).toEqual([
      '✓ keys    set in the environment: ANTHROPIC_API_KEY, GEMINI_API_KEY, OPENAI_API_KEY',
      `✓ model   ${model} is asked at ${baseUrl}`,
      expect.stringMatching(/^✓ answer {2}it answers \(.* tokens\)$/),
      expect.stringMatching(/^✓ stream {2}it streams \(\d+ pieces\)$/),
      '✓ tools   it calls a tool and answers with its result',
      '',
    ]);
    expect(end).toMatchObject({ exitCode: 0, stderr: '' });
  });

  it('tries the model that run would ask, and says that no key is set', async () => {
    const end = await runInProcess(['doctor', '--json']);
    expect(end.exitCode).toBe(0);
    expect(JSON.parse(end.stdout)).toMatchObject({
      ok: true,
      checks: [
        { check: 'keys', message: 'no key of a vendor is set in the environment' },
        { check: 'model', message: expect.stringContaining('no model is set') },
        { check: 'answer' },
        { check: 'stream' },
        { check: 'tools', ok: true },
      ],
    });
  });

  it('says which variable lacks a key', async () => {
    const end = await runInProcess(['doctor', '--model', 'anthropic:claude-opus-4-8']);
    expect(end.exitCode).toBe(1);
    expect(end.stdout).toMatch(/✗ model .* needs a key: set ANTHROPIC_API_KEY.*\(INVALID_CONFIG\)/);
  });

  it('says which package is not installed', async () => {
    const end = await runInProcess(['doctor', '--model', 'xai:grok-5'], { env: { XAI_API_KEY: key } });
    expect(end.exitCode).toBe(1);
    expect(end.stdout).toMatch(/@ai-sdk\/xai.*\(MISSING_PACKAGE\)/);
  });

  it('says that nothing answers at the address', async () => {
    const server = await start({});
    await server.close();
    const end = await doctor('openai-chat:gpt-4o', server.baseUrl);
    expect(end.exitCode).toBe(1);
    expect(end.stdout).toMatch(/✗ answer .*\(PROVIDER_UNREACHABLE\)/);
    expect(end.stdout).not.toContain('tools');
  });

  it('names the models that are most like an unknown one', async () => {
    const { baseUrl } = await start({ strict: 'anthropic', model: 'claude-opus-4-8' });
    const end = await doctor('anthropic:claude-opus-4-0', baseUrl);
    expect(end.exitCode).toBe(1);
    expect(end.stdout).toMatch(/✗ answer .*the closest known names are .*claude-opus-4.*\(PROVIDER_NOT_FOUND\)/);
  });

  const refusals = [
    [
      'a key',
      { status: 401, body: { error: { message: `Incorrect API key provided: ${key}` } } },
      /key was refused: check that OPENAI_API_KEY/,
    ],
    [
      'an empty account',
      { status: 429, body: { error: { message: 'You exceeded your current quota', code: 'insufficient_quota' } } },
      /no credit or quota left: top it up/,
    ],
    [
      'a region',
      { status: 403, body: { error: { message: 'Country, region, or territory not supported' } } },
      /use another region/,
    ],
    [
      'a context that is too small',
      { status: 400, body: { error: { message: "This model's maximum context length is 16 tokens" } } },
      /raise it \(num_ctx/,
    ],
  ] as const;

  it.each(refusals)('says what to do about %s', async (_, refusal, words) => {
    const { baseUrl } = await start({ script: [refusal] });
    const end = await doctor('openai-chat:gpt-4o', baseUrl);
    expect(end.exitCode).toBe(1);
    expect(end.stdout).toMatch(words);
  });

  it('names the prefix whose endpoint takes tools', async () => {
    const message =
      'Function tools with reasoning_effort are not supported for gpt-5.5 in /v1/chat/completions. Please use /v1/responses instead.';
    const refusal = { status: 400, body: { error: { message } } };
    const { baseUrl } = await start({ script: [{ text: '84' }, { text: '84' }, refusal] });
    const end = await doctor('openai-chat:gpt-5.5', baseUrl);
    expect(end.exitCode).toBe(1);
    expect(end.stdout).toMatch(/✓ stream[\s\S]*✗ tools .*use --model openai:gpt-5\.5/);
  });

  it('says that a model calls no tools', async () => {
    const { baseUrl } = await start({ script: [{ text: '84' }, { text: '84' }, { text: '84' }] });
    const { exitCode, stdout } = await doctor('tiny', baseUrl, '--json');
    expect(exitCode).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      ok: false,
      checks: [
        {},
        {},
        {},
        {},
        { check: 'tools', ok: false, message: expect.stringContaining('use a model that calls tools') },
      ],
    });
  });
});
