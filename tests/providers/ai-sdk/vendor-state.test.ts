import { createAnthropic } from '@ai-sdk/anthropic';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { agent, fallback, InMemoryMessageStore, type Message, team, tool } from 'millrace';
import { AISDKProvider, createProvider, type VendorProvider } from 'millrace/ai-sdk';
import { lastValueFrom } from 'rxjs';
import { type Exchange, type RawServer, sendJson, sendStream, startRawServer } from '../raw-server.ts';
import { anthropic, claudeBlock, claudeStream, google } from './vendor-wires.ts';

/** A server of Anthropic's wire that signs thinking by its name and the family of the model, and takes no other signature. */
interface SigningServer {
  readonly server: RawServer;
  /** The signatures of each request. */
  readonly signatures: string[][];
  /** Answers the next requests with these, before it says "Done." for ever. */
  readonly next: (...answers: readonly Answer[]) => void;
}

type Answer = 'thinks' | 'calls' | 'hands off' | 'is busy';

const anySignature = /"signature":"([^"]*)"/g;

async function signingServer(name: string): Promise<SigningServer> {
  const server = await startRawServer();
  const signatures: string[][] = [];
  const answers: Answer[] = [];
  const thinking = (signature: string) =>
    claudeBlock(0, { type: 'thinking', thinking: '', signature: '' }, [
      { type: 'thinking_delta', thinking: 'Hm. ' },
      { type: 'signature_delta', signature },
    ]);
  const called = (tool: string, input: object) =>
    claudeBlock(1, { type: 'tool_use', id: `toolu_${signatures.length}`, name: tool, input: {} }, [
      { type: 'input_json_delta', partial_json: JSON.stringify(input) },
    ]);
  server.answer((exchange: Exchange) => {
    const family = String(exchange.body['model']).split('-')[0];
    const own = `${name}-${family}`;
    const sent = [...JSON.stringify(exchange.body).matchAll(anySignature)].map(([, signature = '']) => signature);
    signatures.push(sent);
    if (sent.some((signature) => signature !== own)) {
      return sendJson(
        exchange,
        anthropic.error('invalid_request_error', 'Invalid `signature` in `thinking` block'),
        400,
      );
    }
    switch (answers.shift()) {
      case 'thinks':
        return sendStream(
          exchange,
          claudeStream(
            [...thinking(own), ...claudeBlock(1, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'Hello.' }])],
            'end_turn',
          ),
        );
      case 'calls':
        return sendStream(exchange, claudeStream([...thinking(own), ...called('look', {})], 'tool_use'));
      case 'hands off':
        return sendStream(
          exchange,
          claudeStream([...thinking(own), ...called('hand_off', { agentId: 'second' })], 'tool_use'),
        );
      case 'is busy':
        return sendJson(exchange, anthropic.error('overloaded_error', 'Overloaded'), 529);
      default:
        return sendStream(exchange, anthropic.text('Done.'));
    }
  });
  return { server, signatures, next: (...more) => answers.push(...more) };
}

let first: SigningServer;
let second: SigningServer;

beforeEach(async () => {
  first = await signingServer('first');
  second = await signingServer('second');
});

afterEach(async () => {
  await first.server.close();
  await second.server.close();
});

const look = tool({
  name: 'look',
  description: 'Looks.',
  parameters: { type: 'object', properties: {} },
  execute: () => 'seen',
});

const at = ({ server }: SigningServer, model = 'claude-opus-4-8'): Promise<VendorProvider> =>
  createProvider(`anthropic:${model}`, { apiKey: 'k', baseUrl: server.baseUrl });

