import { request } from 'node:http';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type ModelServer, type ModelServerOptions, openResources, startModelServer } from 'millrace/testing';
import OpenAI from 'openai';

const calculate = {
  type: 'function' as const,
  function: {
    name: 'calculate',
    description: 'Computes an arithmetic expression.',
    parameters: { type: 'object', properties: { expression: { type: 'string' } }, required: ['expression'] },
  },
};
const question = {
  model: 'some-model',
  messages: [{ role: 'user' as const, content: 'What is 12 * 7?' }],
  tools: [calculate],
};

describe('startModelServer', () => {
  const servers: ModelServer[] = [];

  async function start(options: ModelServerOptions = {}): Promise<ModelServer> {
    const server = await startModelServer(options);
    servers.push(server);
    return server;
  }

  const clientOf = (server: ModelServer) => new OpenAI({ baseURL: server.baseUrl, apiKey: 'none', maxRetries: 0 });

  async function post(server: ModelServer, body: unknown): Promise<{ status: number; body: unknown }> {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const response = await fetch(`${server.baseUrl}/chat/completions`, { method: 'POST', body: text });
    return { status: response.status, body: await response.json() };
  }

  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => server.close()));
  });

  it('answers the official client, in one piece', async () => {
    const server = await start();
    const completion = await clientOf(server).chat.completions.create(question);
    expect(completion).toMatchObject({
      object: 'chat.completion',
      model: 'some-model',
      choices: [
        {
          finish_reason: 'tool_calls',
          message: {
            role: 'assistant',
            content: 'I will work out 12 * 7.',
            tool_calls: [{ type: 'function', function: { name: 'calculate', arguments: '{"expression":"12 * 7"}' } }],
          },
        },
      ],
    });
    expect(server.requests).toEqual([question]);
    expect(server.headers[0]?.authorization).toBe('Bearer none');
  });

  it('streams the same answer in words, with usage where it is asked for', async () => {
    const server = await start();
    const whole = await clientOf(server).chat.completions.create(question);
    const stream = clientOf(server).chat.completions.stream({ ...question, stream_options: { include_usage: true } });
    const texts: string[] = [];
    stream.on('content', (delta) => texts.push(delta));
    const streamed = await stream.finalChatCompletion();
    expect(texts).toEqual(['I', ' will', ' work', ' out', ' 12', ' *', ' 7.']);
    expect(streamed.id).toBe(whole.id);
    expect(streamed.choices[0]?.message.tool_calls?.[0]).toMatchObject(whole.choices[0]?.message.tool_calls?.[0] ?? {});
    expect(streamed.choices[0]?.finish_reason).toBe('tool_calls');
    expect(streamed.usage).toEqual(whole.usage);
    expect(whole.usage?.total_tokens).toBe((whole.usage?.prompt_tokens ?? 0) + (whole.usage?.completion_tokens ?? 0));
    expect(whole.usage?.prompt_tokens).toBeGreaterThan(10);
  });

  it('sends no usage in a stream that does not ask for it, and ends it with [DONE]', async () => {
    const server = await start();
    const response = await fetch(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ ...question, stream: true }),
    });
    const text = await response.text();
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    expect(text).not.toContain('usage');
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
  });

  it('gives equal answers to equal requests, and other ids to others', async () => {
    const [one, two] = [await start(), await start()];
    const first = await post(one, question);
    expect(await post(two, question)).toEqual(first);
    expect(await post(one, { ...question, stream: false })).toEqual(first);
    const other = await post(one, { ...question, messages: [{ role: 'user', content: 'What is 12 * 8?' }] });
    expect(other.body).not.toMatchObject({ id: (first.body as { id: string }).id });
  });

  it.each([1, 5, 9, 12])('keeps within %i tokens, and says that it was cut', async (limit) => {
    const server = await start();
    const completion = await clientOf(server).chat.completions.create({ ...question, max_tokens: limit });
    expect(completion.choices[0]?.finish_reason).toBe('length');
    expect(completion.usage?.completion_tokens).toBeLessThanOrEqual(limit);
    expect('I will work out 12 * 7.'.startsWith(completion.choices[0]?.message.content ?? '!')).toBe(true);
  });

  it('is not cut by a limit that it keeps within', async () => {
    const server = await start();
    const completion = await clientOf(server).chat.completions.create({ ...question, max_completion_tokens: 100 });
    expect(completion.choices[0]?.finish_reason).toBe('tool_calls');
  });

  it('lists its model and says that it is well', async () => {
    const server = await start({ model: 'my-model' });
    const { data } = await clientOf(server).models.list();
    expect(data.map(({ id }) => id)).toEqual(['my-model']);
    expect(await (await fetch(`${server.url}/health`)).json()).toEqual({ status: 'ok' });
    expect(await post(server, { messages: question.messages })).toMatchObject({ body: { model: 'my-model' } });
  });

  const refused: readonly (readonly [string, unknown, number, string | null, RegExp])[] = [
    ['what is not JSON', '{"model":', 400, null, /not JSON/],
    ['what is no object', [1], 400, null, /not a JSON object/],
    ['no messages', { model: 'x' }, 400, 'messages', /Missing required parameter: 'messages'/],
    ['empty messages', { messages: [] }, 400, 'messages', /at least one/],
    ['a message that is none', { messages: ['Hello'] }, 400, 'messages[0]', /not an object/],
    ['an unknown role', { messages: [{ role: 'bot', content: '' }] }, 400, 'messages[0].role', /role is none of/],
    ['a result without id', { messages: [{ role: 'tool', content: '' }] }, 400, 'messages[0].tool_call_id', /missing/],
    [
      'a result without a call',
      { messages: [{ role: 'tool', tool_call_id: 'a', content: '' }] },
      400,
      'messages[0]',
      /does not ask/,
    ],
    [
      'a call without its result',
      { messages: [{ role: 'user', content: 'x' }, calling('a')] },
      400,
      'messages',
      /calls a are not answered/,
    ],
    [
      'a result that comes too late',
      { messages: [calling('a'), { role: 'user', content: 'x' }] },
      400,
      'messages[1]',
      /before the tool calls a/,
    ],
    [
      'a result given twice',
      { messages: [calling('a'), result('a'), result('a')] },
      400,
      'messages[2]',
      /does not ask/,
    ],
    [
      'a call without arguments',
      { messages: [{ role: 'assistant', tool_calls: [{ id: 'a' }] }] },
      400,
      'messages[0].tool_calls',
      /without/,
    ],
    ['tools without a name', { ...question, tools: [{ type: 'function' }] }, 400, 'tools[0]', /name is missing/],
    [
      'a choice of no tool',
      { ...question, tool_choice: { type: 'function', function: { name: 'x' } } },
      400,
      'tool_choice',
      /not in tools/,
    ],
    [
      'a choice without tools',
      { messages: question.messages, tool_choice: 'required' },
      400,
      'tool_choice',
      /tools is empty/,
    ],
    ['two choices', { ...question, n: 2 }, 400, 'n', /one choice/],
    ['no tokens', { ...question, max_tokens: 0 }, 400, 'max_tokens', /1 or more/],
  ];

  it.each(refused)('refuses %s as OpenAI would', async (_, body, status, param, message) => {
    const server = await start();
    expect(await post(server, body)).toEqual({
      status,
      body: { error: { message: expect.stringMatching(message), type: 'invalid_request_error', param, code: null } },
    });
    await server.whenIdle();
    expect(server.open).toBe(0);
  });

  it('takes a history whose calls are all answered, in any order', async () => {
    const server = await start();
    const messages = [{ role: 'user', content: 'x' }, calling('a', 'b'), result('b'), result('a')];
    expect(await post(server, { messages })).toMatchObject({ status: 200 });
  });

  it('refuses unknown paths and wrong methods', async () => {
    const server = await start();
    const unknown = await fetch(`${server.url}/v1/embeddings`, { method: 'POST', body: '{}' });
    expect([unknown.status, await unknown.json()]).toEqual([
      404,
      expect.objectContaining({ error: expect.anything() }),
    ]);
    const wrong = await fetch(`${server.baseUrl}/chat/completions`);
    expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'POST']);
    expect(await wrong.json()).toMatchObject({ error: { message: '/chat/completions takes POST, not GET.' } });
    expect((await fetch(`${server.url}/chat/completions`, { method: 'POST', body: '{}' })).status).toBe(400);
  });

  it('refuses a body that is too large, and lives on', async () => {
    const server = await start({ maxBodyBytes: 1_000 });
    const large = await post(server, { messages: [{ role: 'user', content: 'x'.repeat(200_000) }] });
    expect(large).toMatchObject({ status: 413, body: { error: { message: 'The body is larger than 1000 bytes.' } } });
    expect(server.requests).toEqual([]);
    expect(await post(server, question)).toMatchObject({ status: 200 });
  });

  it('survives a client that leaves while it sends', async () => {
    const server = await start();
    const outgoing = request(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { 'content-length': 1_000 },
    });
    const closed = new Promise((resolve) => outgoing.once('close', resolve).once('error', () => undefined));
    await new Promise<void>((resolve) => outgoing.write('{', () => resolve()));
    outgoing.destroy();
    await closed;
    expect(await post(server, question)).toMatchObject({ status: 200 });
    expect([server.received, server.aborted]).toEqual([1, 0]);
  });

  it('keeps the newest requests only', async () => {
    const server = await start({ keepRequests: 2 });
    for (const content of ['one', 'two', 'three']) await post(server, { messages: [{ role: 'user', content }] });
    expect(server.requests.map(({ messages }) => messages)).toEqual([
      [{ role: 'user', content: 'two' }],
      [{ role: 'user', content: 'three' }],
    ]);
    expect([server.headers.length, server.received]).toEqual([2, 3]);
  });

  it('waits before each chunk as long as it is told', async () => {
    const server = await start({ delayMs: 5 });
    const before = performance.now();
    await clientOf(server).chat.completions.create(question);
    const chunks = 7 + 1 + 3;
    expect(performance.now() - before).toBeGreaterThanOrEqual(chunks * 5 - 2);
  });

  it('says where it cannot listen', async () => {
    const { port } = await start();
    await expect(startModelServer({ port })).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringMatching(new RegExp(`^Cannot listen on port ${port} of 127.0.0.1 .*EADDRINUSE`)),
    });
    await expect(startModelServer({ port: 70_000 })).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringMatching(/^Cannot listen on port 70000 of 127.0.0.1 .*; choose another port or host\.$/),
    });
  });

  it('writes an IPv6 host into its address as it must be', async () => {
    const server = await start({ host: '::1' });
    expect(server.url).toBe(`http://[::1]:${server.port}`);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
  });

  it('leaves no socket, server or timer when it closes in the middle of an answer', async () => {
    const ledger = openResources();
    const server = await startModelServer({ delayMs: 60_000 });
    const answer = fetch(`${server.baseUrl}/chat/completions`, { method: 'POST', body: JSON.stringify(question) });
    const failure = expect(answer).rejects.toThrow('fetch failed');
    await server.whenReceived(1);
    expect(server.open).toBe(1);
    await Promise.all([server.close(), server.close()]);
    await failure;
    await ledger.assertNone();
    expect([server.open, server.aborted]).toEqual([0, 0]);
  });

  it('tells who waits for a request that it closed', async () => {
    const server = await start();
    const waiting = expect(server.whenReceived(1)).rejects.toMatchObject({ code: 'SHUTDOWN' });
    await server.close();
    await waiting;
    await expect(server.whenReceived(1)).rejects.toMatchObject({ code: 'SHUTDOWN' });
  });
});

function calling(...ids: readonly string[]): object {
  const calls = ids.map((id) => ({ id, type: 'function', function: { name: 'calculate', arguments: '{}' } }));
  return { role: 'assistant', content: null, tool_calls: calls };
}

function result(id: string): object {
  return { role: 'tool', tool_call_id: id, content: 'ok' };
}
