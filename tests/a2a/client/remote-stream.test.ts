import { afterEach, describe, expect, it } from '@jest/globals';
import { remoteAgent } from '../../../src/a2a/client/remote-agent.ts';
import type { RemoteAgentOptions } from '../../../src/a2a/client/remote-options.ts';
import { turnExtension } from '../../../src/a2a/extensions.ts';
import { type Agent, agent } from '../../../src/agent/agent.ts';
import { agentToolName, agentTools } from '../../../src/agent/agent-tools.ts';
import { systemClock } from '../../../src/core/clock.ts';
import { InMemoryStateStore } from '../../../src/stores/memory/in-memory-state-store.ts';
import { gate } from '../../../src/testing/gate.ts';
import type { ScriptedLLMStep } from '../../../src/testing/llm-step.ts';
import { scriptedLLM } from '../../../src/testing/scripted-llm.ts';
import { textsOf, watch } from '../../core/watch-events.ts';
import { eventually } from '../../eventually.ts';
import {
  type WireCall,
  type WireServer,
  type WireServerOptions,
  wireServer,
  wireStatus,
  wireTask,
  wireText,
} from './wire-server.ts';

type Json = Readonly<Record<string, unknown>>;

const open: WireServer[] = [];
afterEach(async () => {
  // No turn leaves a stream open behind it.
  await eventually(() => open.every((server) => server.open() === 0));
  await Promise.all(open.splice(0).map((server) => server.close()));
});

async function serving(
  answers: WireServerOptions['answers'],
  options: Partial<WireServerOptions> = {},
): Promise<WireServer> {
  const server = await wireServer({ answers, ...options });
  open.push(server);
  return server;
}

const connect = ({ url }: WireServer, options: Partial<RemoteAgentOptions> = {}): Promise<Agent> =>
  remoteAgent({ url, id: 'far', name: 'far', description: 'Far away.', contextId: 'c', ...options });

const submitted = { task: wireTask('SUBMITTED') };
const canceled = (call: WireCall) => call.result(wireTask('CANCELED'));
/** Streams these updates behind the task, and ends. */
const streaming =
  (...updates: readonly Json[]) =>
  (call: WireCall) => {
    call.events(submitted, wireStatus('WORKING'), ...updates);
    call.end();
  };
const completed =
  (...texts: readonly string[]) =>
  (call: WireCall) =>
    call.result(wireTask('COMPLETED', texts));

