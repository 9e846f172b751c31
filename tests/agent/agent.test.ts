import { describe, expect, it, jest } from '@jest/globals';
import { agent, type Extension, InMemoryMessageStore, InMemoryStateStore, team } from 'millrace';
import { gate } from 'millrace/testing';
import type { AgentNotice } from 'millrace/types';
import { plainTools } from '../core/plain-tools.ts';
import { ofKind, textsOf, watch } from '../core/watch-events.ts';
import { agentBench, says, user } from './agent-bench.ts';

const on = agentBench();
const count = plainTools({ count: () => 2 });
const countThenSay = [{ toolCalls: [{ name: 'count', id: 'k' }] }, { text: 'Two.' }] as const;

describe('an agent', () => {
  it('S4-06 is made without a call to its provider, its stores or its tools', () => {
    const untouched = (name: string): never => {
      throw new Error(`${name} was called`);
    };
    const messageStore = new InMemoryMessageStore();
    const taskStateStore = new InMemoryStateStore();
    for (const method of ['begin', 'append', 'load'] as const) messageStore[method] = () => untouched(method);
    for (const method of ['create', 'read', 'list'] as const) taskStateStore[method] = () => untouched(method);
    const made = agent({
      id: 'ada',
      name: 'Ada',
      provider: { call: () => untouched('call'), stream: () => untouched('stream') },
      toolProviders: [{ getTools: () => untouched('getTools'), executeTool: () => untouched('executeTool') }],
      messageStore,
      taskStateStore,
    });
    expect(made).toMatchObject({ id: 'ada', name: 'Ada', state: 'created', options: { id: 'ada', name: 'Ada' } });
  });

  it('tells of a detached turn all that it tells of others, and knows that it runs', async () => {
    const open = gate();
    const ada = on.agent([() => ({ gate: open.pass(), text: 'Done.' })]);
    const kinds: string[] = [];
    ada.events$.subscribe(({ kind }) => kinds.push(kind));
    const turn = ada.startTurn('Go', { detached: true });
    expect([ada.isBusy('c'), ada.state]).toEqual([true, 'busy']);
    expect(kinds).toEqual(expect.arrayContaining(['task', 'status-update']));
    expect(() => ada.startTurn('Again')).toThrow('busy');
    open.open();
    await turn.settled;
    expect(kinds).toContain('message:received');
    expect(ada.isBusy('c')).toBe(false);
  });

  it('S1-05 S0-63 S4-07 loads what its context remembers, and saves what the turn added', async () => {
    const messageStore = on.messages();
    const provider = on.bench.model([...countThenSay, { text: 'Twice two.' }]);
    const ada = on.agent([], { provider, messageStore, toolProviders: [count] });
    const turn = ada.startTurn('How many?');
    const reader = watch(turn);
    const { message } = await turn.result();
    expect(message).toEqual(says('Two.'));
    expect(ofKind(reader.events, 'status-update').at(-1)?.status.message?.parts).toEqual([
      { kind: 'text', text: 'Two.' },
    ]);
    const first = [
      user('How many?'),
      { role: 'assistant', content: null, toolCalls: [expect.objectContaining({ id: 'k' })] },
      { role: 'tool', toolCallId: 'k', content: '2' },
      says('Two.'),
    ];
    expect(messageStore.load('c')).toMatchObject({ messages: first, openTurns: [] });
    expect(ada.state).toBe('ready');
    await ada.run('And then?');
    expect(provider.calls[2]?.messages).toEqual([...first, user('And then?')]);
    expect(messageStore.load('c').messages).toEqual([...first, user('And then?'), says('Twice two.')]);
    expect(messageStore.load('another').messages).toEqual([]);
  });

  it.each([
    ['failed', [{ toolCalls: [{ name: 'count', id: 'k' }] }, { error: new Error('no line') }], 'PROVIDER_FAILED'],
    ['stopped at its limit', [{ toolCalls: [{ name: 'count', id: 'k' }] }], 'MAX_ITERATIONS'],
  ])('saves a turn that %s, each call with one result', async (_, steps, code) => {
    const messageStore = on.messages();
    const ada = on.agent(steps, { messageStore, toolProviders: [count], maxIterations: steps.length });
    await expect(ada.run('How many?')).rejects.toMatchObject({ code });
    const roles = messageStore.load('c').messages.map(({ role }) => role);
    expect(roles).toEqual(['user', 'assistant', 'tool']);
    expect(ada.state).toBe('ready');
  });

  it('S0-26 saves a turn that was cancelled, its open call with a result, and runs the next one', async () => {
    const messageStore = on.messages();
    const started = { hold: () => {} };
    const running = new Promise<void>((resolve) => {
      started.hold = resolve;
    });
    const toolProviders = [
      plainTools({
        wait: ({ signal }) => {
          started.hold();
          return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
        },
      }),
    ];
    const steps = [{ toolCalls: [{ name: 'wait', id: 'w' }] }, { text: 'Here.' }];
    const ada = on.agent(steps, { messageStore, toolProviders });
    const turn = ada.startTurn('Wait.', { taskId: 't' });
    const reader = watch(turn);
    await running;
    await ada.cancel('t', 'enough');
    expect(reader.events.at(-1)).toMatchObject({ status: { state: 'canceled' }, reason: 'enough' });
    expect(messageStore.load('c').messages).toMatchObject([
      user('Wait.'),
      { role: 'assistant', toolCalls: [{ id: 'w' }] },
      { role: 'tool', toolCallId: 'w', status: 'error' },
    ]);
    await expect(ada.run('And now?')).resolves.toMatchObject({ status: 'completed', text: 'Here.' });
  });

  it('begins with a history that a model can read, also where somebody saved a call without its result', async () => {
    const messageStore = on.messages();
    const call = { id: 'k', type: 'function' as const, function: { name: 'count', arguments: '{}' } };
    messageStore.append('c', 'before', [user('How many?'), { role: 'assistant', content: null, toolCalls: [call] }]);
    const provider = on.bench.model([{ text: 'Two.' }]);
    await on.agent([], { provider, messageStore }).run('Well?');
    expect(provider.calls[0]?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'user']);
  });

  it('S1-06 goes from created to ready, busy and ready, tells so, and is closed in the end', async () => {
    const ada = on.agent([{ text: 'One.' }, { text: 'Two.' }]);
    const states: string[] = [ada.state];
    ada.on('agent:state', ({ state }) => states.push(state));
    await ada.run('1');
    await ada.run('2');
    await ada.close();
    expect(states).toEqual(['created', 'ready', 'busy', 'ready', 'busy', 'ready', 'closed']);
    expect(() => ada.startTurn('3')).toThrow(expect.objectContaining({ code: 'SHUTDOWN' }));
  });

  it.each<[unknown, object, RegExp]>([
    ['Hello', { contextId: 'ann@example.org' }, /context id "ann@example\.org" is invalid; use 1 to 128/],
    [undefined, {}, /a turn is given a string, a message or an array of messages, not undefined/],
    [[], {}, /a turn is given at least one message, not an empty array; to continue a turn write resume\(taskId\)\.$/],
  ])('refuses a turn of %j with %j at the call, before anything runs', (input, options, message) => {
    const ada = on.agent([]);
    const refused = expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringMatching(message) });
    expect(() => Reflect.apply(ada.startTurn, ada, [input, options])).toThrow(refused);
    expect(ada.state).toBe('ready');
  });

  it('refuses to steer a turn with an empty array', async () => {
    const refused = {
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/at least one message, not an empty array/),
    };
    await expect(on.agent([]).steer('t', [])).rejects.toMatchObject(refused);
  });

  it('refuses listeners of events that nobody tells, naming those there are', () => {
    const ada = on.agent([]);
    const both = team({ agents: [ada] });
    const listens = (target: object, ...given: readonly unknown[]) =>
      Reflect.apply(Reflect.get(target, 'on'), target, given);
    const refused = (message: RegExp) =>
      expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringMatching(message) });
    const listener = () => {};
    expect(() => listens(ada, 'tool:start', listener)).toThrow(refused(/no event "tool:start"; .*internal:tool-start/));
    expect(() => listens(ada, 'toString', listener)).toThrow(refused(/no event "toString"/));
    expect(() => listens(ada, 'task')).toThrow(refused(/the listener must be a function, not undefined/));
    expect(() => listens(both, 'message', listener)).toThrow(refused(/no event "message"; .*message:received/));
  });

  it('cancels what runs when it is closed', async () => {
    const ada = on.agent([{ never: true }]);
    const reader = watch(ada.startTurn('1'));
    await reader.until('internal:llm-call');
    await ada.close();
    expect(reader.events.at(-1)).toMatchObject({ kind: 'status-update', status: { state: 'canceled' } });
    expect(ada.state).toBe('closed');
  });

  it('runs no turn that was given out before it was closed, and subscribed to behind that', async () => {
    const ada = on.agent([]);
    const [one, other] = [ada.startTurn('1', { taskId: 'one' }), ada.startTurn('2', { taskId: 'other' })];
    await ada.close();
    const reader = watch(one);
    await one.settled;
    expect(reader.events.at(-1)).toMatchObject({ status: { state: 'canceled' }, reason: 'the agent is closed' });
    await expect(other.result()).rejects.toMatchObject({ code: 'CANCELED' });
  });

  it('S4-23 sends and saves what a beforeTurn extension made of the message, never the old text', async () => {
    const messageStore = on.messages();
    const provider = on.bench.model([{ text: 'Noted.' }, { text: 'Noted again.' }]);
    const redacting: Extension = {
      name: 'redacting',
      beforeTurn: ({ state }) => ({ given: state.messages.map(() => user('My pin is ****.')) }),
    };
    const ada = on.agent([], { provider, messageStore, extensions: [redacting] });
    await ada.run('My pin is 1234.');
    await ada.run('My pin is 1234.');
    expect(provider.calls[1]?.messages).toEqual([user('My pin is ****.'), says('Noted.'), user('My pin is ****.')]);
    expect(JSON.stringify(messageStore.load('c').messages)).not.toContain('1234');
    expect(messageStore.load('c').total).toBe(4);
  });

  it('S0-04 tells its listeners the events of its turns, as subscribers have them', async () => {
    const ada = on.agent([...countThenSay], { toolProviders: [count] });
    const heard: AgentNotice[] = [];
    const own = ['message:sent', 'message:received', 'agent:state'];
    ada.events$.subscribe((notice) => void heard.push(notice));
    const starts: string[] = [];
    ada.on('internal:tool-start', ({ toolName }) => starts.push(toolName));
    const turn = ada.startTurn('How many?');
    const reader = watch(turn);
    await turn.result();
    expect(heard.filter(({ kind }) => !own.includes(kind))).toEqual(reader.events);
    expect(starts).toEqual(['count']);
  });

  it('S4-29 shows text while the model still writes', async () => {
    let open = () => {};
    const rest = new Promise<void>((resolve) => {
      open = resolve;
    });
    const turn = on.agent([{ text: ['Tw', rest, 'o.'] }]).startTurn('How many?');
    const reader = watch(turn);
    await reader.until('artifact-update');
    expect(textsOf(reader.events)).toEqual({ 'answer-1': 'Tw' });
    expect(reader.of('internal:llm-response')).toEqual([]);
    open();
    await expect(turn.result()).resolves.toMatchObject({ text: 'Two.' });
  });

  it('S4-24 S4-28 tells one message sent before the first request, and one received behind the last answer', async () => {
    const order: string[] = [];
    const look: Extension = {
      name: 'look',
      beforeLLMCall: ({ messages }) => void order.push(`asks ${messages.length}`),
    };
    const steps = [...countThenSay, { error: new Error('no line') }];
    const ada = on.agent(steps, { toolProviders: [count], extensions: [look] });
    ada.on('message:sent', ({ messages }) => order.push(`sent ${JSON.stringify(messages)}`));
    ada.on('message:received', ({ message }) => order.push(`received ${JSON.stringify(message)}`));
    await ada.run('How many?');
    await expect(ada.run('And now?')).rejects.toMatchObject({ code: 'PROVIDER_FAILED' });
    expect(order).toEqual([
      'sent [{"role":"user","content":"How many?"}]',
      'asks 1',
      'asks 3',
      'received {"role":"assistant","content":"Two."}',
      'sent [{"role":"user","content":"And now?"}]',
      'asks 5',
    ]);
  });

  it('S4-22 resolves once with the final message, without a subscriber', async () => {
    const ada = on.agent([...countThenSay], { toolProviders: [count] });
    const resolved: unknown[] = [];
    await ada
      .startTurn('How many?')
      .result()
      .then(({ message, toolCalls }) => resolved.push(message, toolCalls));
    expect(resolved).toEqual([says('Two.'), 1]);
  });

  it('R-20 does not fail for a listener that throws, and logs each error', async () => {
    const errors: unknown[] = [];
    const silent = () => {};
    const logger = {
      debug: silent,
      info: silent,
      warn: silent,
      error: (...given: unknown[]) => void errors.push(given),
    };
    const ada = on.agent([{ text: 'Hi.' }], { logger });
    ada.on('task', () => {
      throw new Error('no');
    });
    ada.on('task', async () => {
      throw new Error('not now');
    });
    await expect(ada.run('Hi')).resolves.toMatchObject({ text: 'Hi.' });
    const fields = { agentId: 'ada', kind: 'task' };
    expect(errors).toEqual([
      ['listener failed', { ...fields, error: 'no' }],
      ['listener failed', { ...fields, error: 'not now' }],
    ]);
  });

  it('R-20 warns once of a listener that throws where there is no logger', async () => {
    const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const ada = on.agent([{ text: 'Hi.' }, { text: 'Hi.' }]);
    ada.on('task', () => {
      throw new Error('no');
    });
    await ada.run('Hi');
    await ada.run('Hi');
    const calls = [...warn.mock.calls];
    warn.mockRestore();
    expect(calls).toEqual([
      [
        'A listener (agentId ada, kind task) failed: no',
        { code: 'MILLRACE_LISTENER', detail: expect.stringContaining('Error: no') },
      ],
    ]);
  });

  it('S2-07 adds up what its turns took, unless that is off', async () => {
    const usage = { promptTokens: 3, completionTokens: 2, totalTokens: 5 };
    const steps = [
      { text: 'One.', usage },
      { text: 'Two.', usage },
    ];
    const ada = on.agent(steps);
    await ada.run('1');
    await ada.run('2');
    const sum = { promptTokens: 6, completionTokens: 4, totalTokens: 10 };
    expect(ada.usage).toEqual({ turns: 2, iterations: 2, toolCalls: 0, usage: sum });
    const silent = on.agent([steps[0] as { text: string }], { enableUsageTracking: false });
    await silent.run('1');
    expect(silent.usage).toBeUndefined();
  });
});
