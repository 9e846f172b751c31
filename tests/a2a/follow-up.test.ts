import { describe, expect, it, jest } from '@jest/globals';
import { InMemoryStateStore, type ToolContext } from 'millrace';
import { A2AClientTools, clientToolsExtension } from 'millrace/a2a';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { plainTools } from '../core/plain-tools.ts';
import { a2aBench, call, refusal, send } from './bench.ts';
import { collect, data, message, request, shortOf, text } from './messages.ts';

const refund = { needsApproval: true, execute: () => 'refunded' };
const asksSeat = ({ ask }: ToolContext) =>
  `seat ${ask({ prompt: 'Window or aisle?', data: { choices: ['window', 'aisle'] } })}`;
const asksLogin = ({ ask }: ToolContext) => `in as ${JSON.stringify(ask({ kind: 'auth', prompt: 'Sign in.' }))}`;

function shop(name: string, tool: Parameters<typeof plainTools>[0][string], store = new InMemoryStateStore()) {
  const steps = [{ toolCalls: [{ name, arguments: { order: '7' } }] }, { text: 'Done.' }];
  return a2aBench({ steps, store, agent: { toolProviders: [plainTools({ [name]: tool })] } });
}

describe('a task that waits', () => {
  it('tells what it asks in words and in a data part, and goes on with the data part that answers it', async () => {
    const { handler, model } = shop('refund', refund);
    const asked = await send(handler, 'Refund order 7');
    expect(asked.status).toMatchObject({ state: 6, message: { role: 2, taskId: asked.id } });
    expect(asked.status?.message?.parts.map(({ content }) => content?.value)).toEqual([
      'May the tool "refund" run with these arguments?',
      {
        question: expect.objectContaining({
          id: '1:0',
          callId: '1:0',
          kind: 'approval',
          toolName: 'refund',
          data: { order: '7' },
        }),
      },
    ]);
    const answer = message([data({ answers: { '1:0': { approved: true } } })], { taskId: asked.id });
    const done = await send(handler, answer);
    expect(done).toMatchObject({ id: asked.id, status: { state: 3 } });
    expect(model.calls[1]?.messages.at(-1)).toMatchObject({ role: 'tool', content: 'refunded' });
    expect(done.history.map(({ role, messageId }) => [role, messageId])).toEqual([
      [1, expect.stringMatching(/^message-/)],
      [2, `${asked.id}:asks:1:0`],
      [1, answer.messageId],
      [2, `${asked.id}:final`],
    ]);
  });

  it('takes the same answer twice as once, also when it is over, and refuses another one', async () => {
    const { handler, model } = shop('refund', refund);
    const { id } = await send(handler, 'Refund order 7');
    const answer = message([data({ answers: { '1:0': { approved: true } } })], { taskId: id });
    await send(handler, answer);
    expect(await send(handler, answer)).toMatchObject({ id, status: { state: 3 } });
    expect(model.calls).toHaveLength(2);
    const other = message([data({ answers: { '1:0': { approved: false } } })], { taskId: id });
    expect(await refusal(send(handler, other))).toMatch(/^UnsupportedOperationError: The task is over/);
  });

  it('says how it is answered where a message does not', async () => {
    const { handler } = shop('refund', refund);
    const { id } = await send(handler, 'Refund order 7');
    const words = await refusal(send(handler, message('yes', { taskId: id })));
    expect(words).toBe(
      'RequestMalformedError: The task waits for answers: "1:0" (refund) with a data part { "answers": { "1:0": { "approved": true } } }.',
    );
    const wrong = message([data({ answers: { '1:0': 'yes' } })], { taskId: id });
    expect(await refusal(send(handler, wrong))).toMatch(/^RequestMalformedError: .*must be \{ "approved": true \}/);
    const none = message([data({ answers: {} }), text('More.')], { taskId: id });
    expect(await refusal(send(handler, none))).toBe(words);
    const unknown = message([data({ answers: { '4:2': true } })], { taskId: id });
    expect(await refusal(send(handler, unknown))).toMatch(/^RequestMalformedError: .*no open question "4:2"/);
  });

  it('takes a data part as it stands for its only question, and a text for one that takes any answer', async () => {
    const approved = shop('refund', refund);
    const { id } = await send(approved.handler, 'Refund order 7');
    expect(await send(approved.handler, message([data({ approved: true })], { taskId: id }))).toMatchObject({
      status: { state: 3 },
    });

    const seat = shop('book', asksSeat);
    const asked = await send(seat.handler, 'Book');
    expect(asked.status?.message?.parts[0]?.content?.value).toBe('Window or aisle?');
    await send(seat.handler, message('window', { taskId: asked.id }));
    expect(seat.model.calls[1]?.messages.at(-1)).toMatchObject({ content: 'seat window' });
  });

  it('is auth-required where somebody has to sign in; its stream stays open until it is over', async () => {
    const { handler } = shop('mail', asksLogin);
    const stream = handler.sendMessageStream(request(message('Mail')), call());
    const first = await stream.next();
    const { id = '' } = first.value?.payload?.$case === 'task' ? first.value.payload.value : {};
    const seen: string[] = [];
    for (let last = ''; last !== 'status:8'; seen.push(last)) last = shortOf((await stream.next()).value ?? {});
    await send(handler, message([data({ answers: { '1:0': { token: 't' } } })], { taskId: id }));
    expect((await collect(stream)).map(shortOf).at(-1)).toBe('status:3');
  });

  it('ends the stream of a message where it waits for input', async () => {
    const { handler } = shop('refund', refund);
    const sent = request(message('Refund order 7'));
    expect((await collect(handler.sendMessageStream(sent, call()))).map(shortOf)).toEqual([
      'task:1',
      'status:2',
      'status:6',
    ]);
  });

  it('ends the stream of an answer with the status of the task, where another question is still open', async () => {
    const calls = [
      { name: 'refund', arguments: { order: '7' } },
      { name: 'refund', arguments: { order: '8' } },
    ];
    const { handler } = a2aBench({
      steps: [{ toolCalls: calls }, { text: 'Done.' }],
      agent: { toolProviders: [plainTools({ refund })] },
    });
    const { id } = await send(handler, 'Refund both');
    const answer = (callId: string) =>
      request(message([data({ answers: { [callId]: { approved: true } } })], { taskId: id }));
    const first = (await collect(handler.sendMessageStream(answer('1:0'), call()))).map(shortOf);
    expect(first.at(-1)).toBe('status:6');
    expect(first.filter((each) => each === 'status:6')).toHaveLength(2);
    const second = await collect(handler.sendMessageStream(answer('1:1'), call()));
    expect(second.map(shortOf).at(-1)).toBe('status:3');
  });

  it('goes on with what is told besides the answer', async () => {
    const { handler, model } = shop('refund', refund);
    const { id } = await send(handler, 'Refund order 7');
    await send(
      handler,
      message([data({ answers: { '1:0': { approved: true } } }), text('And thank the customer.')], { taskId: id }),
    );
    expect(JSON.stringify(model.calls[1]?.messages)).toContain('And thank the customer.');
  });

  it('is told more in a paused turn, which goes on with it', async () => {
    const asked = gate();
    const { handler, model, agent } = a2aBench({
      steps: [{ toolCalls: [{ name: 'wait' }] }, { text: 'Done.' }],
      agent: { toolProviders: [plainTools({ wait: () => asked.pass() })] },
    });
    const { id } = await send(handler, 'Wait', { returnImmediately: true });
    await asked.reached;
    await agent.pause(id);
    asked.open();
    const waiting = async () => (await handler.getTask({ tenant: '', id, historyLength: 0 }, call())).status?.state;
    while ((await waiting()) !== 6) await new Promise((resolve) => setImmediate(resolve));
    const done = await send(handler, message('Go on, quickly.', { taskId: id }));
    expect(done.status?.state).toBe(3);
    expect(JSON.stringify(model.calls[1]?.messages)).toContain('Go on, quickly.');
  });

  it('is answered while its other calls run', async () => {
    const slow = gate();
    const { handler, model } = a2aBench({
      steps: [{ toolCalls: [{ name: 'refund' }, { name: 'slow' }] }, { text: 'Done.' }],
      agent: { toolProviders: [plainTools({ refund, slow: () => slow.pass() })] },
    });
    const asked = await send(handler, 'Both');
    expect(asked.status?.state).toBe(6);
    await slow.reached;
    const answered = await send(handler, message([data({ approved: true })], { taskId: asked.id }), {
      returnImmediately: true,
    });
    expect(answered.status?.state).toBe(2);
    const stream = handler.resubscribe({ tenant: '', id: asked.id }, call());
    expect(shortOf((await stream.next()).value ?? {})).toBe('task:2');
    slow.open();
    expect((await collect(stream)).map(shortOf).at(-1)).toBe('status:3');
    expect(model.calls).toHaveLength(2);
  });
});

