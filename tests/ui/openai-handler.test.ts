import { afterEach, describe, expect, it } from '@jest/globals';
import { type Agent, AgentLoopError, agent, InMemoryStateStore, type TaskStateStore, tool } from 'millrace';
import { type OpenAIHandlerOptions, openAIHandler } from 'millrace/openai';
import { type LLMStep, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import OpenAI from 'openai';
import { assistant } from '../front-ends/model.ts';

const handlers: { close(): void }[] = [];
afterEach(() => {
  for (const each of handlers.splice(0)) each.close();
});

function serve(agents: readonly Agent[], options: Partial<OpenAIHandlerOptions> = {}) {
  const scopeOf = (request: Request) => request.headers.get('authorization')?.replace(/^Bearer /, '');
  const handler = openAIHandler({ agents, scopeOf, ...options });
  handlers.push(handler);
  return handler;
}

/** The real client, whose requests the handler answers. */
function clientOf(handler: (request: Request) => Promise<Response>, apiKey = 'ann', seen?: Response[]): OpenAI {
  const fetch = async (url: string | URL | Request, init?: RequestInit) => {
    const response = await handler(new Request(url, init));
    init?.signal?.throwIfAborted();
    seen?.push(response.clone());
    return response;
  };
  return new OpenAI({ baseURL: 'http://localhost/v1', apiKey, fetch });
}

const ask = (content: string) => [{ role: 'user' as const, content }];
const model = 'assistant';
const usage = { promptTokens: 3, completionTokens: 2, totalTokens: 5 };

function scripted(steps: readonly ScriptedLLMStep[], store: TaskStateStore, more: object = {}): Agent {
  return agent({ id: model, provider: scriptedLLM([...steps]), taskStateStore: store, retry: null, ...more });
}

/** The contents of a stream, and its last reason. */
async function textOf(stream: AsyncIterable<OpenAI.ChatCompletionChunk>) {
  let text = '';
  let finish: string | null = null;
  let usage: OpenAI.CompletionUsage | null | undefined;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? '';
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage ??= chunk.usage;
  }
  return { text, finish, usage };
}

const question = tool({
  name: 'ask',
  description: 'Asks.',
  parameters: { type: 'object' },
  execute: async (_, context) => context.ask({ kind: 'input', prompt: 'Which?' }),
});

