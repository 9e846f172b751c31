import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { type ModelServer, type ModelServerOptions, modelServer } from 'millrace/testing';
import { codeBlocksIn, textOf } from '../docs/markdown.ts';

interface Program {
  readonly name: string;
  readonly strict: NonNullable<ModelServerOptions['strict']>;
  readonly model: string;
  /** Where its requests go. */
  readonly address: string;
  /** What a user sets for it. */
  readonly variables: Readonly<Record<string, string>>;
  /** The header that carries its key. */
  readonly key?: string;
}

const key = 'sk-of-the-test-0123456789';
const programs: readonly Program[] = [
  {
    name: 'openai',
    strict: 'openai-responses',
    model: 'gpt-6-sol',
    address: 'https://api.openai.com/v1/responses',
    variables: { OPENAI_API_KEY: key },
    key: 'authorization',
  },
  {
    name: 'anthropic',
    strict: 'anthropic',
    model: 'claude-opus-4-8',
    address: 'https://api.anthropic.com/v1/messages',
    variables: { ANTHROPIC_API_KEY: key },
    key: 'x-api-key',
  },
  {
    name: 'gemini',
    strict: 'google',
    model: 'gemini-3.6-flash',
    address: 'https://generativelanguage.googleapis.com/v1beta/models/gemini-3.6-flash:streamGenerateContent?alt=sse',
    variables: { GEMINI_API_KEY: key },
    key: 'x-goog-api-key',
  },
  {
    name: 'openrouter',
    strict: 'openrouter',
    model: 'google/gemini-3.1-pro',
    address: 'https://openrouter.ai/api/v1/chat/completions',
    variables: { OPENROUTER_API_KEY: key },
    key: 'authorization',
  },
  {
    name: 'litellm',
    strict: 'litellm',
    model: 'anthropic/claude-sonnet-5',
    address: 'http://localhost:4000/v1/chat/completions',
    variables: { LITELLM_MASTER_KEY: key },
    key: 'authorization',
  },
  {
    name: 'vllm',
    strict: 'vllm',
    model: 'qwen3.8',
    address: 'http://localhost:8000/v1/chat/completions',
    variables: {},
  },
  {
    name: 'ollama',
    strict: 'ollama',
    model: 'qwen3.8',
    address: 'http://localhost:11434/v1/chat/completions',
    variables: {},
  },
  {
    name: 'azure',
    strict: 'azure',
    model: 'gpt-5.6-luna',
    address: 'https://example.openai.azure.com/openai/v1/chat/completions',
    variables: { AZURE_API_KEY: key, AZURE_OPENAI_ENDPOINT: 'https://example.openai.azure.com' },
    key: 'api-key',
  },
];
/** Run by `npm run test:e2e`, which installs its package. */
const elsewhere = ['bedrock'];

const { fetch } = globalThis;
const environment = process.env;
let server: ModelServer | undefined;
let asked: string[];
let printed: unknown[];

/** Sends to the stand-in what goes to a vendor. */
async function start(strict: Program['strict'], model: string): Promise<ModelServer> {
  const script = [{ toolCalls: [{ name: 'clock' }] }, { text: 'It is noon.' }];
  const started = await modelServer({ strict, model, script });
  server = started;
  globalThis.fetch = (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    asked.push(url.href);
    return fetch(`${started.url}${url.pathname.slice(url.pathname.search(/\/v1/))}${url.search}`, init);
  };
  return started;
}

beforeEach(() => {
  asked = [];
  printed = [];
  process.env = {};
  jest.spyOn(console, 'log').mockImplementation((...values) => void printed.push(...values));
});

afterEach(async () => {
  jest.restoreAllMocks();
  process.env = environment;
  globalThis.fetch = fetch;
  await server?.close();
  server = undefined;
});

describe('the programs of the guide to models', () => {
  it.each(programs)('M-25 $name runs a turn with a tool, with no more than its key', async (program) => {
    const vendor = await start(program.strict, program.model);
    process.env = { ...program.variables };
    await import(`../../examples/models/${program.name}.ts`);
    expect(printed).toEqual(['It is noon.']);
    expect(asked).toEqual([program.address, program.address]);
    if (program.key !== undefined)
      for (const headers of vendor.headers) expect(headers[program.key]).toMatch(/^(?:Bearer )?sk-of-the-test/);
    vendor.assertDone();
  });

  it('stand in the guide as they run', () => {
    const blocks = codeBlocksIn(textOf('docs/models.md')).map(({ code }) => code);
    const files = [...programs.map(({ name }) => name), ...elsewhere].map((name) => `examples/models/${name}.ts`);
    expect(files.filter((file) => !blocks.includes(textOf(file)))).toEqual([]);
  });
});
