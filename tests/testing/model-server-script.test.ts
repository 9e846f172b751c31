import { afterEach, describe, expect, it } from '@jest/globals';
import { gate, type ModelServer, type ScriptStep, startModelServer } from 'millrace/testing';
import OpenAI from 'openai';

const ask = { model: 'm', messages: [{ role: 'user' as const, content: 'Hello' }] };

describe('a scripted model server', () => {
  const servers: ModelServer[] = [];

  async function scripted(...script: readonly ScriptStep[]): Promise<ModelServer> {
    const server = await startModelServer({ script });
    servers.push(server);
    return server;
  }

  const post = (server: ModelServer, body: object = ask, signal?: AbortSignal): Promise<Response> =>
    fetch(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      body: JSON.stringify(body),
      ...(signal && { signal }),
    });

  const streamed = (server: ModelServer, signal?: AbortSignal): Promise<Response> =>
    post(server, { ...ask, stream: true }, signal);

  const client = (server: ModelServer) => new OpenAI({ baseURL: server.baseUrl, apiKey: 'none', maxRetries: 0 });

  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => server.close()));
  });

  it('plays its steps in order, one a request', async () => {
    const server = await scripted({ text: 'one' }, ({ messages }) => ({ text: JSON.stringify(messages) }));
    const [one, two] = [
      await client(server).chat.completions.create(ask),
      await client(server).chat.completions.create(ask),
    ];
    expect(one.choices[0]?.message.content).toBe('one');
    expect(two.choices[0]?.message.content).toBe(JSON.stringify(ask.messages));
    server.assertDone();
  });

  it('gives all that a step says, whole and streamed', async () => {
    const step: ScriptStep = {
      reasoning: 'Let me think.',
      text: 'So be it.',
      toolCalls: [
        { name: 'a', arguments: { x: [1] } },
        { name: 'b', arguments: '{"broken', id: 'mine' },
        { name: 'c', id: '' },
      ],
      finishReason: 'content_filter',
      usage: { promptTokens: 5, completionTokens: 6, totalTokens: 11, cachedTokens: 2, reasoningTokens: 3 },
      model: 'their-model',
    };
    const server = await scripted(step, step);
    const whole = await client(server).chat.completions.create(ask);
    const stream = client(server).chat.completions.stream({ ...ask, stream_options: { include_usage: true } });
    const pieces = await finalOf(stream);
    for (const { completion, calls } of [{ completion: whole, calls: whole.choices[0]?.message.tool_calls }, pieces]) {
      expect(completion).toMatchObject({
        model: 'their-model',
        choices: [{ finish_reason: 'content_filter' }],
        usage: {
          prompt_tokens: 5,
          completion_tokens: 6,
          total_tokens: 11,
          prompt_tokens_details: { cached_tokens: 2 },
          completion_tokens_details: { reasoning_tokens: 3 },
        },
      });
      expect(calls).toEqual([
        {
          id: expect.stringMatching(/^call_\w{24}_0$/),
          type: 'function',
          function: { name: 'a', arguments: '{"x":[1]}' },
        },
        { id: 'mine', type: 'function', function: { name: 'b', arguments: '{"broken' } },
        { id: '', type: 'function', function: { name: 'c', arguments: '{}' } },
      ]);
    }
    expect(whole.choices[0]?.message).toMatchObject({ content: 'So be it.', reasoning_content: 'Let me think.' });
    expect(pieces.text).toBe('So be it.');
    expect(pieces.reasoning).toBe('Let me think.');
  });

  it('is exact: no limit cuts a scripted answer', async () => {
    const server = await scripted({ text: 'x'.repeat(100) });
    const completion = await client(server).chat.completions.create({ ...ask, max_tokens: 1 });
    expect(completion.choices[0]?.message.content).toHaveLength(100);
  });

  it('sends no usage where a step has null', async () => {
    const server = await scripted({ text: 'a', usage: null }, { text: 'a', usage: null });
    expect((await client(server).chat.completions.create(ask)).usage).toBeUndefined();
    const response = await post(server, { ...ask, stream: true, stream_options: { include_usage: true } });
    expect(await response.text()).not.toContain('usage');
  });

  it('cuts the text into chunks of a size, not through a character', async () => {
    const server = await scripted({ text: 'ab😀cd', chunkSize: 3 });
    expect(textsOf(await (await streamed(server)).text())).toEqual(['ab😀', 'cd']);
  });

  it('refuses with a status, a body and headers', async () => {
    const server = await scripted(
      { status: 429, body: { error: { message: 'slow down' } }, headers: { 'retry-after': '7' } },
      { status: 503 },
      { status: 502, body: '<html>Bad gateway</html>', headers: { 'content-type': 'text/html' } },
    );
    const limited = await post(server);
    expect([limited.status, limited.headers.get('retry-after'), await limited.json()]).toEqual([
      429,
      '7',
      { error: { message: 'slow down' } },
    ]);
    const down = await post(server);
    expect([down.status, await down.json()]).toEqual([
      503,
      { error: { message: 'Scripted status 503.', type: 'server_error', param: null, code: null } },
    ]);
    const gateway = await post(server);
    expect([gateway.status, gateway.headers.get('content-type'), await gateway.text()]).toEqual([
      502,
      'text/html',
      '<html>Bad gateway</html>',
    ]);
  });

  it('destroys the socket after so many chunks', async () => {
    const server = await scripted(
      { text: 'one two three', closeAfter: 2 },
      { text: 'x', closeAfter: 5 },
      { closeAfter: 0 },
    );
    for (const expected of [['one', ' two'], ['x']]) {
      const { text, error } = await drained(await streamed(server));
      expect(textsOf(text)).toEqual(expected);
      expect(text).not.toContain('[DONE]');
      expect(error).toMatch(/terminated/);
    }
    await expect(post(server)).rejects.toThrow('fetch failed');
    await server.whenIdle();
    expect(server.aborted).toBe(0);
  });

  it('ends cleanly after so many chunks, without a finish reason', async () => {
    const server = await scripted({ text: 'one two three', endAfter: 1 }, { text: 'x', endAfter: 0 });
    const { text, error } = await drained(await streamed(server));
    expect([textsOf(text), error, text.includes('"finish_reason":"stop"')]).toEqual([['one'], undefined, false]);
    expect(await (await post(server)).text()).toBe('');
  });

  it('falls silent after so many chunks, until the client leaves', async () => {
    const server = await scripted({ text: 'one two three', stallAfter: 1 });
    const controller = new AbortController();
    const { body } = await streamed(server, controller.signal);
    const reader = body?.getReader();
    const first = await reader?.read();
    expect(textsOf(new TextDecoder().decode(first?.value))).toEqual(['one']);
    expect([server.open, server.aborted]).toEqual([1, 0]);
    controller.abort();
    await expect(reader?.read()).rejects.toThrow();
    await server.whenIdle();
    expect([server.open, server.aborted]).toEqual([0, 1]);
  });

  it('sends an event that is not JSON, and goes on', async () => {
    const server = await scripted(
      { text: 'one two', malformed: { after: 1, data: '{"choices":' } },
      { malformed: { after: 0, data: 'oops' } },
    );
    const text = await (await streamed(server)).text();
    expect(text).toContain('data: {"choices":\n\n');
    expect(text.indexOf('{"choices":\n')).toBeLessThan(text.indexOf('" two"'));
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
    expect(await (await post(server)).text()).toBe('oops');
  });

  it('sends an error in the middle of a stream, and ends it', async () => {
    const error = { message: 'overloaded', type: 'server_error' };
    const server = await scripted(
      { text: 'one two', midStreamError: { after: 1, error } },
      { midStreamError: { after: 0, error } },
    );
    const text = await (await streamed(server)).text();
    expect(textsOf(text)).toEqual(['one']);
    expect(text.endsWith(`data: ${JSON.stringify({ error })}\n\n`)).toBe(true);
    const whole = await post(server);
    expect([whole.status, await whole.json()]).toEqual([500, { error }]);
  });

  it('waits at a gate, before the answer and between its chunks', async () => {
    const [before, between] = [gate(), gate()];
    const server = await scripted(
      { text: 'whole', gate: before.pass() },
      { text: 'one two', gate: (chunk) => (chunk === 1 ? between.pass() : undefined) },
      { status: 500, gate: Promise.resolve() },
    );
    let answered = false;
    const whole = post(server).then((response) => {
      answered = true;
      return response.json();
    });
    await server.whenReceived(1);
    expect([server.open, answered]).toEqual([1, false]);
    before.open();
    expect(await whole).toMatchObject({ choices: [{ message: { content: 'whole' } }] });
    const response = await streamed(server);
    await between.reached;
    const reader = response.body?.getReader();
    expect(textsOf(new TextDecoder().decode((await reader?.read())?.value))).toEqual(['one']);
    between.open();
    expect(textsOf(new TextDecoder().decode((await reader?.read())?.value))).toContain(' two');
    expect((await post(server)).status).toBe(500);
  });

  it('stops waiting at a gate, and for a delay, when the client leaves', async () => {
    const never = new Promise<never>(() => undefined);
    const server = await scripted(
      { text: 'x', gate: never },
      { text: 'x', gate: () => never },
      { text: 'x', delayMs: 60_000 },
      { status: 500, gate: never },
    );
    for (const [index, ask] of [post, streamed, streamed, post].entries()) {
      const controller = new AbortController();
      const answer = ask === post ? post(server, undefined, controller.signal) : streamed(server, controller.signal);
      const failure = expect(answer.then((response) => response.text())).rejects.toThrow('aborted');
      await server.whenReceived(index + 1);
      controller.abort();
      await failure;
      await server.whenIdle();
      expect(server.aborted).toBe(index + 1);
    }
  });

  it('stops writing when the client leaves a long answer', async () => {
    const asked: number[] = [];
    const server = await scripted({
      text: 'x'.repeat(10_000),
      chunkSize: 1,
      gate: (chunk) => {
        asked.push(chunk);
        return chunk === 0 ? undefined : new Promise((resolve) => setImmediate(resolve));
      },
    });
    const controller = new AbortController();
    const response = await streamed(server, controller.signal);
    await response.body?.getReader().read();
    controller.abort();
    await server.whenIdle();
    const stoppedAt = asked.length;
    await new Promise((resolve) => setImmediate(resolve));
    expect(stoppedAt).toBeLessThan(10_000);
    expect(asked).toHaveLength(stoppedAt);
    expect(server.aborted).toBe(1);
  });

  it('is a 500 that says so for a request beyond the script', async () => {
    const server = await scripted({ text: 'x' });
    await post(server);
    server.assertDone();
    const beyond = await post(server);
    expect([beyond.status, await beyond.json()]).toMatchObject([
      500,
      { error: { message: 'The script of the model server has 1 steps and got 2 requests.' } },
    ]);
    expect(() => server.assertDone()).toThrow('has 1 steps and got 2 requests; add a step');
  });

  it('reports steps that are left, and does not count a refused request as one', async () => {
    const server = await scripted({ text: 'x' });
    expect((await post(server, { messages: [] })).status).toBe(400);
    expect(() => server.assertDone()).toThrow('has 1 steps and got 0 requests; take out');
    expect((await post(server)).status).toBe(200);
    server.assertDone();
  });

  it('is a 500 with what a step throws', async () => {
    const server = await scripted(() => {
      throw new Error('not the request that I expect');
    });
    expect(await (await post(server)).json()).toMatchObject({ error: { message: 'not the request that I expect' } });
  });
});

