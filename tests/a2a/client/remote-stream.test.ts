import { describe, expect, it } from '@jest/globals';
import { agent, agentTools, type Clock, InMemoryStateStore, systemClock } from 'millrace';
import { remoteAgent, turnExtension } from 'millrace/a2a';
import { agentToolName, ProgressWatch } from 'millrace/internals';
import { fakeClock, gate, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import { textsOf, watch } from '../../core/watch-events.ts';
import { eventually } from '../../eventually.ts';
import {
  answerCanceled,
  answerCompleted,
  answerStream,
  answersAsking,
  connectTo,
  listTask,
  messageIds,
  type WireCall,
  type WireServer,
  wireServers,
  wireStatus,
  wireSubmitted,
  wireTask,
  wireText,
} from './wire-server.ts';

const serving = wireServers();

/** Begins the turn `t` in a process that shuts down with the first text; returns its store. */
async function left(server: WireServer): Promise<InMemoryStateStore> {
  const taskStateStore = new InMemoryStateStore();
  const leaving = new AbortController();
  const far = await connectTo(server, { taskStateStore, shutdown: leaving.signal });
  const turn = far.startTurn('Go.', { taskId: 't' });
  await watch(turn).until('artifact-update');
  leaving.abort();
  await expect(turn.result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
  return taskStateStore;
}

describe('a remote agent follows the stream that its message opens', () => {
  it('sends once, and asks for the task once, at its end', async () => {
    const updates = [wireText('One ', false), wireText('two.'), wireStatus('COMPLETED')];
    const server = await serving({
      SendStreamingMessage: answerStream(...updates),
      GetTask: answerCompleted('One ', 'two.'),
    });
    const turn = (await connectTo(server)).startTurn('Count.');
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
      SendStreamingMessage: answerStream(...updates, wireStatus('COMPLETED')),
      GetTask: answerCompleted('One ', 'two ', 'three.'),
    });
    const turn = (await connectTo(server)).startTurn('Count.');
    const reader = watch(turn);
    expect((await turn.result()).text).toBe('One two three.');
    expect(Object.values(textsOf(reader.events))).toEqual(['One two three.']);
    const anew = reader.of('artifact-update').filter(({ append }) => append === false);
    expect(anew.at(-1)?.artifact.parts).toEqual([{ kind: 'text', text: 'One two three.' }]);
  });

  it('waits for a server that announces the end before it has written it down', async () => {
    let asked = 0;
    const server = await serving({
      SendStreamingMessage: answerStream(wireText('One.', false), wireStatus('COMPLETED')),
      GetTask: (call) => (asked++ === 0 ? call.result(wireTask('WORKING')) : answerCompleted('One.')(call)),
    });
    const turn = (await connectTo(server)).startTurn('Count.');
    const reader = watch(turn);
    expect((await turn.result()).text).toBe('One.');
    expect(Object.values(textsOf(reader.events))).toEqual(['One.']);
    expect(asked).toBe(2);
  });

  it.each([
    ['knows no task any more', (call: WireCall) => call.error(-32001, 'Task not found')],
    ['keeps no artifacts', answerCompleted()],
  ])('counts what was streamed where the server %s', async (_what, GetTask) => {
    const updates = [wireText('One ', false), wireText('two.'), wireStatus('COMPLETED')];
    const server = await serving({ SendStreamingMessage: answerStream(...updates), GetTask });
    expect((await (await connectTo(server)).run('Count.')).text).toBe('One two.');
  });

  it('subscribes where the stream breaks, and sends nothing again', async () => {
    let asked = 0;
    const server = await serving({
      SendStreamingMessage(call) {
        call.events(wireSubmitted, wireText('One ', false));
        setImmediate(call.cut);
      },
      GetTask: (call) =>
        asked++ === 0 ? call.result(wireTask('WORKING', ['One '])) : answerCompleted('One ', 'two ', 'three.')(call),
      SubscribeToTask(call) {
        call.events({ task: wireTask('WORKING', ['One ', 'two ']) }, wireText('three.'), wireStatus('COMPLETED'));
        call.end();
      },
    });
    const turn = (await connectTo(server)).startTurn('Count.');
    const reader = watch(turn);
    expect((await turn.result()).text).toBe('One two three.');
    expect(Object.values(textsOf(reader.events))).toEqual(['One two three.']);
    expect(server.methods).toEqual(['SendStreamingMessage', 'GetTask', 'SubscribeToTask', 'GetTask']);
  });

  it('finds its task by its message where the connection breaks before the first answer', async () => {
    const server = await serving({
      SendStreamingMessage: (call) => call.cut(),
      ListTasks: (call) => listTask(call, messageIds(server)[0]),
      GetTask: answerCompleted('Found.'),
    });
    expect((await (await connectTo(server)).run('Go.')).text).toBe('Found.');
    expect(server.methods).toEqual(['SendStreamingMessage', 'ListTasks', 'GetTask']);
  });

  it('H-13 sends a message again, under its id, to a server of Millrace that went down with it', async () => {
    let sent = 0;
    const server = await serving(
      {
        SendStreamingMessage: (call) =>
          ++sent === 1 ? call.cut() : answerStream(wireText('Back.'), wireStatus('COMPLETED'))(call),
        GetTask: answerCompleted('Back.'),
      },
      { extensions: [turnExtension] },
    );
    expect((await (await connectTo(server)).run('Go.')).text).toBe('Back.');
    expect(server.methods).toEqual(['SendStreamingMessage', 'SendStreamingMessage', 'GetTask']);
    const [first, again] = messageIds(server);
    expect(again).toBe(first);
  });

  it('H-13 asks a server of another kind that went down with a message for its task until it is back, and sends nothing again', async () => {
    let asked = 0;
    const server = await serving({
      SendStreamingMessage: (call) => call.cut(),
      ListTasks(call) {
        if (++asked === 1) return call.cut();
        listTask(call, messageIds(server)[0]);
      },
      GetTask: answerCompleted('Found.'),
    });
    expect((await (await connectTo(server)).run('Go.')).text).toBe('Found.');
    expect(server.methods).toEqual(['SendStreamingMessage', 'ListTasks', 'ListTasks', 'GetTask']);
  });

  it('H-13 sends a message again to a server that says with an error of the protocol that it starts', async () => {
    let sent = 0;
    const server = await serving(
      {
        SendStreamingMessage: (call) =>
          ++sent === 1 ? call.status(503) : answerStream(wireText('Up.'), wireStatus('COMPLETED'))(call),
        GetTask: answerCompleted('Up.'),
      },
      { extensions: [turnExtension] },
    );
    expect((await (await connectTo(server)).run('Go.')).text).toBe('Up.');
    expect(server.methods).toEqual(['SendStreamingMessage', 'SendStreamingMessage', 'GetTask']);
  });

  it('H-13 gives a server up that stays away for silenceMs', async () => {
    const server = await serving({ SendStreamingMessage: (call) => call.cut() }, { extensions: [turnExtension] });
    const sent = () => server.methods.filter((method) => method === 'SendStreamingMessage').length;
    // Each attempt takes 60 ms, however long the machine needs for it.
    const clock: Clock = { now: () => 60 * sent(), schedule: (ms, callback) => systemClock.schedule(ms, callback) };
    const far = await connectTo(server, { silenceMs: 100, clock });
    await expect(far.run('Go.')).rejects.toMatchObject({ code: 'PROVIDER_STREAM_CLOSED' });
    expect(sent()).toBe(2);
  });
});