describe('a message to a task that runs', () => {
  it('is told to the model before its next call, once however often it comes', async () => {
    const wait = gate();
    const { handler, model } = a2aBench({
      steps: [{ toolCalls: [{ name: 'wait' }] }, { text: 'Done.' }],
      agent: { toolProviders: [plainTools({ wait: () => wait.pass() })] },
    });
    const { id } = await send(handler, 'Work', { returnImmediately: true });
    await wait.reached;
    const more = message('In French.', { taskId: id });
    await send(handler, more, { returnImmediately: true });
    const done = send(handler, more);
    wait.open();
    expect(await done).toMatchObject({ status: { state: 3 } });
    const told = model.calls[1]?.messages.filter(({ role }) => role === 'user');
    expect(told?.map(({ content }) => content)).toEqual(['Work', 'In French.']);
    expect((await done).history.map(({ messageId }) => messageId)).toContain(more.messageId);
  });
});

it('what extensions take out of messages is not written, whether they start a turn or come to one that runs', async () => {
  const wait = gate();
  const hide = (text: unknown) => String(text).replace('hunter2', '***');
  const { handler, store, model } = a2aBench({
    steps: [{ toolCalls: [{ name: 'wait' }] }, { text: 'Done.' }],
    agent: {
      toolProviders: [plainTools({ wait: () => wait.pass() })],
      extensions: [{ name: 'hide', beforeMessage: (given) => ({ ...given, content: hide(given.content) }) }],
    },
  });
  const post = jest.spyOn(store, 'post');
  const { id } = await send(handler, 'My password is hunter2', { returnImmediately: true });
  await wait.reached;
  await send(handler, message('I said hunter2', { taskId: id }), { returnImmediately: true });
  const stream = handler.resubscribe({ tenant: '', id }, call());
  await stream.next();
  wait.open();
  await collect(stream);
  expect(JSON.stringify(model.calls[1]?.messages)).toContain('I said ***');
  expect(JSON.stringify([await store.read(id), post.mock.calls])).not.toContain('hunter2');
});

