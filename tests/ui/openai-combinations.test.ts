import { afterEach, describe, expect, it } from '@jest/globals';
import {
  type Agent,
  agent,
  agentTools,
  budget,
  guardrails,
  InMemoryStateStore,
  systemClock,
  type TaskStateStore,
  team,
  tool,
} from 'millrace';
import { type OpenAIHandlerOptions, openAIHandler } from 'millrace/openai';
import { gate, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import OpenAI from 'openai';

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** The handler, and the real client, whose requests it answers. */
function served(one: Agent, options: Partial<OpenAIHandlerOptions> = {}) {
  const handler = openAIHandler({ agents: [one], scopeOf: () => 'ann', recoverEveryMs: 0, ...options });
  closing.push(() => handler.close());
  const fetch = async (url: string | URL | Request, init?: RequestInit) => {
    const response = await handler(new Request(url, init));
    init?.signal?.throwIfAborted();
    return response;
  };
  return { handler, client: new OpenAI({ baseURL: 'http://localhost/v1', apiKey: 'any', fetch }) };
}

const model = 'bo';
const ask = (content = 'Hi') => ({ model, messages: [{ role: 'user' as const, content }] });
const usage = { promptTokens: 30, completionTokens: 20, totalTokens: 50 };

function made(steps: readonly ScriptedLLMStep[], taskStateStore: TaskStateStore, more: object = {}): Agent {
  return agent({ id: model, provider: scriptedLLM(steps), taskStateStore, retry: null, ...more });
}

const call = (name: string, given: object = {}) => ({ toolCalls: [{ name, arguments: given }] });
const refund = (onRun: () => void) =>
  tool({
    name: 'refund',
    description: 'Refunds.',
    parameters: { type: 'object' },
    needsApproval: true,
    execute: () => {
      onRun();
      return 'refunded';
    },
  });
const question = tool({
  name: 'asks',
  description: 'Asks.',
  parameters: { type: 'object' },
  execute: (_, context) => context.ask({ kind: 'input', prompt: 'Where to?' }),
});

/** The states of the root turns, once all of them have ended. */
async function ends(store: TaskStateStore): Promise<readonly string[]> {
  for (const { taskId } of await store.list({ limit: 100 }))
    await new Promise<void>((resolve, reject) => {
      store.follow(taskId).subscribe({ complete: resolve, error: reject });
    });
  return (await store.list({ limit: 100, roots: true })).map(({ state }) => state);
}

async function textOf(stream: AsyncIterable<OpenAI.ChatCompletionChunk>): Promise<string> {
  let text = '';
  for await (const { choices } of stream) text += choices[0]?.delta.content ?? '';
  return text;
}

describe('completions of agents that do more than answer', () => {
  const helper = (steps: readonly ScriptedLLMStep[], store: TaskStateStore, more: object = {}) =>
    agent({ id: 'helper', description: 'Helps.', provider: scriptedLLM(steps), taskStateStore: store, ...more });

  it('V-16 of an agent with a sub-agent the client sees the text of the agent, and the usage of both', async () => {
    const store = new InMemoryStateStore();
    const toolProviders = [agentTools([helper([{ text: 'Four.', usage }], store)])];
    const steps = [
      { ...call('helper', { message: '2+2' }), usage },
      { text: 'It is four.', usage },
    ];
    const { client } = served(made(steps, store, { toolProviders }));
    const whole = await client.chat.completions.create(ask());
    expect(whole.choices[0]?.message).toMatchObject({ content: 'It is four.' });
    expect(whole.choices[0]?.message.tool_calls).toBeUndefined();
    expect(whole.usage?.total_tokens).toBe(150);
  });

  it('V-18 an approval that a sub-agent needs cancels the completion and its child turn, and is an item of a response', async () => {
    let runs = 0;
    const store = new InMemoryStateStore();
    const makeAgent = () => {
      const inner = helper([call('refund'), { text: 'Done below.' }], store, { tools: [refund(() => runs++)] });
      const steps = [call('helper', { message: 'Refund' }), { text: 'All is done.' }];
      return made(steps, store, { toolProviders: [agentTools([inner])] });
    };
    const refused = served(makeAgent()).client.chat.completions.create(ask());
    await expect(refused).rejects.toMatchObject({ code: 'approval_required' });
    expect(await ends(store)).toEqual(['canceled']);
    expect((await store.list({ limit: 10 })).map(({ state }) => state)).toEqual(['canceled', 'canceled']);
    const { client } = served(makeAgent());
    const asked = await client.responses.create({ model, input: 'Hi' });
    const request = asked.output.find((item) => item.type === 'mcp_approval_request');
    const approval = { type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve: true } as const;
    const done = await client.responses.create({ model, input: [approval], previous_response_id: asked.id });
    expect([done.output_text, runs]).toEqual(['All is done.', 1]);
  });

  it('V-17 a turn over its budget is an error with its code, once', async () => {
    const store = new InMemoryStateStore();
    const { client } = served(
      made([{ text: 'Never.' }], store, { extensions: [budget({ maxTokens: 10 }).extension()] }),
    );
    await expect(client.chat.completions.create(ask())).rejects.toMatchObject({ status: 400, code: 'LIMIT' });
    expect(await ends(store)).toEqual(['failed']);
  });

  it('V-16 of a team the client sees what the agent says that the turn was handed to', async () => {
    const store = new InMemoryStateStore();
    const desk = agent({
      id: 'desk',
      description: 'Answers first.',
      provider: scriptedLLM([
        { text: 'One moment.', ...call('hand_off', { agentId: 'billing', note: 'An invoice.' }) },
      ]),
    });
    const billing = agent({
      id: 'billing',
      description: 'Knows invoices.',
      provider: scriptedLLM([{ text: ['Your invoice ', 'is fine.'] }]),
    });
    const one = team({ id: model, agents: [desk, billing], handOff: true, taskStateStore: store }).asAgent();
    const stream = await served(one).client.chat.completions.create({ ...ask(), stream: true });
    expect(await textOf(stream)).toBe('One moment.\n\nYour invoice is fine.');
  });

  it.each(['completions', 'responses'] as const)(
    'V-18 a question of %s whose client has left before it came ends the turn',
    async (api) => {
      const store = new InMemoryStateStore();
      const held = gate();
      const wait = tool({
        name: 'wait',
        description: 'Waits.',
        parameters: { type: 'object' },
        execute: () => held.pass(),
      });
      const one = made([{ text: 'Hm.', ...call('wait') }, call('asks')], store, { tools: [wait, question] });
      const { handler } = served(one, { onDisconnect: 'continue' });
      const body = api === 'responses' ? { model, input: 'Hi', stream: true } : { ...ask(), stream: true };
      const path = api === 'responses' ? 'responses' : 'chat/completions';
      const response = await handler(
        new Request(`http://localhost/v1/${path}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        }),
      );
      const reader = response.body?.getReader();
      await held.reached;
      // It does not read: a completion runs on until it is left, a response in any case.
      if (api === 'responses') await reader?.cancel();
      held.open();
      expect(await ends(store)).toEqual(['canceled']);
      await reader?.cancel();
    },
  );
});

describe('a slow reader of a completion', () => {
  const pieces = 100_000;

  it('V-10 gets merged pieces of a text, whole, and cancels the turn where it leaves', async () => {
    const store = new InMemoryStateStore();
    const step = { text: Array.from({ length: pieces }, () => 'word ') };
    const one = made([step, { ...step, never: true }], store);
    const { handler } = served(one);
    const stream = async () => {
      const body = JSON.stringify({ ...ask(), stream: true });
      const headers = { 'content-type': 'application/json' };
      const response = await handler(
        new Request('http://localhost/v1/chat/completions', { method: 'POST', headers, body }),
      );
      return response.body?.getReader();
    };
    const slow = await stream();
    expect(await ends(store)).toEqual(['completed']);
    let [frames, text] = [0, ''];
    for (let next = await slow?.read(); next && !next.done; next = await slow?.read()) {
      for (const frame of new TextDecoder().decode(next.value).split('\n\n')) {
        if (!frame.startsWith('data: {')) continue;
        frames++;
        text += JSON.parse(frame.slice(6)).choices[0]?.delta.content ?? '';
      }
    }
    expect(text).toBe('word '.repeat(pieces));
    expect(frames).toBeLessThan(100);
    const leaving = await stream();
    await leaving?.read();
    await leaving?.cancel();
    expect((await ends(store)).toSorted()).toEqual(['canceled', 'completed']);
  });
});

/** A completion or a response in the middle, whose server has drained. */
async function leftBehind(store: TaskStateStore, api: 'completions' | 'responses', key?: string) {
  const stopping = new AbortController();
  const held = gate();
  const one = made([() => ({ text: ['Half ', held.pass()] })], store, { shutdown: stopping.signal });
  const { client } = served(one);
  const options = key === undefined ? { maxRetries: 0 } : { maxRetries: 0, headers: { 'Idempotency-Key': key } };
  const asked =
    api === 'completions'
      ? client.chat.completions.create(ask(), options)
      : client.responses.create({ model, input: 'Hi' }, options);
  const answered = asked.then(
    (value) => value,
    (error: unknown) => error,
  );
  await held.reached;
  stopping.abort();
  const answer = await answered;
  const [task] = await store.list({ limit: 1 });
  expect(task).toMatchObject({ state: 'working', held: false });
  return { answer, task };
}

/** Waits for the store to have the turn in that state. */
async function stands(store: TaskStateStore, state: string): Promise<void> {
  while ((await store.list({ limit: 1 }))[0]?.state !== state) await new Promise((resolve) => setImmediate(resolve));
}

describe('completions whose server is gone', () => {
  it('end as canceled at the next server; the next request starts anew', async () => {
    const store = new InMemoryStateStore();
    const { answer } = await leftBehind(store, 'completions');
    expect(answer).toMatchObject({ code: 'SHUTDOWN' });
    const { client } = served(made([{ text: 'Whole.' }], store), { recoverEveryMs: 60_000 });
    const next = await client.chat.completions.create(ask());
    expect(next.choices[0]?.message.content).toBe('Whole.');
    expect((await ends(store)).toSorted()).toEqual(['canceled', 'completed']);
    const [older] = (await store.list({ limit: 10 })).filter(({ state }) => state === 'canceled');
    const last = (await store.read(older?.taskId ?? '')).at(-1);
    expect(last).toMatchObject({ type: 'turn.canceled', reason: 'its server ended before it did' });
  });

  it('R-31 are not those of turns that were created and have no lease yet', async () => {
    const store = new InMemoryStateStore();
    const { task } = await leftBehind(store, 'completions');
    const [started] = await store.read(task?.taskId ?? '');
    if (started?.type !== 'turn.started') throw new Error('The turn has no beginning.');
    const created = { ...started, at: Date.now(), taskId: 'created-a-moment-ago' };
    await store.create(created.taskId, created);
    served(made([], store), { recoverEveryMs: 60_000 }).handler.start();
    await store.follow(task?.taskId ?? '').forEach(() => {});
    expect((await store.describe(task?.taskId ?? ''))?.state).toBe('canceled');
    expect((await store.describe(created.taskId))?.state).toBe('submitted');
  });

  it('end as canceled at the start of the next server, which gets no request', async () => {
    const store = new InMemoryStateStore();
    await leftBehind(store, 'completions');
    served(made([], store), { recoverEveryMs: 60_000 }).handler.start();
    await stands(store, 'canceled');
  });

  it('wait with an Idempotency-Key for their client, which gets the whole answer', async () => {
    const store = new InMemoryStateStore();
    await leftBehind(store, 'completions', 'k1');
    const { client } = served(made([{ text: 'Whole.' }, { text: 'Whole.' }], store), { recoverEveryMs: 60_000 });
    // The first request makes it look for completions that were left behind.
    await client.chat.completions.create(ask());
    const options = { headers: { 'Idempotency-Key': 'k1' } };
    const again = await client.chat.completions.create(ask(), options);
    expect(again.choices[0]?.message.content).toBe('Whole.');
    expect(await ends(store)).toEqual(['completed', 'completed']);
  });

  it('end after ten minutes, with an Idempotency-Key that nobody comes back with', async () => {
    const store = new InMemoryStateStore();
    await leftBehind(store, 'completions', 'k1');
    const clock = { ...systemClock, now: () => systemClock.now() + 11 * 60_000 };
    const { client } = served(made([], store, { clock }), { recoverEveryMs: 60_000 });
    await client.models.list();
    await stands(store, 'canceled');
  });
});

describe('responses whose server is gone', () => {
  it('end before the next request of their conversation, which sees the whole answer', async () => {
    const store = new InMemoryStateStore();
    const { answer, task } = await leftBehind(store, 'responses', 'k1');
    expect(answer).toMatchObject({ status: 'failed', error: { code: 'SHUTDOWN' } });
    const seen: unknown[] = [];
    const step: ScriptedLLMStep = ({ messages }) => {
      seen.push(messages.map(({ content }) => content));
      return { text: 'Whole.' };
    };
    const { client } = served(made([step, step], store));
    const previous_response_id = String(Reflect.get(Object(answer), 'id'));
    expect(previous_response_id).toContain(task?.taskId);
    const next = await client.responses.create({ model, input: 'And then?', previous_response_id });
    expect(next.output_text).toBe('Whole.');
    expect(seen).toEqual([['Hi'], ['Hi', 'Whole.', 'And then?']]);
  });

  it('R-11 are left where a client continues the response before them, and can be continued later', async () => {
    const provider = scriptedLLM(['One.', 'Two.', 'Three.', 'Four.', 'Five.'].map((text) => ({ text })));
    const { client } = served(agent({ id: model, provider, taskStateStore: new InMemoryStateStore() }));
    const said = async (input: string, previous_response_id?: string) => {
      const { id } = await client.responses.create({
        model,
        input,
        ...(previous_response_id && { previous_response_id }),
      });
      return [id, provider.calls.at(-1)?.messages.map(({ content }) => content)] as const;
    };
    const [first] = await said('1?');
    const [second] = await said('2?', first);
    const [third, seen] = await said('3?', first);
    expect(seen).toEqual(['1?', 'One.', '3?']);
    expect((await said('4?', third))[1]).toEqual(['1?', 'One.', '3?', 'Three.', '4?']);
    expect((await said('5?', second))[1]).toEqual(['1?', 'One.', '2?', 'Two.', '5?']);
  });

  it('which ask what nobody can answer end where their conversation is continued', async () => {
    const store = new InMemoryStateStore();
    const { task, answer } = await leftBehind(store, 'responses');
    // Another program continues the turn, and does not know that nobody can answer.
    const other = made([call('asks')], store, { tools: [question] });
    await other.resume(task?.taskId ?? '').result();
    expect((await store.describe(task?.taskId ?? ''))?.state).toBe('input-required');
    const { client } = served(made([{ text: 'Next.' }], store));
    const previous_response_id = String(Reflect.get(Object(answer), 'id'));
    const next = await client.responses.create({ model, input: 'Go on.', previous_response_id });
    expect(next.output_text).toBe('Next.');
    expect((await store.describe(task?.taskId ?? ''))?.state).toBe('canceled');
  });
});

describe('an answer that a guardrail refuses', () => {
  const pin = (verdict: { readonly block: string } | { readonly retry: string }) =>
    guardrails({ output: [{ name: 'pin', check: (text) => (text.includes('4711') ? verdict : undefined) }] });
  const secret = { text: 'It is 4711.' };
  const ways: readonly (readonly [string, readonly ScriptedLLMStep[], ReturnType<typeof pin>, string])[] = [
    ['blocked', [secret], pin({ block: 'no' }), 'failed'],
    ['asked again', [secret, { text: 'fine' }], pin({ retry: 'Without it.' }), 'completed'],
    ['asked again too often', [secret, secret, secret], pin({ retry: 'Without it.' }), 'failed'],
  ];

  it.each(ways)('R-02 is in no answer to a request that waits for the end: %s', async (_, steps, extension, status) => {
    const agentOf = () => made(steps, new InMemoryStateStore(), { extensions: [extension] });
    const { client } = served(agentOf());
    const response = await client.responses.create({ model, input: 'Hi' });
    const found = await client.responses.retrieve(response.id);
    expect([response.status, found.status]).toEqual([status, status]);
    expect(JSON.stringify(response.output)).not.toContain('4711');
    expect(JSON.stringify(found.output)).toEqual(JSON.stringify(response.output));
    const completion = await served(agentOf())
      .client.chat.completions.create(ask())
      .catch((error: unknown) => error);
    expect(JSON.stringify(completion)).not.toContain('4711');
  });
});