describe('chat completions', () => {
  it('V-16 the openai client gets an answer, streamed and whole, with usage; tools stay with the agent', async () => {
    const look = tool({ name: 'look', description: 'Looks.', parameters: { type: 'object' }, execute: () => 'seen' });
    const steps = [
      { text: 'Let me look.', toolCalls: [{ name: 'look' }], usage },
      { text: ['Do', 'ne.'], usage },
    ];
    const one = scripted([...steps, ...steps], new InMemoryStateStore(), { tools: [look] });
    const client = clientOf(serve([one]));
    const whole = await client.chat.completions.create({ model, messages: ask('Look') });
    expect(whole).toMatchObject({
      object: 'chat.completion',
      model,
      choices: [{ finish_reason: 'stop', message: { role: 'assistant', content: 'Let me look.\n\nDone.' } }],
      usage: { prompt_tokens: 6, completion_tokens: 4, total_tokens: 10 },
    });
    expect(whole.choices[0]?.message.tool_calls).toBeUndefined();
    const stream_options = { include_usage: true };
    const stream = await client.chat.completions.create({ model, messages: ask('Look'), stream: true, stream_options });
    expect(await textOf(stream)).toMatchObject({
      text: 'Let me look.\n\nDone.',
      finish: 'stop',
      usage: { total_tokens: 10 },
    });
  });

  it('the models are the agents', async () => {
    const client = clientOf(serve([assistant(new InMemoryStateStore())]));
    const { data } = await client.models.list();
    expect(data.map(({ id }) => id)).toEqual(['assistant']);
    expect(await client.models.retrieve('assistant')).toMatchObject({ id: 'assistant', object: 'model' });
    await expect(client.chat.completions.create({ model: 'gpt-4', messages: ask('Hi') })).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
      param: 'model',
    });
  });

  it('the messages of the request are the conversation; instructions of clients are dropped, or appended', async () => {
    const seen: unknown[] = [];
    const step: ScriptedLLMStep = ({ messages }) => {
      seen.push(messages.map(({ role, content }) => [role, content]));
      return { text: 'Yes.' };
    };
    const messages = [
      { role: 'system' as const, content: 'Be rude.' },
      { role: 'user' as const, content: 'One' },
      { role: 'assistant' as const, content: 'Two' },
      { role: 'user' as const, content: [{ type: 'text' as const, text: 'Three' }] },
    ];
    for (const clientInstructions of ['ignore', 'append'] as const) {
      const one = scripted([step], new InMemoryStateStore());
      await clientOf(serve([one], { clientInstructions })).chat.completions.create({ model, messages });
    }
    const rest = [
      ['user', 'One'],
      ['assistant', 'Two'],
      ['user', 'Three'],
    ];
    expect(seen).toEqual([rest, [['system', 'Be rude.'], ...rest]]);
  });

  it('V-16 a client that aborts cancels the turn', async () => {
    const store = new InMemoryStateStore();
    const client = clientOf(serve([assistant(store)], { onDisconnect: 'continue' }));
    const stream = await client.chat.completions.create({ model, messages: ask('slow'), stream: true });
    for await (const { choices } of stream) if (choices[0]?.delta.content) break;
    await ended(store, ['canceled']);
  });

  it('V-16 a client that aborts before the whole answer cancels the turn', async () => {
    const store = new InMemoryStateStore();
    const client = clientOf(serve([scripted([{ text: 'Hm', never: true }], store)]));
    const leaving = new AbortController();
    const asked = client.chat.completions.create({ model, messages: ask('Hi') }, { signal: leaving.signal });
    const leftWhenBegun = firstOf(store).then(() => leaving.abort());
    await expect(asked).rejects.toThrow(OpenAI.APIUserAbortError);
    await leftWhenBegun;
    await ended(store, ['canceled']);
  });

  it('V-17 a turn that fails runs once, whatever the client retries', async () => {
    const store = new InMemoryStateStore();
    const client = clientOf(serve([scripted([{ error: new Error('SECRET') }], store)]));
    const failing = client.chat.completions.create({ model, messages: ask('fail') });
    await expect(failing).rejects.toMatchObject({ status: 400, type: 'server_error', code: 'PROVIDER_FAILED' });
    const half: LLMStep = { text: 'Half', error: new Error('SECRET') };
    const streamed = clientOf(serve([scripted([half], store)]));
    const stream = await streamed.chat.completions.create({ model, messages: ask('fail'), stream: true });
    const error = await textOf(stream).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(OpenAI.APIError);
    expect(`${error}${JSON.stringify(error)}`).not.toContain('SECRET');
    expect((await store.list({ limit: 10 })).map(({ state }) => state)).toEqual(['failed', 'failed']);
  });

  it('V-18 a turn that asks for an approval is cancelled, and its tool does not run', async () => {
    let effects = 0;
    const store = new InMemoryStateStore();
    const client = clientOf(serve([assistant(store, () => effects++)]));
    const refused = { code: 'approval_required' };
    await expect(client.chat.completions.create({ model, messages: ask('refund') })).rejects.toMatchObject(refused);
    const stream = await client.chat.completions.create({ model, messages: ask('refund'), stream: true });
    await expect(textOf(stream)).rejects.toMatchObject(refused);
    await ended(store, ['canceled', 'canceled']);
    expect(effects).toBe(0);
  });

  it.each([
    ['tools', [{ type: 'function', function: { name: 'x', parameters: {} } }]],
    ['n', 2],
    ['logprobs', true],
    ['stop', 'x'],
    ['response_format', { type: 'json_object' }],
    ['stream', 'yes'],
    ['messages', 'Hi'],
    ['messages', [{ role: 'assistant', content: 'Hi' }]],
    ['messages[0]', [{ role: 'tool', content: 'Hi', tool_call_id: '1' }, ...ask('Hi')]],
    ['messages[0]', [{ role: 'user', content: [{ type: 'input_audio', input_audio: {} }] }]],
  ])('V-19 %s that is not supported is named, and nothing starts', async (param, value) => {
    const store = new InMemoryStateStore();
    const client = clientOf(serve([assistant(store)]));
    const body = { model, messages: ask('Hi'), [param.replace(/\[.*/, '')]: value };
    await expect(client.chat.completions.create(body as never)).rejects.toMatchObject({ status: 400, param });
    expect(await store.list({ limit: 1 })).toEqual([]);
  });

  it.each([
    ['length', 'length'],
    ['content_filter', 'content_filter'],
  ] as const)('an answer that ends with %s has the reason %s', async (finishReason, finish) => {
    const step = { text: 'So far', finishReason };
    const client = clientOf(serve([scripted([step, step], new InMemoryStateStore())]));
    const stream = await client.chat.completions.create({ model, messages: ask('Hi'), stream: true });
    expect(await textOf(stream)).toMatchObject({ text: 'So far', finish });
  });

  it('R-37 usage is null in all chunks but the last where it was asked for, and absent where it was not', async () => {
    const client = clientOf(serve([scripted([{ text: ['a', 'b'] }, { text: 'a' }], new InMemoryStateStore())]));
    const usages = async (include_usage: boolean) => {
      const stream_options = { include_usage };
      const all: unknown[] = [];
      const stream = await client.chat.completions.create({ model, messages: ask('x'), stream: true, stream_options });
      for await (const { usage } of stream) all.push(usage);
      return all;
    };
    const asked = await usages(true);
    expect(asked.length).toBeGreaterThan(3);
    expect(new Set(asked.slice(0, -1))).toEqual(new Set([null]));
    expect(asked.at(-1)).toMatchObject({ total_tokens: expect.any(Number) });
    expect(new Set(await usages(false))).toEqual(new Set([undefined]));
  });

  it.each([
    ['stream_options', { include_usage: true }],
    ['temperature', 3],
    ['top_p', '1'],
    ['max_tokens', 0],
    ['max_completion_tokens', 1.5],
    ['frequency_penalty', -3],
    ['seed', 'x'],
    ['user', 7],
    ['metadata', { a: 1 }],
    ['metadata', Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`k${index}`, '']))],
    ['parallel_tool_calls', 'yes'],
  ])('R-37 a completion refuses %s of %j as OpenAI does, and nothing starts', async (param, value) => {
    const store = new InMemoryStateStore();
    const client = clientOf(serve([assistant(store)]));
    const body = { model, messages: ask('Hi'), [param]: value };
    await expect(client.chat.completions.create(body as never)).rejects.toMatchObject({ status: 400, param });
    expect(await store.list({ limit: 1 })).toEqual([]);
  });

  it('R-37 a completion has the metadata of its request', async () => {
    const client = clientOf(serve([scripted([{ text: 'Yes.' }], new InMemoryStateStore())]));
    const metadata = { order: '7' };
    expect(await client.chat.completions.create({ model, messages: ask('Hi'), metadata })).toMatchObject({ metadata });
  });

  it('takes as many messages as limits.maxMessages, and refuses one more by name', async () => {
    const store = new InMemoryStateStore();
    const client = clientOf(serve([scripted([{ text: 'Yes.' }], store)], { limits: { maxMessages: 2 } }));
    const create = (count: number) =>
      client.chat.completions.create({ model, messages: Array.from({ length: count }, () => ask('Hi')).flat() });
    await expect(create(3)).rejects.toMatchObject({ status: 400, param: 'messages' });
    expect((await create(2)).choices[0]?.message.content).toBe('Yes.');
  });

  it('a text that the model says again is not sent twice; one that differs ends with an error', async () => {
    const again = assistant(new InMemoryStateStore());
    const differing = await clientOf(serve([again])).chat.completions.create({
      model,
      messages: ask('half'),
      stream: true,
    });
    await expect(textOf(differing)).rejects.toMatchObject({ code: 'PROVIDER_STREAM_CLOSED' });
    const whole = await clientOf(serve([assistant(new InMemoryStateStore())])).chat.completions.create({
      model,
      messages: ask('half'),
    });
    expect(whole.choices[0]?.message.content).toBe('Whole.');
  });

  it('a structured value is its JSON', async () => {
    const schema = { type: 'object', properties: { sum: { type: 'number' } }, required: ['sum'] } as const;
    const finish = { toolCalls: [{ name: '__finish__', arguments: { sum: 3 } }] };
    const one = scripted([finish], new InMemoryStateStore(), { output: { schema, mode: 'tool' } });
    const { choices } = await clientOf(serve([one])).chat.completions.create({ model, messages: ask('1+2') });
    expect(JSON.parse(choices[0]?.message.content ?? '')).toEqual({ sum: 3 });
  });

  it('requests with one Idempotency-Key are one turn', async () => {
    const store = new InMemoryStateStore();
    const client = clientOf(serve([assistant(store)]));
    const create = () =>
      client.chat.completions.create({ model, messages: ask('Hi') }, { headers: { 'Idempotency-Key': 'k1' } });
    const [one, other] = await Promise.all([create(), create()]);
    expect(one.id).toBe(other.id);
    expect(await store.list({ limit: 10 })).toHaveLength(1);
  });

  it('nobody is answered without a scope', async () => {
    const handler = serve([assistant(new InMemoryStateStore())], { scopeOf: () => undefined });
    await expect(clientOf(handler).models.list()).rejects.toMatchObject({ status: 401 });
  });
});

