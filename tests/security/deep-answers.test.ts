import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { AgentLoopError, agent, type LLMProvider, type Message, tool } from 'millrace';
import { remoteAgent } from 'millrace/a2a';
import { createProvider } from 'millrace/ai-sdk';
import { LiteLLMProvider } from 'millrace/litellm';
import { mcpTools } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';

const levels = 10_000;
const shapes = {
  array: '['.repeat(levels) + ']'.repeat(levels),
  object: `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`,
  mixed: '{"a":['.repeat(levels / 2) + ']}'.repeat(levels / 2),
};
type Shape = keyof typeof shapes;

interface Answer {
  readonly status?: number;
  readonly type?: string;
  readonly body: string;
}

/** How the peer answers, by the path of the request. */
const answers = new Map<string, (request: IncomingMessage, body: string) => Answer>();
let paths = 0;
let origin = '';
const server = createServer((request, response) => {
  void text(request).then((body) => {
    const path = /^\/p\d+/.exec(request.url ?? '')?.[0] ?? '';
    const answer = answers.get(path)?.(request, body) ?? { status: 404, body: '' };
    const { status = 200, type = 'application/json' } = answer;
    response.writeHead(status, { 'content-type': type }).end(answer.body);
  });
});

beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  if (typeof address === 'object') origin = `http://127.0.0.1:${address?.port}`;
});
afterAll(async () => {
  server.closeAllConnections();
  await once(server.close(), 'close');
});

/** The address of a peer that answers so. */
function peer(answer: (request: IncomingMessage, body: string) => Answer): string {
  const path = `/p${++paths}`;
  answers.set(path, answer);
  return origin + path;
}

async function failure(work: Promise<unknown>): Promise<AgentLoopError> {
  const thrown: unknown = await work.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!AgentLoopError.isInstance(thrown)) throw new Error(`not refused with a coded error: ${String(thrown)}`);
  return thrown;
}

/** What the model was told of its calls. */
function told(messages: readonly Message[]): readonly unknown[] {
  return messages.flatMap(({ role, content }) => (role === 'tool' ? [content] : []));
}

const note = tool({ name: 'note', description: 'Notes.', parameters: { type: 'object' }, execute: () => 'noted' });
const events = (...data: readonly string[]): Answer => ({
  type: 'text/event-stream',
  body: data.map((each) => `data: ${each}\n\n`).join(''),
});
const json = (body: string): Answer => ({ body });
const stopped = '{"choices":[{"index":0,"delta":{"content":"Well."},"finish_reason":"stop"}]}';
const everyShape: readonly Shape[] = ['array', 'object', 'mixed'];
const tooDeep = 'sent JSON that nests deeper than 600 levels';