describe('a remote agent follows the stream that its message opens', () => {
  it('sends once, and asks for the task once, at its end', async () => {
    const updates = [wireText('One ', false), wireText('two.'), wireStatus('COMPLETED')];
    const server = await serving({
      SendStreamingMessage: streaming(...updates),
      GetTask: completed('One ', 'two.'),
    });
    const turn = (await connect(server)).startTurn('Count.');
    const reader = watch(turn);
    expect((await turn.result()).text).toBe('One two.');
    // The first chunk opens the artifact, the last one closes it.
    expect(reader.of('artifact-update').map(({ append }) => append)).toEqual([false, true, true]);
    expect(server.methods).toEqual(['SendStreamingMessage', 'GetTask']);
  });

  it.each([
    ['lost', [wireText('One ', false), wireText('three.')]],
    ['doubled', [wireText('One ', false), wireText('two '), wireText('two '), wireText('three.')]],
  ])('shows the whole text anew, not appended, where a word was %s on the way', async (_what, updates) => {
    const server = await serving({
      SendStreamingMessage: streaming(...updates, wireStatus('COMPLETED')),
      GetTask: completed('One ', 'two ', 'three.'),
    });
    const turn = (await connect(server)).startTurn('Count.');
    const reader = watch(turn);
    expect((await turn.result()).text).toBe('One two three.');
    expect(Object.values(textsOf(reader.events))).toEqual(['One two three.']);
    const anew = reader.of('artifact-update').filter(({ append }) => append === false);
    expect(anew.at(-1)?.artifact.parts).toEqual([{ kind: 'text', text: 'One two three.' }]);
  });

  it('waits for a server that announces the end before it has written it down', async () => {
    let asked = 0;
    const server = await serving({
      SendStreamingMessage: streaming(wireText('One.', false), wireStatus('COMPLETED')),
      GetTask: (call) => (asked++ === 0 ? call.result(wireTask('WORKING')) : completed('One.')(call)),
    });
    const turn = (await connect(server)).startTurn('Count.');
    const reader = watch(turn);
    expect((await turn.result()).text).toBe('One.');
    expect(Object.values(textsOf(reader.events))).toEqual(['One.']);
    expect(asked).toBe(2);
  });

  it.each([
    ['knows no task any more', (call: WireCall) => call.error(-32001, 'Task not found')],
    ['keeps no artifacts', completed()],
  ])('counts what was streamed where the server %s', async (_what, GetTask) => {
    const updates = [wireText('One ', false), wireText('two.'), wireStatus('COMPLETED')];
    const server = await serving({ SendStreamingMessage: streaming(...updates), GetTask });
    expect((await (await connect(server)).run('Count.')).text).toBe('One two.');
  });

  it('subscribes where the stream breaks, and sends nothing again', async () => {
    let asked = 0;
    const server = await serving({
      SendStreamingMessage(call) {
        call.events(submitted, wireText('One ', false));
        setImmediate(call.cut);
      },
      GetTask: (call) =>
        asked++ === 0 ? call.result(wireTask('WORKING', ['One '])) : completed('One ', 'two ', 'three.')(call),
      SubscribeToTask(call) {
        call.events({ task: wireTask('WORKING', ['One ', 'two ']) }, wireText('three.'), wireStatus('COMPLETED'));
        call.end();
      },
    });
    const turn = (await connect(server)).startTurn('Count.');
    const reader = watch(turn);
    expect((await turn.result()).text).toBe('One two three.');
    expect(Object.values(textsOf(reader.events))).toEqual(['One two three.']);
    expect(server.methods).toEqual(['SendStreamingMessage', 'GetTask', 'SubscribeToTask', 'GetTask']);
  });

  it('finds its task by its message where the connection breaks before the first answer', async () => {
    const server = await serving({
      SendStreamingMessage: (call) => call.cut(),
      ListTasks(call) {
        const [sent] = server.calls;
        const history = [{ ...Object(sent?.params['message']), role: 'ROLE_USER' }];
        call.result({ tasks: [wireTask('WORKING', [], { history })], nextPageToken: '', pageSize: 1, totalSize: 1 });
      },
      GetTask: completed('Found.'),
    });
    expect((await (await connect(server)).run('Go.')).text).toBe('Found.');
    expect(server.methods).toEqual(['SendStreamingMessage', 'ListTasks', 'GetTask']);
  });

  it('H-13 sends a message again, under its id, to a server of Millrace that went down with it', async () => {
    let sent = 0;
    const server = await serving(
      {
        SendStreamingMessage: (call) =>
          ++sent === 1 ? call.cut() : streaming(wireText('Back.'), wireStatus('COMPLETED'))(call),
        GetTask: completed('Back.'),
      },
      { extensions: [turnExtension] },
    );
    expect((await (await connect(server)).run('Go.')).text).toBe('Back.');
    expect(server.methods).toEqual(['SendStreamingMessage', 'SendStreamingMessage', 'GetTask']);
    const [first, again] = server.calls.map(({ params }) => Object(params['message']).messageId);
    expect(again).toBe(first);
  });

  it('H-13 asks a server of another kind that went down with a message for its task until it is back, and sends nothing again', async () => {
    let asked = 0;
    const server = await serving({
      SendStreamingMessage: (call) => call.cut(),
      ListTasks(call) {
        if (++asked === 1) return call.cut();
        const history = [{ ...Object(server.calls[0]?.params['message']), role: 'ROLE_USER' }];
        call.result({ tasks: [wireTask('WORKING', [], { history })], nextPageToken: '', pageSize: 1, totalSize: 1 });
      },
      GetTask: completed('Found.'),
    });
    expect((await (await connect(server)).run('Go.')).text).toBe('Found.');
    expect(server.methods).toEqual(['SendStreamingMessage', 'ListTasks', 'ListTasks', 'GetTask']);
  });

  it('H-13 sends a message again to a server that says with an error of the protocol that it starts', async () => {
    let sent = 0;
    const server = await serving(
      {
        SendStreamingMessage: (call) =>
          ++sent === 1 ? call.status(503) : streaming(wireText('Up.'), wireStatus('COMPLETED'))(call),
        GetTask: completed('Up.'),
      },
      { extensions: [turnExtension] },
    );
    expect((await (await connect(server)).run('Go.')).text).toBe('Up.');
    expect(server.methods).toEqual(['SendStreamingMessage', 'SendStreamingMessage', 'GetTask']);
  });

  it('H-13 gives a server up that stays away for silenceMs', async () => {
    const server = await serving({ SendStreamingMessage: (call) => call.cut() }, { extensions: [turnExtension] });
    const far = await connect(server, { silenceMs: 100 });
    await expect(far.run('Go.')).rejects.toMatchObject({ code: 'PROVIDER_STREAM_CLOSED' });
    expect(server.methods.filter((method) => method === 'SendStreamingMessage').length).toBe(2);
  });

  it('asks without a stream where the server does not know that method', async () => {
    const server = await serving({
      SendMessage: (call) => call.result({ task: wireTask('COMPLETED', ['Plain.']) }),
      GetTask: completed('Plain.'),
    });
    expect((await (await connect(server)).run('Go.')).text).toBe('Plain.');
    expect(server.methods.slice(0, 2)).toEqual(['SendStreamingMessage', 'SendMessage']);
  });
});