describe('responses', () => {
  it('V-16 the openai client gets a response, streamed and whole, and continues its conversation', async () => {
    const seen: unknown[] = [];
    const step: ScriptedLLMStep = ({ messages }) => {
      seen.push(messages.map(({ content }) => content));
      return { text: ['Hel', 'lo.'], usage };
    };
    const client = clientOf(serve([scripted([step, step], new InMemoryStateStore())]));
    const first = await client.responses.create({ model, input: 'One' });
    expect(first).toMatchObject({ status: 'completed', output_text: 'Hello.', model });
    expect(first.usage).toMatchObject({ input_tokens: 3, output_tokens: 2, total_tokens: 5 });
    const stream = client.responses.stream({ model, input: 'Two', previous_response_id: first.id });
    const second = await stream.finalResponse();
    expect(second).toMatchObject({ status: 'completed', output_text: 'Hello.', previous_response_id: first.id });
    expect(seen).toEqual([['One'], ['One', 'Hello.', 'Two']]);
    expect(await client.responses.retrieve(second.id)).toMatchObject({ id: second.id, output_text: 'Hello.' });
  });

  it('calls of the agent are items, with names only or in full', async () => {
    for (const tools of ['names', 'full', 'hidden'] as const) {
      const client = clientOf(serve([assistant(new InMemoryStateStore())], { tools, reasoning: true }));
      const stream = client.responses.stream({ model, input: 'answer' });
      const { output } = await stream.finalResponse();
      const calls = output.filter((item) => item.type === 'mcp_call');
      const shown = calls.map(({ name, arguments: given, output: result }) => [name, given, result]);
      const expected = {
        names: [
          ['look_up', '{}', null],
          ['look_up', '{}', null],
        ],
        full: [
          ['look_up', '{"of":"apples"}', 'found apples'],
          ['look_up', '{"of":"pears"}', 'found pears'],
        ],
        hidden: [],
      };
      expect(shown).toEqual(expected[tools]);
      expect(output[0]).toMatchObject({ type: 'reasoning', summary: [{ text: 'Hm.' }] });
    }
  });

  it('V-18 an approval is asked for, given in the next request, and the tool runs once', async () => {
    let effects = 0;
    const store = new InMemoryStateStore();
    const client = clientOf(serve([assistant(store, () => effects++)], { onDisconnect: 'continue' }));
    const asked = await client.responses.create({ model, input: 'refund' });
    const [request] = asked.output.filter((item) => item.type === 'mcp_approval_request');
    expect(request).toMatchObject({ name: 'refund', server_label: 'assistant' });
    const approval = { type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve: true } as const;
    const given = { model, input: [approval], previous_response_id: asked.id };
    const done = await client.responses.stream(given).finalResponse();
    expect(done).toMatchObject({ status: 'completed', output_text: 'All is done.', previous_response_id: asked.id });
    expect(done.output.filter((item) => item.type === 'mcp_call')).toMatchObject([{ name: 'refund', error: null }]);
    expect(effects).toBe(1);
    const after = await client.responses.create({ model, input: 'Thanks', previous_response_id: done.id });
    expect(after.status).toBe('completed');
  });

  it('V-11 a response of another owner is not found, like one that does not exist', async () => {
    const handler = serve([assistant(new InMemoryStateStore())]);
    const { id } = await clientOf(handler).responses.create({ model, input: 'Hi' });
    const bodies = async (of: string) => {
      const seen: Response[] = [];
      const other = clientOf(handler, 'eve', seen);
      for (const asked of [
        other.responses.retrieve(of),
        other.responses.cancel(of),
        other.responses.create({ model, input: 'Hi', previous_response_id: of }),
      ])
        await expect(asked).rejects.toMatchObject({ status: 404 });
      return Promise.all(seen.map((response) => response.text()));
    };
    expect(await bodies(id)).toEqual(await bodies(id.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'))));
  });

  it.each([
    ['tools', [{ type: 'web_search' }]],
    ['background', true],
    ['store', 'no'],
    ['text', { format: { type: 'json_object' } }],
    ['input', [{ type: 'function_call_output', call_id: '1', output: 'x' }]],
  ])('V-19 %s that is not supported is named, and nothing starts', async (param, value) => {
    const store = new InMemoryStateStore();
    const client = clientOf(serve([assistant(store)]));
    const asked = client.responses.create({ model, input: 'Hi', [param]: value } as never);
    await expect(asked).rejects.toMatchObject({ status: 400, param: expect.stringContaining(param) });
    expect(await store.list({ limit: 1 })).toEqual([]);
  });

  it('R-37 a call that failed has an error of the type that OpenAI declares', async () => {
    const broken = tool({
      name: 'broken',
      description: 'Breaks.',
      parameters: { type: 'object' },
      execute: () => Promise.reject(new Error('SECRET')),
    });
    const steps = [{ toolCalls: [{ name: 'broken' }] }, { text: 'Sorry.' }];
    const one = scripted([...steps, ...steps], new InMemoryStateStore(), { tools: [broken] });
    const client = clientOf(serve([one]));
    const error = {
      type: 'mcp_tool_execution_error',
      content: [{ type: 'text', text: expect.stringMatching(/^[A-Z].*\.$/) }],
    };
    const whole = await client.responses.create({ model, input: 'x' });
    const streamed = await client.responses.stream({ model, input: 'x' }).finalResponse();
    for (const { output } of [whole, streamed]) {
      const [call] = output.filter(({ type }) => type === 'mcp_call');
      expect(call).toMatchObject({ status: 'failed', output: null, error });
      expect(JSON.stringify(output)).not.toContain('SECRET');
    }
  });

  it('R-37 a response repeats what its request says of it', async () => {
    const client = clientOf(serve([scripted([{ text: 'Yes.' }, { text: 'Yes.' }], new InMemoryStateStore())]));
    const given = {
      instructions: 'Be brief.',
      max_output_tokens: 100,
      metadata: { order: '7' },
      parallel_tool_calls: false,
      prompt_cache_key: 'k',
      safety_identifier: 's',
      store: false,
      temperature: 0.5,
      tool_choice: 'none',
      top_p: 0.9,
      truncation: 'auto',
      user: 'ann',
      tools: [{ type: 'mcp', server_label: model, server_url: 'http://localhost' }],
    } as const;
    const request = { model, input: 'x', ...given, tools: [...given.tools] };
    expect(await client.responses.create(request)).toMatchObject(given);
    const types: string[] = [];
    for await (const event of await client.responses.create({ ...request, stream: true })) {
      if (!('response' in event)) continue;
      types.push(event.type);
      expect(event.response).toMatchObject(given);
    }
    expect(types).toEqual(['response.created', 'response.in_progress', 'response.completed']);
  });

  it.each([
    ['stream_options', { include_obfuscation: false }],
    ['temperature', -1],
    ['max_output_tokens', 1],
    ['max_tool_calls', 1],
    ['metadata', { name: 'x'.repeat(513) }],
    ['truncation', 'never'],
    ['store', 'yes'],
    ['safety_identifier', 1],
  ])('R-37 a response refuses %s of %j, and nothing starts', async (param, value) => {
    const store = new InMemoryStateStore();
    const client = clientOf(serve([assistant(store)]));
    const asked = client.responses.create({ model, input: 'Hi', [param]: value } as never);
    await expect(asked).rejects.toMatchObject({ status: 400, param });
    expect(await store.list({ limit: 1 })).toEqual([]);
  });

  it('a turn that fails is a failed response, once', async () => {
    const store = new InMemoryStateStore();
    const client = clientOf(serve([scripted([{ error: new Error('SECRET') }], store)]));
    const response = await client.responses.create({ model, input: 'fail' });
    const error = { code: 'PROVIDER_FAILED', type: 'server_error', param: null };
    expect(response).toMatchObject({ status: 'failed', error });
    expect(JSON.stringify(response)).not.toContain('SECRET');
    expect(await store.list({ limit: 10 })).toHaveLength(1);
  });

  it('an error of the engine before the first event is not retried: the turn may exist', async () => {
    class Failing extends InMemoryStateStore {
      attempts = 0;
      override create(): never {
        this.attempts++;
        throw new AgentLoopError('UNAVAILABLE', 'SECRET');
      }
    }
    const store = new Failing();
    const client = clientOf(serve([scripted([], store)]));
    const asked = client.chat.completions.create({ model, messages: ask('Hi') });
    await expect(asked).rejects.toMatchObject({ status: 400, type: 'server_error', code: 'UNAVAILABLE' });
    expect(store.attempts).toBe(1);
  });

  it('R-31 no answer after which a turn exists has a status that some client repeats', async () => {
    const store = new InMemoryStateStore();
    const steps = [{ error: new Error('SECRET') }, { toolCalls: [{ name: 'ask' }] }];
    const handler = serve([scripted(steps, store, { tools: [question] })]);
    const post = (path: string, body: object) =>
      handler(
        new Request(`http://localhost/v1/${path}`, {
          method: 'POST',
          headers: { authorization: 'Bearer ann', 'content-type': 'application/json' },
          body: JSON.stringify({ model, ...body }),
        }),
      );
    const failed = await post('chat/completions', { messages: ask('fail') });
    const asking = await post('chat/completions', { messages: ask('ask') });
    const answers = [await failed.json(), await asking.json()].map(({ error }) => [error.type, error.code]);
    expect([failed.status, asking.status]).toEqual([400, 400]);
    expect(answers).toEqual([
      ['server_error', 'PROVIDER_FAILED'],
      ['invalid_request_error', 'input_required'],
    ]);
    expect(await store.list({ limit: 10 })).toHaveLength(2);
  });

  it.each([
    ['chat/completions', { messages: ask('fail') }, '"refusal":"Something went wrong."'],
    ['responses', { input: 'fail' }, '"response.output_item.done"'],
  ])(
    'R-31 a stream of %s that fails has output before its error: the AI SDK repeats one without',
    async (path, body, output) => {
      const handler = serve([scripted([{ error: new Error('SECRET') }], new InMemoryStateStore())]);
      const response = await handler(
        new Request(`http://localhost/v1/${path}`, {
          method: 'POST',
          headers: { authorization: 'Bearer ann', 'content-type': 'application/json' },
          body: JSON.stringify({ model, stream: true, ...body }),
        }),
      );
      const text = await response.text();
      expect(text).toContain(output);
      expect(text.indexOf(output)).toBeLessThan(text.indexOf('"code":"PROVIDER_FAILED"'));
    },
  );

  /** A client, and the requests that it makes. */
  function counted() {
    const requests: Request[] = [];
    const handler = serve([assistant(new InMemoryStateStore())], { onDisconnect: 'continue' });
    const client = clientOf((request) => {
      requests.push(request);
      return handler(request);
    });
    return { client, requests };
  }

  it('R-31 a message while an approval is waited for is refused with the cure, once', async () => {
    const { client, requests } = counted();
    const asked = await client.responses.create({ model, input: 'refund' });
    requests.length = 0;
    const next = client.responses.create({ model, input: 'And?', previous_response_id: asked.id });
    const message = expect.stringContaining('answer it with an mcp_approval_response');
    await expect(next).rejects.toMatchObject({ status: 400, code: 'AGENT_BUSY', message });
    expect(requests).toHaveLength(1);
  });

  it('R-31 a request with previous_response_id is repeated with its Idempotency-Key as one turn', async () => {
    const store = new InMemoryStateStore();
    const client = clientOf(serve([assistant(store)]));
    const first = await client.responses.create({ model, input: 'One' });
    const again = () =>
      client.responses.create(
        { model, input: 'Two', previous_response_id: first.id },
        { headers: { 'Idempotency-Key': 'two' } },
      );
    const second = await again();
    expect(await again()).toMatchObject({ id: second.id, status: 'completed' });
    expect(await store.list({ limit: 10 })).toHaveLength(2);
  });

  it('R-31 an opposite answer to an approval that was answered has a status that no client repeats', async () => {
    const { client, requests } = counted();
    const asked = await client.responses.create({ model, input: 'refund' });
    const [request] = asked.output.filter((item) => item.type === 'mcp_approval_request');
    const answer = (approve: boolean) =>
      client.responses.create({
        model,
        input: [{ type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve }],
        previous_response_id: asked.id,
      });
    await answer(true);
    requests.length = 0;
    await expect(answer(false)).rejects.toMatchObject({ status: 400 });
    expect(requests).toHaveLength(1);
  });

  it('R-31 what is refused before a turn exists keeps its status', async () => {
    const store = new InMemoryStateStore();
    const full = () => {
      throw new AgentLoopError('FULL', 'SECRET');
    };
    const client = clientOf(serve([assistant(store)], { admit: full }));
    const asked = client.chat.completions.create({ model, messages: ask('Hi') });
    await expect(asked).rejects.toMatchObject({ status: 507, code: 'FULL' });
    expect(await store.list({ limit: 1 })).toEqual([]);
  });

  it('a response is streamed again from its beginning; from its middle it is not', async () => {
    const client = clientOf(serve([assistant(new InMemoryStateStore())]));
    const asked = await client.responses.create({ model, input: 'refund' });
    expect((await client.responses.retrieve(asked.id)).output).toEqual(asked.output);
    const types: string[] = [];
    for await (const { type } of await client.responses.retrieve(asked.id, { stream: true })) types.push(type);
    expect([types[0], types.at(-1)]).toEqual(['response.created', 'response.completed']);
    const middle = client.responses.retrieve(asked.id, { stream: true, starting_after: 3 });
    await expect(middle).rejects.toMatchObject({ status: 400, param: 'starting_after' });
  });

  it('a response that runs can be looked at and cancelled', async () => {
    const store = new InMemoryStateStore();
    const client = clientOf(serve([assistant(store)], { onDisconnect: 'continue' }));
    const stream = client.responses.stream({ model, input: 'slow' });
    let id = '';
    for await (const event of stream) {
      if (event.type === 'response.created') id = event.response.id;
      if (event.type === 'response.output_text.delta') break;
    }
    expect(await client.responses.retrieve(id)).toMatchObject({ id, status: 'in_progress' });
    expect(await client.responses.cancel(id)).toMatchObject({ id, status: 'cancelled' });
    await ended(store, ['canceled']);
  });

  it('R-32 references to items of earlier responses are resolved from their turns', async () => {
    const seen: unknown[] = [];
    const step: ScriptedLLMStep = ({ messages }) => {
      seen.push(messages.map(({ content }) => content));
      return { text: `Answer ${seen.length}.` };
    };
    const handler = serve([scripted([step, step], new InMemoryStateStore())]);
    const client = clientOf(handler);
    const first = await client.responses.create({ model, input: 'One' });
    const ids = first.output.map(({ id }) => id ?? '');
    const input = [...ask('One'), ...ids.map((id) => ({ type: 'item_reference' as const, id })), ...ask('Two')];
    const second = await client.responses.create({ model, input, store: false });
    expect(second).toMatchObject({ status: 'completed', output_text: 'Answer 2.', store: false });
    expect(seen.at(-1)).toEqual(['One', 'Answer 1.', 'Two']);
    expect(second.output[0]?.id).not.toBe(ids[0]);
    const missing = { status: 404, param: 'input[1]' };
    await expect(clientOf(handler, 'eve').responses.create({ model, input })).rejects.toMatchObject(missing);
    const wrong = [...ask('One'), { type: 'item_reference' as const, id: 'msg_1' }, ...ask('Two')];
    await expect(client.responses.create({ model, input: wrong })).rejects.toMatchObject(missing);
  });

  it('R-32 a message that was answered by items after it starts no second turn', async () => {
    const store = new InMemoryStateStore();
    const client = clientOf(serve([assistant(store)], { onDisconnect: 'continue' }));
    const { output } = await client.responses.create({ model, input: 'refund' });
    const references = output.flatMap(({ id, type }) =>
      type === 'mcp_approval_request' ? [{ type: 'item_reference' as const, id: id ?? '' }] : [],
    );
    const again = client.responses.create({ model, input: [...ask('refund'), ...references] });
    await expect(again).rejects.toMatchObject({ status: 400, param: 'input' });
    expect(await store.list({ limit: 10 })).toHaveLength(1);
  });

  it.each([true, false])(
    'R-32 an approval is answered with the history before it, previous_response_id %s',
    async (named) => {
      let effects = 0;
      const store = new InMemoryStateStore();
      const client = clientOf(serve([assistant(store, () => effects++)], { onDisconnect: 'continue' }));
      const asked = await client.responses.create({ model, input: 'refund' });
      const request = asked.output.find((item) => item.type === 'mcp_approval_request');
      const references = asked.output.map(({ id }) => ({ type: 'item_reference' as const, id: id ?? '' }));
      const approval = {
        type: 'mcp_approval_response' as const,
        approval_request_id: request?.id ?? '',
        approve: true,
      };
      const previous = named ? { previous_response_id: asked.id } : {};
      const answer = (text: string) =>
        client.responses.create({ model, input: [...ask(text), ...references, approval], ...previous });
      await expect(answer('something new')).rejects.toMatchObject({ status: 400, param: 'input' });
      const early = client.responses.create({ model, input: [...ask('refund'), approval, ...ask('Thanks')] });
      await expect(early).rejects.toMatchObject({ status: 400, param: 'input' });
      expect(await answer('refund')).toMatchObject({ status: 'completed', output_text: 'All is done.' });
      expect(effects).toBe(1);
      const after = [...ask('refund'), ...references, approval, ...ask('Thanks')];
      expect(await client.responses.create({ model, input: after })).toMatchObject({ status: 'completed' });
      expect(effects).toBe(1);
    },
  );

  it.each([
    ['names', '{"order":"7"}'],
    ['full', '{"order":"7"}'],
    ['hidden', ''],
  ] as const)('R-34 an approval shows the arguments that are approved, with tools %s', async (tools, expected) => {
    const refund = tool({
      name: 'refund',
      description: 'Refunds.',
      parameters: { type: 'object' },
      needsApproval: true,
      execute: () => 'refunded',
    });
    const steps = [{ toolCalls: [{ name: 'refund', arguments: { order: '7' } }] }];
    const one = scripted(steps, new InMemoryStateStore(), { tools: [refund] });
    const { output } = await clientOf(serve([one], { tools })).responses.create({ model, input: 'Hi' });
    expect(output.find(({ type }) => type === 'mcp_approval_request')).toMatchObject({ arguments: expected });
  });

  it('R-33 the tools of the agent may be named as an MCP server with its id, and no other', async () => {
    const store = new InMemoryStateStore();
    const client = clientOf(serve([assistant(store)]));
    const create = (more: object) =>
      client.responses.create({
        model,
        input: 'Hi',
        tools: [{ type: 'mcp', server_label: model, require_approval: 'always', ...more }],
      });
    for (const more of [{ server_label: 'other' }, { allowed_tools: ['refund'] }, { connector_id: 'connector_gmail' }])
      await expect(create(more)).rejects.toMatchObject({ status: 400, param: 'tools' });
    expect(await store.list({ limit: 1 })).toEqual([]);
    expect(await create({})).toMatchObject({ status: 'completed' });
  });

  it('a question that is no approval cancels the turn', async () => {
    const store = new InMemoryStateStore();
    const one = scripted([{ toolCalls: [{ name: 'ask' }] }], store, { tools: [question] });
    const response = await clientOf(serve([one])).responses.create({ model, input: 'Hi' });
    expect(response).toMatchObject({ status: 'failed', error: { code: 'input_required' } });
    await ended(store, ['canceled']);
  });
});

/** Waits for the first record of a turn. */
async function firstOf(store: TaskStateStore): Promise<void> {
  while ((await store.list({ limit: 1 })).length === 0) await new Promise((resolve) => setImmediate(resolve));
}

/** Waits until all turns are over. */
async function ended(store: TaskStateStore, states: readonly string[]): Promise<void> {
  for (const { taskId } of await store.list({ limit: 100 }))
    await new Promise<void>((resolve, reject) => {
      store.follow(taskId).subscribe({ complete: resolve, error: reject });
    });
  expect((await store.list({ limit: 100 })).map(({ state }) => state)).toEqual(states);
}