/** The content of each chunk of a stream that has one. */
function textsOf(stream: string): readonly string[] {
  return [...stream.matchAll(/"content":("(?:[^"\\]|\\.)*")/g)].map((match) => String(JSON.parse(match[1] ?? '""')));
}

/** What of a body came, and how it broke off. */
async function drained(response: Response): Promise<{ text: string; error: string | undefined }> {
  const decoder = new TextDecoder();
  let text = '';
  try {
    for await (const chunk of response.body ?? []) text += decoder.decode(chunk, { stream: true });
    return { text, error: undefined };
  } catch (error) {
    return { text, error: String(error) };
  }
}

interface Gathered {
  readonly completion: object;
  readonly calls: readonly object[];
  readonly text: string;
  readonly reasoning: string;
}

/** Puts the chunks of a stream together, as far as these tests look at it. */
async function finalOf(stream: AsyncIterable<OpenAI.ChatCompletionChunk>): Promise<Gathered> {
  const calls: { id: string | undefined; type: string; function: { name: string | undefined; arguments: string } }[] =
    [];
  let [text, reasoning, model] = ['', '', ''];
  let finishReason: string | null = null;
  let usage: object | undefined;
  for await (const chunk of stream) {
    model = chunk.model;
    usage = chunk.usage ?? usage;
    const delta: OpenAI.ChatCompletionChunk.Choice.Delta & { reasoning_content?: string } =
      chunk.choices[0]?.delta ?? {};
    finishReason = chunk.choices[0]?.finish_reason ?? finishReason;
    text += delta.content ?? '';
    reasoning += delta.reasoning_content ?? '';
    for (const call of delta.tool_calls ?? []) {
      const known = calls[call.index];
      if (known !== undefined) known.function.arguments += call.function?.arguments ?? '';
      else
        calls[call.index] = {
          id: call.id,
          type: 'function',
          function: { name: call.function?.name, arguments: call.function?.arguments ?? '' },
        };
    }
  }
  return { completion: { model, usage, choices: [{ finish_reason: finishReason }] }, calls, text, reasoning };
}
