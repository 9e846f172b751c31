import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Agent, type Clock, InMemoryStateStore, systemClock } from 'millrace';
import { type RemoteAgentOptions, turnExtension } from 'millrace/a2a';
import { fakeClock, gate } from 'millrace/testing';
import {
  type Away,
  answerCanceled,
  answerCompleted,
  answerStream,
  answersAsking,
  connectTo,
  listTask,
  messageIds,
  type WireAnswers,
  type WireCall,
  type WireServer,
  type WireServerOptions,
  wireAsking,
  wireServers,
  wireStatus,
  wireSubmitted,
  wireTask,
  wireText,
} from '../a2a/client/wire-server.ts';
import { watch } from '../core/watch-events.ts';
import { eventually } from '../eventually.ts';

const serving = wireServers();
/** Waits a tenth as long, so that the pauses between two attempts are short. */
const hurried: Clock = { ...systemClock, schedule: (ms, callback) => systemClock.schedule(ms / 10, callback) };
/** The same, but what is given up after ten seconds is not given up. */
const tireless: Clock = {
  ...hurried,
  schedule: (ms, callback) => (ms < 10_000 ? hurried.schedule(ms, callback) : () => {}),
};
/** Of one request, ten times as long as it is waited: only a server that says nothing is to be given up, not a machine that is slow. */
const patientMs = 60_000;
const impatientMs = 5_000;
let requestTimeoutMs = patientMs;
const connect = (server: WireServer, options: Partial<RemoteAgentOptions> = {}): Promise<Agent> =>
  connectTo(server, { requestTimeoutMs, clock: hurried, ...options });

const completed = answerCompleted('One two.');

/** Counts the requests of one agent, those that reach nobody too. */
function counted() {
  let requests = 0;
  const auth = () => {
    requests++;
    return {};
  };
  return { auth, requests: () => requests };
}

