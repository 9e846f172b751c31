import { describe, expect, it } from '@jest/globals';
import { fakeClock, gate } from 'millrace/testing';
import { watch } from '../../core/watch-events.ts';
import { answerCompleted, connectTo, type WireCall, wireServers, wireTask } from './wire-server.ts';

const serving = wireServers();

describe('a remote agent of a server that does not stream, whatever its card says', () => {
  it.each([
    ['does not know that method', (call: WireCall) => call.error(-32601, 'Method not found')],
    ['does not do that', (call: WireCall) => call.error(-32004, 'Streaming is not supported')],
    ['has no such route', (call: WireCall) => call.plain(404, { detail: 'Not Found' })],
    ['has no such route for a POST', (call: WireCall) => call.plain(405, { detail: 'Method Not Allowed' })],
  ])('asks without a stream where the server %s', async (_what, SendStreamingMessage) => {
    const server = await serving({
      SendStreamingMessage,
      SendMessage: (call) => call.result({ task: wireTask('COMPLETED', ['Plain.']) }),
      GetTask: answerCompleted('Plain.'),
    });
    expect((await (await connectTo(server)).run('Go.')).text).toBe('Plain.');
    expect(server.methods).toEqual(['SendStreamingMessage', 'SendMessage', 'GetTask']);
  });

  it('sends nothing again where the whole task is the answer to a message that asked for a stream', async () => {
    const server = await serving({
      SendStreamingMessage: (call) => call.result({ task: wireTask('COMPLETED', ['Whole.']) }),
      GetTask: answerCompleted('Whole.'),
    });
    expect((await (await connectTo(server)).run('Go.')).text).toBe('Whole.');
    expect(server.methods).toEqual(['SendStreamingMessage', 'GetTask']);
  });
});

describe('a remote agent of a server that answers a message only once its task has ended', () => {
  async function sent() {
    const clock = fakeClock();
    const received = gate();
    let answer = () => {};
    const SendMessage = (call: WireCall) => {
      answer = () => call.result({ task: wireTask('COMPLETED', ['Late.']) });
      received.open();
    };
    const server = await serving({ SendMessage, GetTask: answerCompleted('Late.') }, { streaming: false });
    const turn = (await connectTo(server, { clock })).startTurn('Go.');
    watch(turn);
    await received.pass();
    return { clock, server, turn, answer };
  }

  it('P-16 waits for it longer than requestTimeoutMs', async () => {
    const { clock, server, turn, answer } = await sent();
    clock.advance(60_000);
    answer();
    expect((await turn.result()).text).toBe('Late.');
    expect(server.methods).toEqual(['SendMessage', 'GetTask']);
  });

  it('P-16 gives it up after maxSilenceMs, and names that', async () => {
    const { clock, turn } = await sent();
    clock.advance(600_000);
    await expect(turn.result()).rejects.toMatchObject({
      code: 'PROVIDER_TIMEOUT',
      message: expect.stringMatching(/did not answer in time: raise maxSilenceMs/),
    });
  });
});

describe('a remote agent whose server answers with an end', () => {
  it.each([
    ['REJECTED', 'remote_rejected', 'has rejected its task, saying "Not today.".'],
    ['FAILED', 'remote_failed', 'has failed its task, saying "Not today.".'],
    ['CANCELED', 'remote_canceled', 'was canceled there, saying "Not today.".'],
  ])('fails with a reason of its own where the task is %s', async (state, reason, words) => {
    const message = { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text: 'Not today.' }] };
    const task = wireTask(state, [], { status: { state: `TASK_STATE_${state}`, message } });
    const server = await serving({
      SendStreamingMessage(call) {
        call.events({ task });
        call.end();
      },
      GetTask: (call) => call.result(task),
    });
    await expect((await connectTo(server)).run('Go.')).rejects.toMatchObject({
      code: 'PROVIDER_FAILED',
      reason,
      message: expect.stringContaining(words),
    });
  });

  it('says that the server failed where its agent answered wrongly, by HTTP 502 as by 500', async () => {
    for (const status of [500, 502]) {
      const wrong = (call: WireCall) =>
        call.plain(status, { jsonrpc: '2.0', id: 1, error: { code: -32006, message: 'Invalid agent response' } });
      const server = await serving({ SendStreamingMessage: wrong });
      const failed = (await connectTo(server, { silenceMs: 50 })).run('Go.');
      await expect(failed).rejects.toMatchObject({
        code: 'PROVIDER_SERVER',
        message: expect.stringMatching(/fails with "?Invalid agent response/),
      });
    }
  });
});
