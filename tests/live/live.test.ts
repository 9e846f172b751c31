import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type ModelServer, type ModelServerOptions, modelServer, type ProfileName } from 'millrace/testing';
import { runLive } from './live.ts';
import { scenarios } from './scenarios.ts';

const key = 'sk-very-secret-0123456789';
const env = { OPENAI_API_KEY: key, ANTHROPIC_API_KEY: key, GEMINI_API_KEY: key };

let folder: string;
let servers: ModelServer[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-live-'));
  servers = [];
});

afterEach(async () => {
  rmSync(folder, { recursive: true, force: true });
  await Promise.all(servers.map((server) => server.close()));
});

async function start(options: ModelServerOptions): Promise<ModelServer> {
  const server = await modelServer(options);
  servers.push(server);
  return server;
}

async function live(...args: readonly string[]): Promise<{ code: number; text: string }> {
  let text = '';
  const code = await runLive(args, {
    env,
    write: (more) => {
      text += more;
    },
  });
  return { code, text };
}

const vendors: readonly (readonly [string, ProfileName, string])[] = [
  ['openai', 'openai-responses', 'gpt-5.6-sol'],
  ['openai-chat', 'openai-chat', 'gpt-4o-mini'],
  ['anthropic', 'anthropic', 'claude-sonnet-4-6'],
  ['google', 'google', 'gemini-3.5-flash'],
  ['openai-compatible', 'mistral', 'mistral-large-latest'],
];

describe('npm run test:live', () => {
  it.each(vendors)('M-27 plays every scenario of %s against its strict server', async (vendor, strict, model) => {
    const { baseUrl } = await start({ strict, model });
    const { code, text } = await live(`${vendor}:${model}`, '--base-url', baseUrl, '--record', folder);
    const lines = scenarios.map(({ name }) => expect.stringMatching(new RegExp(`^ {2}holds {2}${name} `)));
    expect(text.split('\n')).toEqual([`${vendor}:${model}`, ...lines, '  12 of 12 hold', '']);
    expect(code).toBe(0);
    const files = readdirSync(folder);
    expect(files).toEqual(
      expect.arrayContaining([`${vendor}-usage-1.json`, `${vendor}-tools-over-two-iterations-3.json`]),
    );
    for (const file of files) expect(readFileSync(join(folder, file), 'utf8')).not.toContain(key);
  });

  it('M-27 leaves a secret out of what it shows and writes, also one that the vendor repeats', async () => {
    const refusal = { status: 401, body: { error: { message: `Incorrect API key provided: ${key}` } } };
    const { baseUrl } = await start({ script: [refusal] });
    const args = ['openai-chat', '--base-url', baseUrl, '--record', folder, '--only', 'usage'];
    const { code, text } = await live(...args);
    expect(code).toBe(1);
    expect(text).toMatch(/FAILS {2}usage .*Incorrect API key/);
    expect(text).not.toContain(key);
    const recorded = readFileSync(join(folder, 'openai-chat-usage-1.json'), 'utf8');
    expect(JSON.parse(recorded)).toMatchObject({
      path: '/v1/chat/completions',
      status: 401,
      body: expect.stringContaining('[secret]'),
    });
    expect(recorded).not.toContain(key);
  });

  it('M-27 says which variable it looks for', async () => {
    const { code, text } = await live('mistral');
    expect(text).toBe('mistral is not played: no key, set MISTRAL_API_KEY.\n');
    expect(code).toBe(2);
  });

  it('M-27 says how it is called', async () => {
    expect(await live()).toMatchObject({
      code: 2,
      text: expect.stringContaining('Usage: npm run test:live -- VENDOR'),
    });
    expect((await live('--wrong')).code).toBe(2);
    expect((await live('nobody')).text).toContain('the vendors are anthropic, google, openai');
  });
});