describe('R-28 an answer of a model that nests too deep', () => {
  const chat = (url: string) => new LiteLLMProvider({ baseUrl: url, model: 'm' });
  const sdk = (name: string) => (url: string) => createProvider(name, { baseUrl: url, apiKey: 'key-of-test' });
  const chunk = (deep: string) => `{"choices":[{"index":0,"delta":{"content":"x"},"extra":${deep}}]}`;
  const google = (deep: string) =>
    `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"note","args":${deep}}}]}}]}`;
  const rows: readonly [string, (url: string) => LLMProvider | Promise<LLMProvider>, (deep: string) => Answer][] = [
    ['an event', chat, (deep) => events(chunk(deep))],
    ['a body', chat, (deep) => json(chunk(deep).replace('delta', 'message'))],
    ['an event of Responses', sdk('openai:m'), (deep) => events(`{"type":"response.created","response":${deep}}`)],
    ['a body of Responses', sdk('openai:m'), (deep) => json(`{"output":${deep}}`)],
    ['an event of Messages', sdk('anthropic:m'), (deep) => events(`{"type":"message_start","message":${deep}}`)],
    ['arguments that are a value', sdk('google:m'), (deep) => events(google(deep))],
    ['events of another type', sdk('google:m'), (deep) => ({ ...events(google(deep)), type: 'text/plain' })],
    ['a body named as events', sdk('google:m'), (deep) => ({ ...json(google(deep)), type: 'text/event-stream' })],
    ['lines of one event', sdk('google:m'), (deep) => events(google(deep).replaceAll(':', ':\r\ndata: '))],
  ];
  it.each(rows.flatMap((row) => everyShape.map((shape) => [shape, ...row] as const)))(
    'is the fault of its provider: %s, %s',
    async (shape, _, providerAt, answer) => {
      const provider = await providerAt(peer(() => answer(shapes[shape])));
      const error = await failure(agent({ provider, retry: null }).run('Go.'));
      expect(error).toMatchObject({ code: 'PROVIDER_PROTOCOL', message: expect.stringContaining(tooDeep) });
    },
  );

  it.each([
    [429, 'PROVIDER_RATE_LIMIT'],
    [503, 'PROVIDER_SERVER'],
    [400, 'PROVIDER_BAD_REQUEST'],
  ])('has the code of its status, where that is %i', async (status, code) => {
    const url = peer(() => ({ status, body: `{"error":{"message":"No.","details":${shapes.object}}}` }));
    for (const providerAt of [chat, sdk('openai:m'), sdk('anthropic:m'), sdk('google:m')]) {
      const error = await failure(agent({ provider: await providerAt(url), retry: null }).run('Go.'));
      expect(error).toMatchObject({ code, message: expect.stringContaining('"No."') });
    }
  });

  it.each(everyShape)('has its call rejected, where the arguments do: %s', async (shape) => {
    const call = { index: 0, id: 'c', type: 'function', function: { name: 'note', arguments: shapes[shape] } };
    const delta = { choices: [{ index: 0, delta: { tool_calls: [call] }, finish_reason: 'tool_calls' }] };
    const url = peer((_, body) => events(body.includes('tool_call_id') ? stopped : JSON.stringify(delta), '[DONE]'));
    const { text: said, messages } = await agent({ provider: chat(url), tools: [note] }).run('Go.');
    expect(said).toBe('Well.');
    expect(told(messages)).toEqual([expect.stringContaining('it nests deeper than 500 levels')]);
  });
});

describe('R-28 an answer of an MCP server that nests too deep', () => {
  /** How it answers the call of its one tool, and lists it. */
  function mcpAt(place: string, deep: string): string {
    return peer((request, body) => {
      if (request.method !== 'POST') return { status: 405, body: '' };
      const { id, method } = JSON.parse(body);
      if (id === undefined) return { status: 202, body: '' };
      const envelope = (rest: string) => `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${rest}}`;
      const hello = {
        protocolVersion: '2025-06-18',
        capabilities: { tools: {} },
        serverInfo: { name: 's', version: '1' },
      };
      if (method === 'initialize') return json(envelope(`"result":${JSON.stringify(hello)}`));
      if (method === 'tools/list')
        return json(
          envelope(
            `"result":{"tools":[{"name":"t","inputSchema":{"type":"object"${place === 'schema' ? `,"x":${deep}` : ''}}}]}`,
          ),
        );
      if (method !== 'tools/call') return json(envelope('"error":{"code":-32601,"message":"No."}'));
      const good = '"content":[{"type":"text","text":"good"}]';
      if (place === 'structured content') return json(envelope(`"result":{${good},"structuredContent":{"a":${deep}}}`));
      if (place === '_meta') return json(envelope(`"result":{${good},"_meta":{"a":${deep}}}`));
      if (place === 'error') return json(envelope(`"error":{"code":-32000,"message":"No.","data":${deep}}`));
      if (place === 'event') return events(envelope(`"result":{${good},"_meta":{"a":${deep}}}`));
      const said = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":${deep}}}`;
      return place === 'notification'
        ? events(said, envelope(`"result":{${good}}`))
        : json(envelope(`"result":{${good}}`));
    });
  }

  async function called(options: Parameters<typeof mcpTools>[0]['servers'][string]): Promise<readonly unknown[]> {
    const tools = mcpTools({ servers: { s: options } });
    try {
      const provider = scriptedLLM([{ toolCalls: [{ name: 's__t', arguments: '{}' }] }, { text: 'Well.' }]);
      const { text: said, messages } = await agent({ provider, toolProviders: [tools] }).run('Go.');
      expect(said).toBe('Well.');
      return told(messages);
    } finally {
      await tools.close();
    }
  }

  const places = ['structured content', '_meta', 'error', 'event', 'notification'];
  it.each(places.flatMap((place) => everyShape.map((shape) => [place, shape] as const)))(
    'is a tool error that the model reads: %s, %s',
    async (place, shape) => {
      expect(await called({ url: mcpAt(place, shapes[shape]) })).toEqual([expect.stringContaining(tooDeep)]);
      expect(await called({ url: mcpAt('none', '') })).toEqual(['good']);
    },
  );

  it('has none of its tools, where its list does', async () => {
    expect(await called({ url: mcpAt('schema', shapes.object) })).toEqual([
      expect.stringContaining('tool "s__t" is not known'),
    ]);
  });

  it('lacks a tool whose schema nests deeper than one may', async () => {
    const deep = `${'{"a":'.repeat(300)}1${'}'.repeat(300)}`;
    expect(await called({ url: mcpAt('schema', deep) })).toEqual([expect.stringContaining('tool "s__t" is not known')]);
  });

  it.each(['result', 'notification'])('is a tool error over stdio: a %s', async (place) => {
    const script = `
      const deep = '{"a":'.repeat(${levels}) + '1' + '}'.repeat(${levels});
      const say = (line) => process.stdout.write(line + '\\n');
      require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
        const { id, method } = JSON.parse(line);
        const answer = (rest) => say('{"jsonrpc":"2.0","id":' + JSON.stringify(id) + ',' + rest + '}');
        if (id === undefined) return;
        if (method === 'initialize') answer('"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}');
        else if (method === 'tools/list') answer('"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}');
        else if (method !== 'tools/call') answer('"error":{"code":-32601,"message":"No."}');
        else if ('${place}' === 'result') answer('"result":{"content":[],"structuredContent":' + deep + '}');
        else say('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":' + deep + '}}');
      });`;
    expect(await called({ command: process.execPath, args: ['-e', script] })).toEqual([
      expect.stringContaining(tooDeep),
    ]);
  });
});

