import { describe, expect, it } from '@jest/globals';
import { AgentLoop, type LLMProvider, LocalToolProvider, type Message, type ToolDefinition, tool } from 'millrace';
import { createProvider } from 'millrace/ai-sdk';
import { profileNames } from 'millrace/internals';
import { LiteLLMProvider } from 'millrace/litellm';
import { modelServer, type ProfileName } from 'millrace/testing';

const call = (id: string, name: string, text = '{}') => ({
  id,
  type: 'function' as const,
  function: { name, arguments: text },
});
const user = (content: string): Message => ({ role: 'user', content });
const answer = (content: string | null, ...toolCalls: ReturnType<typeof call>[]): Message => ({
  role: 'assistant',
  content,
  ...(toolCalls.length > 0 && { toolCalls }),
});
const result = (toolCallId: string, content: Message['content'] = 'done'): Message => ({
  role: 'tool',
  toolCallId,
  content: content ?? '',
});
const picture = { type: 'image_url' as const, image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } };

/** What a conversation may hold that some vendor refuses. */
const histories: Readonly<Record<string, readonly Message[]>> = {
  'a name that a model made up': [user('Hi'), answer('', call('a', 'no such tool!')), result('a'), user('And?')],
  'a blank answer': [user('Hi'), answer(' '), user('Hello?')],
  'half a surrogate pair': [
    user('Hi \ud83d'),
    answer('\ude00 Hi', call('a', 'look', '{"q":"\ud83d"}')),
    result('a', '\ud83d'),
  ],
  'a call without a result': [user('Hi'), answer(null, call('a', 'look')), user('Never mind.')],
  'a user after a tool': [user('Hi'), answer('', call('a', 'look')), result('a'), user('And?')],
  'arguments that are not an object': [user('Hi'), answer('', call('a', 'look', 'oops')), result('a')],
  'the id of two calls': [user('Hi'), answer('', call('a', 'look'), call('a', 'look')), result('a'), result('a')],
  'a long foreign id': [
    user('Hi'),
    answer('', call(`call:${'x'.repeat(80)}`, 'look')),
    result(`call:${'x'.repeat(80)}`),
  ],
  'a picture in a result': [user('Hi'), answer('', call('a', 'look')), result('a', [picture])],
  'instructions in the middle': [user('Hi'), answer('Hi'), { role: 'system', content: 'Be brief.' }, user('Who?')],
  'an answer at the end': [user('Hi'), answer('I am')],
  'an answer at the start': [answer('Hello, how can I help?'), user('Hi')],
};

const tools: readonly ToolDefinition[] = [
  {
    type: 'function',
    function: {
      name: 'look',
      description: 'Looks.',
      parameters: { type: 'object', properties: { q: { type: ['string', 'null'] }, n: { enum: ['', 'a'] } } },
    },
  },
];

/** The profiles that a package of the AI SDK speaks for, and a model of each. */
const ofPackages: Partial<Readonly<Record<ProfileName, string>>> = {
  'openai-responses': 'openai:gpt-5.6-sol',
  anthropic: 'anthropic:claude-opus-4-8',
  google: 'google:gemini-3.5-flash',
};
/** Their packages are not installed, and their own wires are not those of the strict server. */
const skipped: readonly ProfileName[] = ['vertex'];

const models: Partial<Readonly<Record<ProfileName, string>>> = {
  'openai-chat': 'gpt-5.5',
  mistral: 'mistral-large-latest',
  deepseek: 'deepseek-v4-pro',
  moonshot: 'kimi-k3',
  bedrock: 'us.anthropic.claude-opus-4-8',
  'google-chat': 'gemini-3.5-flash',
};

async function providerOf(profile: ProfileName, baseUrl: string): Promise<LLMProvider> {
  const named = ofPackages[profile];
  if (named !== undefined) return createProvider(named, { apiKey: 'k', baseUrl });
  return new LiteLLMProvider({ baseUrl, model: models[profile] ?? 'some-model', profile });
}

/** A message as a client sends it that fits nothing. */
function rawMessage(message: Message): object {
  const { role, content } = message;
  if (message.role === 'tool') return { role, content, tool_call_id: message.toolCallId };
  const calls = message.role === 'assistant' ? message.toolCalls : undefined;
  return { role, content, ...(calls && { tool_calls: calls }) };
}

it.each(Object.entries(histories))('M-24 %s is refused where nothing fits it', async (_, messages) => {
  const statuses = await Promise.all(
    (['unknown', 'mistral'] as const).map(async (strict) => {
      const server = await modelServer({ strict });
      const body = JSON.stringify({ model: 'mistral-large-latest', messages: messages.map(rawMessage) });
      const { status } = await fetch(`${server.baseUrl}/chat/completions`, { method: 'POST', body });
      await server.close();
      return status;
    }),
  );
  expect(statuses).toContain(400);
});

it.each([
  ['openai-responses', 'openai:gpt-5.6-sol'],
  ['anthropic', 'anthropic:claude-sonnet-4-6'],
  ['google', 'google:gemini-3.5-flash'],
] as const)('M-07 reasoning without words comes back to %s', async (strict, model) => {
  const server = await modelServer({ strict, script: [{ toolCalls: [{ name: 'look' }] }, { text: 'Seen.' }] });
  try {
    const provider = await createProvider(model, { apiKey: 'k', baseUrl: server.baseUrl });
    const look = tool({
      name: 'look',
      description: 'Looks.',
      parameters: { type: 'object' },
      execute: () => 'a river',
    });
    const loop = new AgentLoop({
      agentId: 'test',
      llmProvider: provider,
      toolProviders: [new LocalToolProvider([look])],
      reasoning: 'low',
    });
    const { text } = await loop.startTurn([{ role: 'user', content: 'What is there?' }]).result();
    expect(text).toBe('Seen.');
    server.assertDone();
  } finally {
    await server.close();
  }
});

describe('M-09 a strict server takes the conversation of each provider', () => {
  it.each(profileNames.filter((name) => !skipped.includes(name)))('%s', async (profile) => {
    const server = await modelServer({ strict: profile });
    try {
      const provider = await providerOf(profile, server.baseUrl);
      const refused: string[] = [];
      for (const [name, messages] of Object.entries(histories)) {
        for (const offered of [tools, []]) {
          const params = { messages, ...(offered.length > 0 && { tools: offered }) };
          await provider.call(params).catch((error: unknown) => refused.push(`${name}: ${String(error)}`));
        }
      }
      expect(refused).toEqual([]);
      expect(server.received).toBe(2 * Object.keys(histories).length);
    } finally {
      await server.close();
    }
  });
});