describe('a remote agent waits with an end', () => {
  it.each(['SUBMITTED', 'WORKING'])(
    'H-13 ends a task that stays %s, names the option and cancels the task',
    async (state) => {
      const server = await serving({
        SendStreamingMessage: (call) => call.events({ task: wireTask(state) }),
        GetTask: (call) => call.result(wireTask(state)),
        CancelTask: canceled,
      });
      const far = await connect(server, { taskTimeoutMs: 300, silenceMs: 100 });
      await expect(far.run('Go.')).rejects.toMatchObject({
        code: 'PROVIDER_TIMEOUT',
        reason: 'remote_task_timeout',
        message: `The agent at ${server.url} did not end its task within 300 ms: raise taskTimeoutMs where it may take longer.`,
      });
      expect(server.methods.at(-1)).toBe('CancelTask');
    },
  );

  it('H-13 gives up a server that never answers a message', async () => {
    const server = await serving({ SendStreamingMessage: () => {} });
    await expect((await connect(server, { requestTimeoutMs: 50 })).run('Go.')).rejects.toMatchObject({
      message: expect.stringMatching(/did not answer in time: raise requestTimeoutMs/),
    });
  });

  it('H-13 gives up credentials that never come', async () => {
    const server = await serving({});
    const far = await connect(server, { requestTimeoutMs: 50, auth: () => new Promise(() => {}) });
    await expect(far.run('Go.')).rejects.toMatchObject({ message: expect.stringMatching(/requestTimeoutMs/) });
    expect(server.methods).toEqual([]);
  });

  it.each([0, Number.POSITIVE_INFINITY, 2_147_483_648])('refuses a taskTimeoutMs of %d', async (taskTimeoutMs) => {
    await expect(remoteAgent({ url: 'http://far.example', taskTimeoutMs })).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringMatching(/taskTimeoutMs must be a number above 0 and at most 2147483647/),
    });
  });
});

describe('a remote agent that is cancelled', () => {
  it('cancels a task that begins while its message is on the way', async () => {
    const sent = gate();
    let answer = () => {};
    const server = await serving({
      SendStreamingMessage(call) {
        answer = () => call.events(submitted);
        sent.open();
      },
      CancelTask: canceled,
    });
    const turn = (await connect(server)).startTurn('Go.');
    watch(turn);
    await sent.pass();
    const over = turn.cancel();
    answer();
    await over;
    expect(server.methods).toEqual(['SendStreamingMessage', 'CancelTask']);
    expect(server.calls[1]?.params).toMatchObject({ id: 'remote-1' });
  });

  it('cancels again while the server is away', async () => {
    let asked = 0;
    const server = await serving({
      SendStreamingMessage: (call) => call.events(submitted, wireText('Long', false)),
      CancelTask: (call) => (asked++ === 0 ? call.status(503) : canceled(call)),
    });
    const turn = (await connect(server)).startTurn('Go.');
    await watch(turn).until('artifact-update');
    await turn.cancel();
    await eventually(() => asked === 2);
  });
});