describe('M-07 what a server signed goes back to that server and family of models, and to no other', () => {
  it('stays within a turn', async () => {
    first.next('calls', 'calls');
    await agent({ name: 'a', provider: await at(first), tools: [look], retry: null })
      .startTurn('Hi')
      .result();
    expect(first.signatures).toEqual([[], ['first-claude'], ['first-claude', 'first-claude']]);
  });

  it('with fallback() within a turn', async () => {
    first.next('calls', 'is busy');
    second.next('calls');
    const provider = fallback({ to: await at(second) })(await at(first));
    const result = await agent({ name: 'a', provider, tools: [look], retry: null })
      .startTurn('Hi')
      .result();
    expect(result.text).toBe('Done.');
    expect(first.signatures).toEqual([[], ['first-claude'], ['first-claude']]);
    expect(second.signatures).toEqual([[]]);
  });

  it('with a model of another family within a turn, and back', async () => {
    first.next('calls', 'calls', 'calls');
    const named = ['claude-opus-4-8', 'glm-5.3', 'claude-sonnet-5', 'glm-5.3'];
    const model = { name: 'model', prepareIteration: () => ({ view: { settings: { model: named.shift() } } }) };
    const provider = await at(first);
    const result = await agent({ name: 'a', provider, tools: [look], retry: null, extensions: [model] })
      .startTurn('Hi')
      .result();
    expect(result.text).toBe('Done.');
    expect(first.signatures).toEqual([[], [], ['first-claude'], ['first-glm']]);
  });

  it.each([
    ['createProvider', at],
    [
      'AISDKProvider without its address',
      async ({ server }: SigningServer) =>
        new AISDKProvider({ model: createAnthropic({ apiKey: 'k', baseURL: server.baseUrl })('claude-opus-4-8') }),
    ],
  ])('with another address in the next turn, and back: %s', async (_, providerAt) => {
    first.next('thinks');
    second.next('thinks');
    const messageStore = new InMemoryMessageStore();
    const texts: unknown[] = [];
    for (const server of [first, second, first]) {
      const provider = await providerAt(server);
      const turn = agent({ name: 'a', provider, retry: null, messageStore }).startTurn('Hi', { contextId: 'c' });
      texts.push((await turn.result()).text);
    }
    expect(texts).toEqual(['Hello.', 'Hello.', 'Done.']);
    expect([first.signatures, second.signatures]).toEqual([[[], ['first-claude']], [[]]]);
  });

  it('with a hand-off to an agent of another server', async () => {
    first.next('hands off');
    const desk = team({
      agents: [
        agent({ name: 'first', description: 'F.', provider: await at(first), retry: null }),
        agent({ name: 'second', description: 'S.', provider: await at(second), retry: null }),
      ],
      handOff: true,
    });
    expect((await desk.startTurn('Hi').result()).text).toBe('Done.');
    expect(second.signatures).toEqual([[]]);
  });

  it('of a journal of version 0.1, which names the package alone, goes to that package', async () => {
    const aiSdk = { ...(await keptBy(first)), origin: undefined };
    const message: Message = { role: 'assistant', content: 'Hello.', reasoning: 'Hm. ', metadata: { aiSdk } };
    await (await at(first))
      .call({ messages: [{ role: 'user', content: 'Hi' }, message, { role: 'user', content: 'And?' }] })
      .catch(() => {});
    expect(first.signatures.at(-1)).toEqual(['first-claude']);
  });
});

/** The state of an answer, as the metadata of its message has it. */
async function keptBy(server: SigningServer): Promise<object> {
  server.next('thinks');
  const last = await lastValueFrom((await at(server)).stream({ messages: [{ role: 'user', content: 'Hi' }] }));
  if (last.type !== 'done') throw new Error('The stream did not end with done.');
  return Object(last.response.message.metadata?.['aiSdk']);
}

it('Gemini 3 takes calls of another vendor in the current turn: with the placeholder that Google documents', async () => {
  const seen: string[] = [];
  first.server.answer((exchange) => {
    seen.push(JSON.stringify(exchange.body));
    sendStream(exchange, google.text('Done.'));
  });
  const provider = await createProvider('google:gemini-3.6-flash', { apiKey: 'k', baseUrl: first.server.baseUrl });
  const call = { id: 'c1', type: 'function' as const, function: { name: 'look', arguments: '{}' } };
  const messages: Message[] = [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: null, toolCalls: [call] },
    { role: 'tool', toolCallId: 'c1', content: 'seen' },
  ];
  await provider.call({ messages }).catch(() => {});
  expect(seen[0]).toContain('"thoughtSignature":"skip_thought_signature_validator"');
});
