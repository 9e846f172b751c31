import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Agent, agent, InMemoryStateStore, type LLMProvider } from 'millrace';
import { type A2AServer, a2aServer } from 'millrace/a2a';
import { openAIHandler } from 'millrace/openai';
import { agUiHandler, uiMessageHandler } from 'millrace/ui';

const seen: unknown[] = [];
const provider: LLMProvider = {
  call: async ({ messages }) => {
    seen.push(messages.at(-1)?.content);
    return { message: { role: 'assistant', content: 'Seen.' } };
  },
};
const rule = 'The url of a file must begin with https://; or send its content.';
const scopeOf = () => 'ada';

let clerk: Agent;
let server: A2AServer;
let url: string;

beforeAll(async () => {
  clerk = agent({ name: 'clerk', description: 'Looks.', provider, taskStateStore: new InMemoryStateStore() });
  server = await a2aServer({ agent: clerk, rateLimit: null });
  ({ url } = await server.listen({ port: 0 }));
});
afterAll(() => server.close());

type Handler = (request: Request) => Promise<Response>;

async function post(to: Handler, path: string, body: unknown): Promise<string> {
  const headers = { 'content-type': 'application/json' };
  const response = await to(
    new Request(`https://app.example${path}`, { method: 'POST', headers, body: JSON.stringify(body) }),
  );
  return `${response.status} ${await response.text()}`;
}

const id = () => crypto.randomUUID();

/** Sends a message with a picture at an address; gives the answer. */
const ways: Readonly<Record<string, (address: string) => Promise<string>>> = {
  useChat: (address) => {
    const parts = [{ type: 'file', mediaType: 'image/png', url: address }];
    return post(uiMessageHandler({ agent: clerk, scopeOf }), '/', {
      id: id(),
      messages: [{ id: id(), role: 'user', parts }],
    });
  },
  'AG-UI': (address) => {
    const content = [{ type: 'image', source: { type: 'url', value: address } }];
    const messages = [{ id: id(), role: 'user', content }];
    return post(agUiHandler({ agent: clerk, scopeOf }), '/', { threadId: id(), runId: id(), messages });
  },
  'chat completions': (address) => {
    const content = [{ type: 'image_url', image_url: { url: address } }];
    const messages = [{ role: 'user', content }];
    return post(openAIHandler({ agents: [clerk], scopeOf }), '/v1/chat/completions', { model: 'clerk', messages });
  },
  responses: (address) => {
    const input = [{ role: 'user', content: [{ type: 'input_image', image_url: address }] }];
    return post(openAIHandler({ agents: [clerk], scopeOf }), '/v1/responses', { model: 'clerk', input });
  },
  A2A: (address) => {
    const message = { messageId: id(), role: 'ROLE_USER', parts: [{ url: address, mediaType: 'image/png' }] };
    const send = (request: Request) =>
      fetch(new Request(new URL('/a2a/jsonrpc', url), request), {
        headers: { ...Object.fromEntries(request.headers), 'a2a-version': '1.0' },
      });
    return post(send, '/', { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } });
  },
};

describe.each(Object.entries(ways))('the address of a picture over %s', (name, send) => {
  it.each([
    'http://169.254.169.254/latest/meta-data/',
    'http://127.0.0.1:6379/',
    'http://pictures.example/a.png',
    'file:///etc/passwd',
    'gopher://10.0.0.1/',
    '//pictures.example/a.png',
    ' https://pictures.example/a.png',
    '/etc/passwd',
  ])('is refused: %s', async (address) => {
    seen.length = 0;
    const answer = await send(address);
    expect(answer).toContain(rule);
    if (name !== 'A2A') expect(answer).toMatch(/^400 /);
    expect(seen).toEqual([]);
  });

  it.each(['https://pictures.example/a.png', ...(name === 'A2A' ? [] : ['data:image/png;base64,iVBORw0KGgo='])])(
    'reaches the model: %s',
    async (address) => {
      seen.length = 0;
      await send(address);
      expect(seen).toEqual([[{ type: 'image_url', image_url: { url: address } }]]);
    },
  );

  if (name !== 'A2A')
    it('is no data of another type', async () => {
      seen.length = 0;
      expect(await send('data:text/html;base64,PGI+')).toMatch(/^400 .*must begin with data:image\//);
      expect(seen).toEqual([]);
    });
});