describe('a remote agent whose turn nobody runs', () => {
  const parts = [{ text: 'Which one?' }];
  const message = { messageId: 'asked', role: 'ROLE_AGENT', parts };
  const asking = wireTask('INPUT_REQUIRED', [], { status: { state: 'TASK_STATE_INPUT_REQUIRED', message } });

  it('cancels the remote task of a suspended turn, by the journal, before its own end', async () => {
    const taskStateStore = new InMemoryStateStore();
    let before: unknown;
    const server = await serving({
      SendStreamingMessage(call) {
        call.events({ task: asking });
        call.end();
      },
      GetTask: (call) => call.result(asking),
      CancelTask(call) {
        before = taskStateStore.read('t').at(-1)?.type;
        canceled(call);
      },
    });
    const asked = await (await connect(server, { taskStateStore })).run('Go.', { taskId: 't' });
    expect(asked.status).toBe('input-required');
    await (await connect(server, { taskStateStore })).cancel('t');
    expect(before).toBe('turn.suspended');
    expect(taskStateStore.read('t').at(-1)).toMatchObject({ type: 'turn.canceled' });
    expect(server.calls.at(-1)).toMatchObject({ method: 'CancelTask', params: { id: 'remote-1' } });
  });

  it('cancels the remote task of a sub-agent whose parent turn is suspended', async () => {
    const server = await serving({
      SendStreamingMessage(call) {
        call.events({ task: asking });
        call.end();
      },
      GetTask: (call) => call.result(asking),
      CancelTask: canceled,
    });
    const taskStateStore = new InMemoryStateStore();
    const caller = async (steps: readonly ScriptedLLMStep[]) => {
      const far = await connect(server, {});
      return agent({ id: 'near', provider: scriptedLLM(steps), taskStateStore, toolProviders: [agentTools([far])] });
    };
    const { id, name } = await connect(server, {});
    const near = await caller([{ toolCalls: [{ name: agentToolName({ name }), arguments: { message: 'Go.' } }] }]);
    expect(await near.run('Go.', { taskId: 't' })).toMatchObject({ status: 'input-required' });
    await (await caller([])).cancel('t');
    expect(server.calls.at(-1)).toMatchObject({ method: 'CancelTask', params: { id: 'remote-1' } });
    expect(taskStateStore.load('t:1:0')).toMatchObject({ agentId: id, status: 'canceled' });
  });

  it('cancels the remote task of an orphaned turn, and of one that has ended nothing', async () => {
    const server = await serving({
      SendStreamingMessage: (call) => call.events(submitted, wireText('One', false)),
      CancelTask: canceled,
    });
    const taskStateStore = new InMemoryStateStore();
    const leaving = new AbortController();
    const far = await connect(server, { taskStateStore, shutdown: leaving.signal });
    const turn = far.startTurn('Go.', { taskId: 't' });
    await watch(turn).until('artifact-update');
    leaving.abort();
    await expect(turn.result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
    const next = await connect(server, { taskStateStore });
    await next.cancel('t');
    await next.cancel('t');
    expect(server.methods).toEqual(['SendStreamingMessage', 'CancelTask']);
    expect(taskStateStore.read('t').at(-1)).toMatchObject({ type: 'turn.canceled' });
  });
});

describe('a remote agent whose process shuts down', () => {
  it('leaves the remote task, which the next process follows', async () => {
    let shown = 'One ';
    const server = await serving({
      SendStreamingMessage: (call) => call.events(submitted, wireText(shown, false)),
      GetTask: (call) => call.result(wireTask(shown === 'One ' ? 'WORKING' : 'COMPLETED', [shown])),
      SubscribeToTask: (call) => call.events({ task: wireTask('WORKING', [shown]) }),
      CancelTask: canceled,
    });
    const taskStateStore = new InMemoryStateStore();
    const leaving = new AbortController();
    const turn = (await connect(server, { taskStateStore, shutdown: leaving.signal })).startTurn('Go.', {
      taskId: 't',
    });
    await watch(turn).until('artifact-update');
    leaving.abort();
    await expect(turn.result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
    shown = 'One two.';
    expect((await (await connect(server, { taskStateStore })).resume('t').result()).text).toBe('One two.');
    expect(server.methods).toEqual(['SendStreamingMessage', 'GetTask']);
    const results = taskStateStore.read('t').filter(({ type }) => type === 'tool.result');
    expect(results).toMatchObject([{ content: expect.stringContaining(`"url":"${server.url}"`) }]);
  });

  it('H-13 counts the lifetime of a task from its message, also in the next process', async () => {
    const server = await serving({
      SendStreamingMessage: (call) => call.events(submitted, wireText('One', false)),
      GetTask: (call) => call.result(wireTask('WORKING')),
      SubscribeToTask: (call) => call.events({ task: wireTask('WORKING') }),
      CancelTask: canceled,
    });
    const taskStateStore = new InMemoryStateStore();
    const leaving = new AbortController();
    const turn = (await connect(server, { taskStateStore, shutdown: leaving.signal })).startTurn('Go.', {
      taskId: 't',
    });
    await watch(turn).until('artifact-update');
    leaving.abort();
    await expect(turn.result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
    const clock = { ...systemClock, now: () => Date.now() + 3_600_000 };
    const later = (await connect(server, { taskStateStore, clock })).resume('t').result();
    await expect(later).rejects.toMatchObject({ code: 'PROVIDER_TIMEOUT', reason: 'remote_task_timeout' });
    expect(server.methods.at(-1)).toBe('CancelTask');
  });
});

describe('a remote agent whose process stops while its message is on the way', () => {
  const page = (...tasks: readonly object[]) => ({ tasks, nextPageToken: '', pageSize: 100, totalSize: tasks.length });
  const history = (messageId: unknown) => [{ messageId, role: 'ROLE_USER', parts: [{ text: 'Go.' }] }];

  interface Left {
    readonly server: WireServer;
    readonly taskStateStore: InMemoryStateStore;
    /** The ids of the messages that came. */
    readonly sent: () => readonly unknown[];
  }

  /** Leaves a turn whose message is not answered. */
  async function left(
    listTasks: ((call: WireCall, messageId: unknown) => void) | undefined,
    more: Partial<WireServerOptions> = {},
  ): Promise<Left> {
    const received = gate();
    let isFirst = true;
    const sent = () =>
      server.calls
        .filter(({ method }) => method === 'SendStreamingMessage')
        .map(({ params }) => Object(params['message']).messageId);
    const server = await serving(
      {
        SendStreamingMessage(call) {
          if (isFirst) received.open();
          else streaming(wireText('Done.', false), wireStatus('COMPLETED'))(call);
          isFirst = false;
        },
        GetTask: completed('Done.'),
        CancelTask: canceled,
        ...(listTasks && { ListTasks: (call: WireCall) => listTasks(call, sent()[0]) }),
      },
      more,
    );
    const taskStateStore = new InMemoryStateStore();
    const leaving = new AbortController();
    const first = await connect(server, { taskStateStore, shutdown: leaving.signal, abortGraceMs: 20 });
    const turn = first.startTurn('Go.', { taskId: 't' });
    watch(turn);
    await received.pass();
    leaving.abort();
    await expect(turn.result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
    return { server, taskStateStore, sent };
  }

  /** What another process makes of it. */
  async function resumed(
    listTasks: ((call: WireCall, messageId: unknown) => void) | undefined,
    options: Partial<RemoteAgentOptions> = {},
    more: Partial<WireServerOptions> = {},
  ): Promise<Left & { readonly outcome: Promise<unknown> }> {
    const turn = await left(listTasks, more);
    const far = await connect(turn.server, { taskStateStore: turn.taskStateStore, ...options });
    const outcome = far.resume('t').result();
    outcome.catch(() => {});
    return { ...turn, outcome };
  }

  it('is cancelled there, by its message, where its turn is cancelled', async () => {
    const { server, taskStateStore } = await left((call, messageId) =>
      call.result(page(wireTask('WORKING', [], { history: history(messageId) }))),
    );
    await (await connect(server, { taskStateStore })).cancel('t');
    expect(server.calls.at(-1)).toMatchObject({ method: 'CancelTask', params: { id: 'remote-1' } });
    expect(taskStateStore.read('t').at(-1)).toMatchObject({ type: 'turn.canceled' });
  });

  it('follows the task that the server has of that message', async () => {
    const { outcome, sent } = await resumed((call, messageId) =>
      call.result(page(wireTask('WORKING', [], { history: history(messageId) }))),
    );
    await expect(outcome).resolves.toMatchObject({ text: 'Done.' });
    expect(sent()).toHaveLength(1);
  });

  it('sends the message again, under its id, where the server has no task of it', async () => {
    const { outcome, sent } = await resumed((call) =>
      call.result(page(wireTask('COMPLETED', [], { history: history('another') }))),
    );
    await expect(outcome).resolves.toMatchObject({ text: 'Done.' });
    expect(sent()).toEqual([sent()[0], sent()[0]]);
  });

  it.each([
    ['lists no tasks', undefined],
    ['keeps no messages', (call: WireCall) => call.result(page(wireTask('WORKING')))],
  ])('fails with OUTCOME_UNKNOWN where the server %s, and sends nothing again', async (_what, listTasks) => {
    const { outcome, sent } = await resumed(listTasks);
    await expect(outcome).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' });
    expect(sent()).toHaveLength(1);
  });

  it("sends again, under the same id, with onInDoubt: 'retry'", async () => {
    const { outcome, sent } = await resumed(undefined, { onInDoubt: 'retry' });
    await expect(outcome).resolves.toMatchObject({ text: 'Done.' });
    expect(sent()).toEqual([sent()[0], sent()[0]]);
  });

  it('sends again, under the same id, to a server of Millrace, which takes a message once', async () => {
    const { outcome, server, sent } = await resumed(undefined, {}, { extensions: [turnExtension] });
    await expect(outcome).resolves.toMatchObject({ text: 'Done.' });
    expect(sent()).toEqual([sent()[0], sent()[0]]);
    expect(server.methods).not.toContain('ListTasks');
  });
});
