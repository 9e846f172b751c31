import { afterEach, describe, expect, it } from '@jest/globals';
import type { LLMCallParams, ToolDefinition } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { type ChatBody, type ModelServer, modelServer } from 'millrace/testing';

let server: ModelServer | undefined;

afterEach(async () => {
  await server?.close();
});

const messages: LLMCallParams['messages'] = [{ role: 'user', content: 'Hi' }];

function search(parameters: ToolDefinition['function']['parameters']): ToolDefinition {
  return { type: 'function', function: { name: 'search', description: 'Searches.', parameters } };
}

/** A provider of a server that answers 400 with the words of `refusal`, where it gives any. */
async function providerOf(refusal: (body: ChatBody) => string | undefined, model = 'm'): Promise<LiteLLMProvider> {
  const step = (body: ChatBody) => {
    const message = refusal(body);
    return message === undefined ? { text: 'Hello' } : { status: 400, body: { error: { message } } };
  };
  server = await modelServer({ script: Array.from({ length: 9 }, () => step) });
  return new LiteLLMProvider({ baseUrl: server.baseUrl, model });
}

describe('what a server refused before', () => {
  it('M-10 M-18 is left out for a value that it refused, and sent with another one', async () => {
    const provider = await providerOf(({ temperature }) =>
      Number(temperature) > 1 ? "Invalid value for 'temperature': at most 1" : undefined,
    );
    for (const temperature of [1.5, 1.5, 0.5]) await provider.call({ messages, temperature });
    expect(server?.requests.map(({ temperature }) => temperature)).toEqual([1.5, undefined, undefined, 0.5]);
  });

  it('M-10 M-18 is left out whatever its value, where the server has no such setting', async () => {
    const provider = await providerOf(({ temperature }) =>
      temperature === undefined ? undefined : "Unsupported parameter: 'temperature' is not supported with this model.",
    );
    for (const temperature of [1.5, 0.5]) await provider.call({ messages, temperature });
    expect(server?.requests.map(({ temperature }) => temperature)).toEqual([1.5, undefined, undefined]);
  });

  it('M-10 M-18 counts for the model that refused it alone', async () => {
    const provider = await providerOf(({ model, temperature }) =>
      model === 'fixed' && temperature !== undefined ? 'temperature is not supported with this model' : undefined,
    );
    for (const model of ['fixed', 'free', 'fixed']) await provider.call({ messages, temperature: 0.5, model });
    expect(server?.requests.map(({ temperature }) => temperature)).toEqual([0.5, undefined, 0.5, undefined]);
  });

  it('M-10 M-12 is the tool with that schema, not every tool of its name', async () => {
    const provider = await providerOf(({ tools }) =>
      JSON.stringify(tools ?? []).includes('"bad"') ? "Invalid schema for function 'search'" : undefined,
    );
    const bad = search({ type: 'object', properties: { bad: { type: 'string' } } });
    const good = search({ type: 'object', properties: { query: { type: 'string' } } });
    for (const tool of [bad, bad, good]) await provider.call({ messages, tools: [tool] });
    expect(server?.requests.map(({ tools }) => (Array.isArray(tools) ? tools.length : 0))).toEqual([1, 0, 0, 1]);
  });

  it('M-10 M-18 is not learned from a request that failed again, and takes nothing away from what others learned', async () => {
    const provider = await providerOf(({ temperature, seed, stop }) => {
      if (stop !== undefined) return seed === undefined ? 'the prompt is strange' : 'seed is not supported';
      return temperature === undefined ? undefined : 'temperature is not supported';
    });
    const failing = provider.call({ messages, seed: 1, stop: ['.'] });
    const [failed] = await Promise.allSettled([failing, provider.call({ messages, temperature: 1 })]);
    expect(failed).toMatchObject({ status: 'rejected', reason: { code: 'PROVIDER_BAD_REQUEST' } });
    await provider.call({ messages, seed: 1, temperature: 1 });
    expect(server?.requests.at(-1)).toMatchObject({ seed: 1 });
    expect(server?.requests.at(-1)).not.toHaveProperty('temperature');
    expect(server?.received).toBe(5);
  });

  it('M-10 is what the server names, not what the name of its model says', async () => {
    const provider = await providerOf(() => 'Something is wrong.', 'seed-thinking-vision');
    await expect(provider.call({ messages, reasoning: 'low', seed: 1 })).rejects.toMatchObject({
      code: 'PROVIDER_BAD_REQUEST',
    });
    expect(server?.requests).toHaveLength(1);
  });
});