describe('tools of the client', () => {
  const camera = { name: 'take_photo', description: 'Takes a photo.', parameters: { type: 'object', properties: {} } };
  const bring = (tools: unknown) => message('A photo', { metadata: { [clientToolsExtension]: { tools } } });
  const steps = [{ toolCalls: [{ name: 'take_photo' }] }, { text: 'Nice.' }];

  it('S1-50 are offered with the message, asked for as input, and answered with what they returned', async () => {
    const store = new InMemoryStateStore();
    const { handler, model } = a2aBench({ steps, store, agent: { toolProviders: [new A2AClientTools()] } });
    const asked = await send(handler, bring([camera]));
    expect(model.calls[0]?.tools?.map((tool) => tool.function.name)).toEqual(['take_photo']);
    expect(asked).toMatchObject({ status: { state: 6 } });
    expect(asked.status?.message?.parts[1]?.content?.value).toMatchObject({ question: { kind: 'client-tool' } });
    const done = await send(
      handler,
      message([data({ answers: { '1:0': { result: 'a cat' } } })], { taskId: asked.id }),
    );
    expect(done.status?.state).toBe(3);
    expect(model.calls[1]?.messages.at(-1)).toMatchObject({ role: 'tool', content: 'a cat' });
  });

  it('are not taken by an agent that does not let clients bring any, nor of a wrong form', async () => {
    const closed = a2aBench({ steps: [{ text: 'No camera.' }] });
    await send(closed.handler, bring([camera]));
    expect(closed.model.calls[0]?.tools ?? []).toEqual([]);
    const open = a2aBench({ steps, agent: { toolProviders: [new A2AClientTools()] } });
    for (const tools of ['camera', [{ name: 'x' }], [camera, camera], Array.from({ length: 51 }, () => camera)])
      expect(await refusal(send(open.handler, bring(tools)))).toMatch(/^RequestMalformedError: /);
  });
});

it('goes on with what a process left that died after the answer was recorded', async () => {
  const store = new InMemoryStateStore();
  const { id } = await send(shop('refund', refund, store).handler, 'Refund order 7');
  await AgentLoop.answer(id, { store, answers: { '1:0': { approved: true } } });
  const model = gate();
  const other = a2aBench({
    steps: [{ gate: model.pass(), text: 'Done elsewhere.' }],
    store,
    agent: { toolProviders: [plainTools({ refund })] },
  });
  expect(await other.handler.recover()).toBe(1);
  expect(await other.handler.recover()).toBe(0);
  const stream = other.handler.resubscribe({ tenant: '', id }, call());
  expect(shortOf((await stream.next()).value ?? {})).toBe('task:2');
  model.open();
  expect((await collect(stream)).map(shortOf).at(-1)).toBe('status:3');
});