/** Begins the turn `t` in a process that shuts down once it is `told`. */
async function left(server: WireServer, taskStateStore: InMemoryStateStore, told?: Promise<void>): Promise<void> {
  const leaving = new AbortController();
  const first = await connect(server, { taskStateStore, shutdown: leaving.signal, abortGraceMs: 200 });
  const turn = first.startTurn('Go.', { taskId: 't' });
  const reader = watch(turn);
  await (told ?? reader.until('artifact-update'));
  leaving.abort();
  await expect(turn.result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
}

/** A server that does not answer the first message. */
async function deaf(
  more: WireAnswers,
  options: Partial<WireServerOptions> = {},
): Promise<{ readonly server: WireServer; readonly received: Promise<void> }> {
  const received = gate();
  let isFirst = true;
  const server: WireServer = await serving(
    {
      SendStreamingMessage(call) {
        if (!isFirst) {
          call.events(wireSubmitted, wireText('One two.', false), wireStatus('COMPLETED'));
          return call.end();
        }
        isFirst = false;
        received.open();
      },
      ListTasks: (call) => listTask(call, messageIds(server)[0]),
      GetTask: completed,
      CancelTask: answerCanceled,
      ...more,
    },
    options,
  );
  return { server, received: received.pass() };
}

describe.each<Away>(['down', 'HTTP 503', 'silent'])('H-13 a remote agent whose server is %s', (how) => {
  beforeEach(() => {
    requestTimeoutMs = how === 'silent' ? impatientMs : patientMs;
  });
  afterEach(() => {
    requestTimeoutMs = patientMs;
  });

  it('is followed by a process that begins meanwhile', async () => {
    const server = await serving({
      SendStreamingMessage: (call) => call.events(wireSubmitted, wireText('One ', false)),
      GetTask: completed,
    });
    const taskStateStore = new InMemoryStateStore();
    await left(server, taskStateStore);
    await server.leave(how);
    const { auth, requests } = counted();
    const resumed = (await connect(server, { taskStateStore, auth })).resume('t').result();
    await eventually(() => requests() > 2);
    await server.back();
    expect(await resumed).toMatchObject({ status: 'completed', text: 'One two.' });
  });

  it.each([
    ['of Millrace', [turnExtension]],
    ['of another kind', []],
  ])('is asked for a message in doubt until it is back: %s', async (_what, extensions) => {
    const { server, received } = await deaf({}, { extensions });
    const taskStateStore = new InMemoryStateStore();
    await left(server, taskStateStore, received);
    await server.leave(how);
    const { auth, requests } = counted();
    const resumed = (await connect(server, { taskStateStore, auth })).resume('t').result();
    await eventually(() => requests() > 2);
    await server.back();
    expect(await resumed).toMatchObject({ status: 'completed', text: 'One two.' });
    expect(new Set(messageIds(server)).size).toBe(1);
  });

  it('gets the answer to its question once it is back', async () => {
    let isAnswered = false;
    const server = await serving(
      {
        ...answersAsking,
        SendMessage(call) {
          isAnswered = true;
          call.result({ task: wireTask('WORKING') });
        },
        GetTask: (call) => (isAnswered ? completed(call) : call.result(wireAsking)),
      },
      { extensions: [turnExtension] },
    );
    const taskStateStore = new InMemoryStateStore();
    const { auth, requests } = counted();
    const far = await connect(server, { taskStateStore, auth });
    const { questions } = await far.run('Go.', { taskId: 't' });
    await server.leave(how);
    const before = requests();
    const resumed = far.resume('t', { answers: { [questions[0]?.id ?? '']: 'This.' } }).result();
    await eventually(() => requests() > before + 2);
    await server.back();
    expect(await resumed).toMatchObject({ status: 'completed', text: 'One two.' });
  });

  it('is told of a cancel once it is back', async () => {
    const server = await serving({
      SendStreamingMessage: (call) => call.events(wireSubmitted, wireText('One ', false)),
      CancelTask: answerCanceled,
    });
    const { auth, requests } = counted();
    const turn = (await connect(server, { auth, clock: tireless })).startTurn('Go.');
    await watch(turn).until('artifact-update');
    await server.leave(how);
    const over = turn.cancel();
    const before = requests();
    await eventually(() => requests() > before + 2);
    await server.back();
    await over;
    expect(server.methods.at(-1)).toBe('CancelTask');
  });

  it('keeps no cancel waiting where nothing was sent to it', async () => {
    const server = await serving({});
    await server.leave(how);
    const { auth, requests } = counted();
    // Its time stands still: whatever waits for the server waits for ever.
    const far = await connect(server, { auth, clock: fakeClock() });
    const turn = far.startTurn('Go.');
    const { ended } = watch(turn);
    await eventually(() => (how === 'down' ? requests() : server.missed()) > 0);
    await turn.cancel();
    await ended;
    expect(server.methods).toEqual([]);
    // The request for the card was aborted with the turn that waited for it.
    await eventually(() => server.open() === 0);
  });

  it('is told of the cancel of a suspended turn once it is back', async () => {
    const server = await serving({ ...answersAsking, CancelTask: answerCanceled });
    const taskStateStore = new InMemoryStateStore();
    await (await connect(server, { taskStateStore })).run('Go.', { taskId: 't' });
    await server.leave(how);
    const { auth, requests } = counted();
    const over = (await connect(server, { taskStateStore, auth, clock: tireless })).cancel('t');
    await eventually(() => requests() > 2);
    await server.back();
    await over;
    expect(server.methods.at(-1)).toBe('CancelTask');
    expect(taskStateStore.read('t').at(-1)).toMatchObject({ type: 'turn.canceled' });
  });

  it('is told of the cancel of a turn whose message is in doubt', async () => {
    const { server, received } = await deaf({});
    const taskStateStore = new InMemoryStateStore();
    await left(server, taskStateStore, received);
    await server.leave(how);
    const { auth, requests } = counted();
    const resumed = (await connect(server, { taskStateStore, auth, clock: tireless })).resume('t');
    watch(resumed);
    await eventually(() => requests() > 2);
    const over = resumed.cancel();
    const before = requests();
    await eventually(() => requests() > before + 1);
    await server.back();
    await over;
    expect(server.calls.at(-1)).toMatchObject({ method: 'CancelTask', params: { id: 'remote-1' } });
    expect(taskStateStore.read('t').at(-1)).toMatchObject({ type: 'turn.canceled' });
  });

  it('is asked for a message in doubt by the third process, where the second shut down meanwhile', async () => {
    const { server, received } = await deaf({});
    const taskStateStore = new InMemoryStateStore();
    await left(server, taskStateStore, received);
    await server.leave(how);
    const { auth, requests } = counted();
    const leaving = new AbortController();
    const second = await connect(server, { taskStateStore, auth, shutdown: leaving.signal, abortGraceMs: 200 });
    const resumed = second.resume('t').result();
    resumed.catch(() => {});
    await eventually(() => requests() > 2);
    leaving.abort();
    await expect(resumed).rejects.toMatchObject({ code: 'SHUTDOWN' });
    await server.back();
    const third = await connect(server, { taskStateStore });
    expect(await third.resume('t').result()).toMatchObject({ status: 'completed', text: 'One two.' });
  });
});

describe('H-13 a remote agent whose server is away', () => {
  const never = () => {};
  const working = (call: WireCall) => call.result(wireTask('WORKING', ['One ']));

  it('is asked for silenceMs from the first request in vain, not from what the task said last', async () => {
    let passedMs = 0;
    const clock = { ...hurried, now: () => Date.now() + passedMs };
    const subscribed = gate();
    const server = await serving({
      SendStreamingMessage(call) {
        call.events(wireSubmitted, wireText('One ', false));
        call.end();
      },
      GetTask: (call) => (passedMs === 0 ? working : completed)(call),
      SubscribeToTask(call) {
        call.events({ task: wireTask('WORKING', ['One ']) }, wireText('t'));
        subscribed.open();
      },
    });
    const { auth, requests } = counted();
    const turn = (await connect(server, { clock, auth })).startTurn('Go.');
    const reader = watch(turn);
    await subscribed.pass();
    await reader.until('artifact-update', ({ artifact }) => JSON.stringify(artifact.parts).includes('"t"'));
    // For so long the task has nothing to say.
    passedMs = 120_000;
    const before = requests();
    await server.leave('down');
    await eventually(() => requests() > before + 2);
    await server.back();
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'One two.' });
  });

  it('is not waited for by a process that shuts down, once the message had its time', async () => {
    const { server, received } = await deaf({});
    const leaving = new AbortController();
    const clock = fakeClock({ startAt: Date.now() });
    const far = await connect(server, { clock, shutdown: leaving.signal, abortGraceMs: 200 });
    const ended = far.startTurn('Go.').result();
    ended.catch(() => {});
    await received;
    leaving.abort();
    clock.advance(200);
    await eventually(() => server.open() === 0);
    await expect(ended).rejects.toMatchObject({ code: 'SHUTDOWN' });
  });

  it('keeps no cancel waiting, also while its card is read', async () => {
    const { server, received } = await deaf({});
    const taskStateStore = new InMemoryStateStore();
    await left(server, taskStateStore, received);
    await server.leave('silent');
    // Neither the request nor the grace of a tool ends in time.
    const schedule: Clock['schedule'] = (ms, callback) => (ms < 1_000 ? systemClock.schedule(ms, callback) : never);
    const clock = { ...systemClock, schedule };
    const resumed = (await connect(server, { taskStateStore, clock })).resume('t');
    watch(resumed);
    await eventually(() => server.missed() > 0);
    const over = resumed.cancel();
    await eventually(() => taskStateStore.read('t').at(-1)?.type === 'turn.canceled');
    await server.back();
    await over;
    expect(server.methods.at(-1)).toBe('CancelTask');
  });

  it('is still asked for its card where one of two turns that wait for it is cancelled', async () => {
    const server = await serving({});
    await server.leave('silent');
    // While its time stands still, no request is made again.
    const far = await connect(server, { clock: fakeClock() });
    const canceled = far.startTurn('Go.');
    const { ended } = watch(canceled);
    const kept = far.startTurn('Go.', { contextId: 'c2' });
    const reader = watch(kept);
    await eventually(() => server.missed() === 1);
    await canceled.cancel();
    await ended;
    expect(server.open()).toBe(1);
    await kept.cancel();
    await reader.ended;
    await eventually(() => server.open() === 0);
    const next = far.startTurn('Go.', { contextId: 'c3' });
    const { ended: nextEnded } = watch(next);
    await eventually(() => server.missed() === 2);
    await next.cancel();
    await nextEnded;
  });

  it('is sent the message once it is back, also where it is of another kind and went down while its card was read', async () => {
    const server = await serving({
      SendStreamingMessage: answerStream(wireText('One two.'), wireStatus('COMPLETED')),
      GetTask: completed,
    });
    await server.leave('silent');
    const run = (await connect(server)).run('Go.');
    await eventually(() => server.missed() === 1);
    await server.back();
    expect(await run).toMatchObject({ text: 'One two.' });
    expect(messageIds(server)).toHaveLength(1);
  });

  it('keeps no cancel waiting where the connection for the message was refused', async () => {
    const gone = await serving({});
    await gone.leave('down');
    const server = await serving({}, { at: gone.url });
    const { auth, requests } = counted();
    const far = await connect(server, { auth, origins: [gone.url], clock: fakeClock() });
    const turn = far.startTurn('Go.');
    const { ended } = watch(turn);
    // The card, the message, and the card again, which may be another one by now.
    await eventually(() => requests() > 2);
    await turn.cancel();
    await ended;
  });

  it('keeps the task of a suspended turn that is cancelled while it says nothing for ten seconds', async () => {
    const server = await serving({ ...answersAsking, CancelTask: never });
    const taskStateStore = new InMemoryStateStore();
    await (await connect(server, { taskStateStore })).run('Go.', { taskId: 't' });
    const clock = fakeClock({ startAt: Date.now() });
    const later = await connect(server, { taskStateStore, clock, requestTimeoutMs: 600_000 });
    const over = later.cancel('t');
    await eventually(() => server.methods.at(-1) === 'CancelTask');
    clock.advance(10_000);
    await over;
    expect(taskStateStore.read('t').at(-1)).toMatchObject({ type: 'turn.canceled' });
  });

  it('is sent the message again where it says nothing to it and is of Millrace', async () => {
    const { server } = await deaf({}, { extensions: [turnExtension] });
    const far = await connect(server, { requestTimeoutMs: impatientMs });
    expect(await far.run('Go.')).toMatchObject({ text: 'One two.' });
    expect(messageIds(server)).toEqual([messageIds(server)[0], messageIds(server)[0]]);
  });

  it('is asked for the task of the message where it says nothing to it and is of another kind', async () => {
    const { server } = await deaf({});
    const far = await connect(server, { requestTimeoutMs: impatientMs });
    expect(await far.run('Go.')).toMatchObject({ text: 'One two.' });
    expect(messageIds(server)).toHaveLength(1);
  });

  it('is asked where its card says once that has changed', async () => {
    let path = '/before';
    const server = await serving(
      {
        SendStreamingMessage: (call) => call.events(wireSubmitted, wireText('One ', false)),
        GetTask: (call) => (path === '/after' ? completed : working)(call),
      },
      { path: () => path },
    );
    const turn = (await connect(server)).startTurn('Go.');
    await watch(turn).until('artifact-update');
    await server.leave('down');
    path = '/after';
    await server.back();
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'One two.' });
  });
});