describe('R-28 keys of an issuer that nest too deep', () => {
  it.each(everyShape)('are its fault: %s', async (shape) => {
    const url = `${peer((request) => {
      if (request.url?.endsWith('/jwks')) return json(`{"keys":[],"x":${shapes[shape]}}`);
      const header = Buffer.from('{"alg":"ES256"}').toString('base64url');
      const supportedInterfaces = [{ url: `${origin}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }];
      const signatures = [{ protected: header, signature: 'AA' }];
      return json(JSON.stringify({ name: 'n', description: 'd', version: '1', supportedInterfaces, signatures }));
    })}/`;
    const run = async () => (await remoteAgent({ id: 'r', url, verifyCard: { jwksUrl: `${url}jwks` } })).run('Go.');
    expect(await failure(run())).toMatchObject({
      code: 'PROVIDER_PROTOCOL',
      message: expect.stringContaining(tooDeep),
    });
  });
});

describe('R-28 an answer of a remote agent that nests too deep', () => {
  function agentAt(place: string, deep: string): string {
    const url = peer((request, body) => {
      const isStream = place === 'an event';
      const card = {
        ...{ name: 'n', description: 'd', version: '1', skills: [], defaultInputModes: [], defaultOutputModes: [] },
        supportedInterfaces: [{ url: `${url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
        capabilities: { streaming: isStream },
      };
      if (request.method === 'GET')
        return json(place === 'a card' ? JSON.stringify(card).replace('{', `{"x":${deep},`) : JSON.stringify(card));
      const envelope = (rest: string) => `{"jsonrpc":"2.0","id":${JSON.stringify(JSON.parse(body).id)},${rest}}`;
      const message = `"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"data":${deep}}]}}`;
      const error = `"error":{"code":-32603,"message":"No.","data":[{"metadata":${deep}}]}`;
      if (place === 'an error') return json(envelope(error));
      if (place === 'HTTP 500') return { ...json(envelope(error)), status: 500 };
      return isStream ? events(envelope(message)) : json(envelope(message));
    });
    return url;
  }

  it.each([
    ['a card', 'PROVIDER_PROTOCOL', tooDeep],
    ['a message', 'PROVIDER_PROTOCOL', tooDeep],
    ['an event', 'PROVIDER_PROTOCOL', tooDeep],
    ['an error', 'PROVIDER_PROTOCOL', tooDeep],
    ['HTTP 500', 'PROVIDER_SERVER', 'fails with HTTP 500'],
  ])('is its fault: %s', async (place, code, message) => {
    for (const shape of everyShape) {
      const url = `${agentAt(place, shapes[shape])}/`;
      const run = async () => (await remoteAgent({ id: 'r', url })).run('Go.');
      expect(await failure(run())).toMatchObject({ code, message: expect.stringContaining(message) });
    }
  });
});