describe('a remote agent waits with an end', () => {
  it.each(['SUBMITTED', 'WORKING'])(
    'H-13 ends a task that stays %s, names the option and cancels the task',
    async (state) => {
      const server = await serving({
        SendStreamingMessage: (call) => call.events({ task: wireTask(state) }),
        GetTask: (call) => call.result(wireTask(state)),
        CancelTask: answerCanceled,
      });
      const far = await connectTo(server, { taskTimeoutMs: 300, silenceMs: 100 });
      await expect(far.run('Go.')).rejects.toMatchObject({
        code: 'PROVIDER_TIMEOUT',
        reason: 'remote_task_timeout',
        message: `The agent at ${server.url} did not end its task within 300 ms: raise taskTimeoutMs where it may take longer.`,
      });
      expect(server.methods.at(-1)).toBe('CancelTask');
    },
  );

  it('P-13 H-13 ends a task that its server keeps as it is, names the option and cancels the task', async () => {
    const task = wireTask('WORKING', ['Half'], {
      status: { state: 'TASK_STATE_WORKING', timestamp: '2026-11-25T10:00:00Z' },
    });
    const server = await serving({
      SendStreamingMessage: (call) => call.events({ task }),
      GetTask: (call) => call.result(task),
      CancelTask: answerCanceled,
    });
    const far = await connectTo(server, { maxSilenceMs: 400, silenceMs: 100 });
    await expect(far.run('Go.')).rejects.toMatchObject({
      code: 'PROVIDER_TIMEOUT',
      reason: 'remote_task_silent',
      message: `The task of the agent at ${server.url} has not changed for 400 ms: raise maxSilenceMs where it may be silent for longer.`,
    });
    expect(server.methods).toContain('GetTask');
    expect(server.methods.at(-1)).toBe('CancelTask');
  });

  it('P-13 counts silence from the last text or status', () => {
    const clock = fakeClock();
    let fired = 0;
    const watched = new ProgressWatch(clock, 100, () => fired++);
    for (const [status, hasWritten] of [
      ['working 1', false],
      ['working 1', true],
      ['working 2', false],
    ] as const) {
      clock.advance(99);
      watched.note(status, hasWritten);
    }
    clock.advance(50);
    watched.note('working 2', false);
    clock.advance(49);
    expect(fired).toBe(0);
    clock.advance(1);
    expect(fired).toBe(1);
    const ended = new ProgressWatch(clock, 100, () => fired++);
    ended.stop();
    clock.advance(1_000);
    expect(fired).toBe(1);
  });

  it('H-13 gives up a server that never answers a message', async () => {
    const server = await serving({ SendStreamingMessage: () => {} });
    await expect((await connectTo(server, { requestTimeoutMs: 50 })).run('Go.')).rejects.toMatchObject({
      message: expect.stringMatching(/did not answer in time: raise requestTimeoutMs/),
    });
  });

  it('H-13 gives up credentials that never come', async () => {
    const server = await serving({});
    const far = await connectTo(server, { requestTimeoutMs: 50, auth: () => new Promise(() => {}) });
    await expect(far.run('Go.')).rejects.toMatchObject({ message: expect.stringMatching(/requestTimeoutMs/) });
    expect(server.methods).toEqual([]);
  });

  it.each([0, Number.POSITIVE_INFINITY, 2_147_483_648])('refuses a taskTimeoutMs of %d', async (taskTimeoutMs) => {
    await expect(remoteAgent({ url: 'http://far.example', taskTimeoutMs })).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringMatching(/taskTimeoutMs must be milliseconds from 1 to 2147483647/),
    });
  });
});

