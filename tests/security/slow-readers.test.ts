import { connect, type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from '@jest/globals';
import type { LLMChunk, LLMProvider } from 'millrace';
import { gate } from 'millrace/testing';
import { from } from 'rxjs';
import { answerOf, rpc, serverBench, wireMessage } from '../a2a/server/test-server.ts';
import { eventually } from '../eventually.ts';

const on = serverBench();
setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

async function heapUsed(): Promise<number> {
  for (let round = 0; round < 3; round++) {
    await new Promise((resolve) => setImmediate(resolve));
    collect();
  }
  return process.memoryUsage().heapUsed;
}

/** Asks for a stream, and reads nothing but its first bytes. */
async function deaf(url: string, id: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SubscribeToTask', params: { id } });
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  const begun = new Promise<void>((resolve) => socket.once('readable', resolve));
  socket.write(
    `POST /a2a/jsonrpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  await begun;
  return socket;
}

it('fifty clients that do not read a long answer hold up nobody, and cost what their answers are long', async () => {
  const held = gate();
  const [size, count] = [1_000_000, 50];
  const piece = 'x'.repeat(1_000);
  const content = `Begun. ${piece.repeat(size / piece.length)}`;
  async function* answer(): AsyncGenerator<LLMChunk> {
    yield { type: 'text', text: 'Begun. ' };
    await held.pass();
    for (let sent = 0; sent < size; sent += piece.length) yield { type: 'text', text: piece };
    yield { type: 'done', response: { message: { role: 'assistant', content } } };
  }
  const provider: LLMProvider = {
    stream: () => from(answer()),
    call: () => Promise.reject(new Error('the answer is streamed')),
  };
  const { url } = await on.serve({ agent: on.echo([], { provider }), closeMs: 500 });
  // On connections of their own: the server closes one that rests for five seconds, which a busy machine may need for the answer.
  const own = { connection: 'close' };
  const params = { ...wireMessage('Hi', 'long'), configuration: { returnImmediately: true } };
  const { result } = await answerOf(rpc(url, 'SendMessage', params, own));
  const { id } = result.task;
  await held.reached;
  const sockets = await Promise.all(Array.from({ length: count }, () => deaf(url, id)));
  on.after(() => {
    for (const socket of sockets) socket.destroy();
  });
  const before = await heapUsed();
  held.open();
  const done = await answerOf(rpc(url, 'SendMessage', wireMessage('Hi', 'long'), own));
  expect(done.result.task.status.state).toBe('TASK_STATE_COMPLETED');
  const shown = await answerOf(rpc(url, 'GetTask', { id, historyLength: 0 }, own));
  expect(shown.result.status.state).toBe('TASK_STATE_COMPLETED');
  expect((await heapUsed()) - before).toBeLessThan(2 * size * count);
  for (const socket of sockets) socket.destroy();
  // The server learns that they have left, and drops what was for them.
  const base = before + 15 * size;
  let now = await heapUsed();
  await eventually(() => {
    collect();
    now = process.memoryUsage().heapUsed;
    return now < base;
  });
  expect(now).toBeLessThan(base);
});