describe('a remote agent that is cancelled', () => {
  it('cancels a task that begins while its message is on the way', async () => {
    const sent = gate();
    let answer = () => {};
    const server = await serving({
      SendStreamingMessage(call) {
        answer = () => call.events(wireSubmitted);
        sent.open();
      },
      CancelTask: answerCanceled,
    });
    const turn = (await connectTo(server)).startTurn('Go.');
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
      SendStreamingMessage: (call) => call.events(wireSubmitted, wireText('Long', false)),
      CancelTask: (call) => (asked++ === 0 ? call.status(503) : answerCanceled(call)),
    });
    const turn = (await connectTo(server)).startTurn('Go.');
    await watch(turn).until('artifact-update');
    await turn.cancel();
    await eventually(() => asked === 2);
  });
});

describe('a remote agent whose turn nobody runs', () => {
  it('cancels the remote task of a suspended turn, by the journal, before its own end', async () => {
    const taskStateStore = new InMemoryStateStore();
    let before: unknown;
    const server = await serving({
      ...answersAsking,
      CancelTask(call) {
        before = taskStateStore.read('t').at(-1)?.type;
        answerCanceled(call);
      },
    });
    const asked = await (await connectTo(server, { taskStateStore })).run('Go.', { taskId: 't' });
    expect(asked.status).toBe('input-required');
    await (await connectTo(server, { taskStateStore })).cancel('t');
    expect(before).toBe('turn.suspended');
    expect(taskStateStore.read('t').at(-1)).toMatchObject({ type: 'turn.canceled' });
    expect(server.calls.at(-1)).toMatchObject({ method: 'CancelTask', params: { id: 'remote-1' } });
  });

  it('cancels the remote task of a sub-agent whose parent turn is suspended', async () => {
    const server = await serving({ ...answersAsking, CancelTask: answerCanceled });
    const taskStateStore = new InMemoryStateStore();
    const caller = async (steps: readonly ScriptedLLMStep[]) => {
      const far = await connectTo(server, {});
      return agent({ id: 'near', provider: scriptedLLM(steps), taskStateStore, toolProviders: [agentTools([far])] });
    };
    const { id, name } = await connectTo(server, {});
    const near = await caller([{ toolCalls: [{ name: agentToolName({ name }), arguments: { message: 'Go.' } }] }]);
    expect(await near.run('Go.', { taskId: 't' })).toMatchObject({ status: 'input-required' });
    await (await caller([])).cancel('t');
    expect(server.calls.at(-1)).toMatchObject({ method: 'CancelTask', params: { id: 'remote-1' } });
    expect(taskStateStore.load('t:1:0')).toMatchObject({ agentId: id, status: 'canceled' });
  });

  it('cancels the remote task of an orphaned turn, and of one that has ended nothing', async () => {
    const server = await serving({
      SendStreamingMessage: (call) => call.events(wireSubmitted, wireText('One', false)),
      CancelTask: answerCanceled,
    });
    const taskStateStore = await left(server);
    const next = await connectTo(server, { taskStateStore });
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
      SendStreamingMessage: (call) => call.events(wireSubmitted, wireText(shown, false)),
      GetTask: (call) => call.result(wireTask(shown === 'One ' ? 'WORKING' : 'COMPLETED', [shown])),
      SubscribeToTask: (call) => call.events({ task: wireTask('WORKING', [shown]) }),
      CancelTask: answerCanceled,
    });
    const taskStateStore = await left(server);
    shown = 'One two.';
    expect((await (await connectTo(server, { taskStateStore })).resume('t').result()).text).toBe('One two.');
    expect(server.methods).toEqual(['SendStreamingMessage', 'GetTask']);
    const results = taskStateStore.read('t').filter(({ type }) => type === 'tool.result');
    expect(results).toMatchObject([{ content: expect.stringContaining(`"url":"${server.url}"`) }]);
  });

  it('H-13 counts the lifetime of a task from its message, also in the next process', async () => {
    const server = await serving({
      SendStreamingMessage: (call) => call.events(wireSubmitted, wireText('One', false)),
      GetTask: (call) => call.result(wireTask('WORKING')),
      SubscribeToTask: (call) => call.events({ task: wireTask('WORKING') }),
      CancelTask: answerCanceled,
    });
    const taskStateStore = await left(server);
    const clock = { ...systemClock, now: () => Date.now() + 3_600_000 };
    const later = (await connectTo(server, { taskStateStore, clock })).resume('t').result();
    await expect(later).rejects.toMatchObject({ code: 'PROVIDER_TIMEOUT', reason: 'remote_task_timeout' });
    expect(server.methods.at(-1)).toBe('CancelTask');
  });
});
