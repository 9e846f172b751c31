import { mkdtemp, rm } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Part } from '@a2a-js/sdk';
import { describe, expect, it } from '@jest/globals';
import { InMemoryStateStore, type LLMProvider } from 'millrace';
import { apiKeyAuth } from 'millrace/a2a';
import { LmdbStateStore } from 'millrace/lmdb';
import { gate } from 'millrace/testing';
import { a2aBench, refusal, send } from '../a2a/bench.ts';
import { data, isTask, text, message as wire } from '../a2a/messages.ts';
import { answerOf, message, rpc, serverBench } from '../a2a/server/test-server.ts';
import { plainTools } from '../core/plain-tools.ts';
import { failureOf, type Reached, reach, wires } from './reach.ts';

const on = serverBench();
const keys = { alice: 'the-key-of-alice-1234', bob: 'the-key-of-bob-123456' };
const reused = /messageId "\w+" was used for another message/;
const answers: LLMProvider = { call: async () => ({ message: { role: 'assistant', content: 'Done.' } }) };

async function sent({ client, options }: Reached, words: string, messageId: string): Promise<string> {
  const task = await client.sendMessage(message(words, { messageId }), options);
  if (!isTask(task)) throw new Error('no task');
  return task.id;
}

describe.each(wires)('over %s of A2A %s', (...way) => {
  it('H-04 P-14 a repeated messageId with different content is refused, with the same it is the same task, also after a restart', async () => {
    const path = await mkdtemp(join(tmpdir(), 'repeated-'));
    on.after(() => rm(path, { recursive: true, force: true }));
    const auth = apiKeyAuth({ keys: Object.entries(keys).map(([id, key]) => ({ id, key })) });
    const open = async () => {
      const taskStateStore = new LmdbStateStore({ path });
      const agent = on.echo([], { provider: answers, taskStateStore });
      const { url, server } = await on.serve({ agent, auth, grpc: { port: 0 } });
      const as = (key: string) => reach(url, way, { 'x-api-key': key });
      return {
        alice: await as(keys.alice),
        bob: await as(keys.bob),
        count: () => taskStateStore.list().length,
        close: () => server.close().then(() => taskStateStore.close()),
      };
    };
    const first = await open();
    const id = await sent(first.alice, 'transfer 1 EUR', 'm');
    expect(await sent(first.alice, 'transfer 1 EUR', 'm')).toBe(id);
    expect(await failureOf(sent(first.alice, 'transfer 5 EUR', 'm'))).toMatch(reused);
    const repeated = message('transfer 1 EUR', { messageId: 'm' });
    for (const other of [{ contextId: 'another' }, { metadata: { hurry: true } }, { extensions: ['urn:x'] }]) {
      const { client, options } = first.alice;
      const changed = { ...repeated, message: { ...repeated.message, ...other } };
      expect(await failureOf(client.sendMessage(changed, options))).toMatch(reused);
    }
    const next = await sent(first.alice, 'transfer 2 EUR', 'n');
    const toIt = first.alice.client.sendMessage(
      message('transfer 1 EUR', { messageId: 'm', taskId: next }),
      first.alice.options,
    );
    expect(await failureOf(toIt)).toMatch(reused);
    expect(first.count()).toBe(2);
    const others = await sent(first.bob, 'transfer 5 EUR', 'm');
    expect(others).not.toBe(id);
    await first.close();
    const second = await open();
    on.after(second.close);
    expect(await sent(second.alice, 'transfer 1 EUR', 'm')).toBe(id);
    expect(await failureOf(sent(second.alice, 'transfer 5 EUR', 'm'))).toMatch(reused);
    expect(await sent(second.bob, 'transfer 5 EUR', 'm')).toBe(others);
  });
});

/** A request from an address of the loopback. */
function sentFrom(localAddress: string, url: string, params: object): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'a2a-version': '1.0' };
    const asked = httpRequest(`${url}/a2a/jsonrpc`, { method: 'POST', headers, localAddress }, (response) => {
      const pieces: Buffer[] = [];
      response.on('data', (piece: Buffer) => pieces.push(piece));
      response.on('end', () => resolve(Buffer.concat(pieces).toString()));
    });
    asked.once('error', reject);
    asked.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params }));
  });
}

it('H-04 without keys the messages of two addresses are apart, and those of one are not', async () => {
  const { url } = await on.serve({ agent: on.echo([], { provider: answers }) });
  const params = (words: string) => ({ message: { messageId: '1', role: 'ROLE_USER', parts: [{ text: words }] } });
  const from = async (address: string, words: string) => JSON.parse(await sentFrom(address, url, params(words)));
  const first = await from('127.0.0.1', 'mine');
  const other = await from('127.0.0.2', 'yours');
  expect(other.result.task.id).not.toBe(first.result.task.id);
  expect((await from('127.0.0.1', 'mine')).result.task.id).toBe(first.result.task.id);
  expect(await from('127.0.0.1', 'yours')).toMatchObject({
    error: { code: -32602, message: expect.stringMatching(reused) },
  });
});

it('H-04 of two messages with one id that come at once, one is answered and the other refused', async () => {
  const { url } = await on.serve({ agent: on.echo([], { provider: answers }) });
  const send = (words: string) => {
    const message = { messageId: 'same', role: 'ROLE_USER', parts: [{ text: words }] };
    return answerOf(rpc(url, 'SendMessage', { message }));
  };
  const both = await Promise.all([send('1 EUR'), send('5 EUR')]);
  expect(both.map(({ result, error }) => (result ? 'task' : error.code)).sort()).toEqual([-32602, 'task']);
});

describe('H-04 a message to a task', () => {
  const refund = { needsApproval: true, execute: () => 'refunded' };
  const asking = () =>
    a2aBench({
      steps: [{ toolCalls: [{ name: 'refund' }] }, { text: 'Done.' }],
      agent: { toolProviders: [plainTools({ refund })] },
    });
  const yes = data({ answers: { '1:0': { approved: true } } });
  const no = data({ answers: { '1:0': { approved: false } } });

  it('H-04 repeats with the same answers and words, and is refused with others', async () => {
    const { handler, model } = asking();
    const { id: taskId } = await send(handler, wire('Refund', { messageId: 'start' }));
    const to = (...parts: Part[]) => wire(parts, { taskId, messageId: 'm' });
    await send(handler, to(yes, text('quickly')));
    expect((await send(handler, to(yes, text('quickly')))).id).toBe(taskId);
    for (const other of [to(no, text('quickly')), to(yes, text('slowly')), to(yes), to(text('quickly'))])
      expect(await refusal(send(handler, other))).toMatch(reused);
    expect(model.calls).toHaveLength(2);
  });

  it('H-04 repeats where its only part was the answer', async () => {
    const { handler } = asking();
    const { id: taskId } = await send(handler, 'Refund');
    const to = (approved: boolean) => wire([data({ approved })], { taskId, messageId: 'm' });
    await send(handler, to(true));
    expect((await send(handler, to(true))).id).toBe(taskId);
    expect(await refusal(send(handler, to(false)))).toMatch(reused);
  });

  it('H-04 is answered at once where it is repeated while another question is open', async () => {
    const steps = [{ toolCalls: [{ name: 'refund' }, { name: 'refund' }] }, { text: 'Done.' }];
    const { handler } = a2aBench({ steps, agent: { toolProviders: [plainTools({ refund })] } });
    const { id: taskId } = await send(handler, 'Refund twice');
    const first = await send(handler, wire([yes], { taskId, messageId: 'm' }));
    expect(first.status?.state).toBe(6);
    expect((await send(handler, wire([yes], { taskId, messageId: 'm' }))).status?.state).toBe(6);
  });

  it('H-04 may not have the id of a message that started a task', async () => {
    const { handler } = asking();
    const { id: taskId } = await send(handler, wire('Refund', { messageId: 'start' }));
    expect(await refusal(send(handler, wire([yes], { taskId, messageId: 'start' })))).toMatch(reused);
    expect((await send(handler, wire('Refund', { taskId, messageId: 'start' }))).id).toBe(taskId);
  });

  it('H-04 is compared with what the task was told while its model still works', async () => {
    const held = gate();
    const store = new InMemoryStateStore();
    const provider: LLMProvider = {
      call: async () => {
        await held.pass();
        return { message: { role: 'assistant', content: 'Done.' } };
      },
    };
    const { handler } = a2aBench({ store, agent: { provider } });
    const now = { returnImmediately: true };
    const { id: taskId } = await send(handler, wire('Begin'), now);
    await held.reached;
    await send(handler, wire('1 EUR', { taskId, messageId: 'm' }), now);
    await send(handler, wire('1 EUR', { taskId, messageId: 'm' }), now);
    expect(await refusal(send(handler, wire('5 EUR', { taskId, messageId: 'm' }), now))).toMatch(reused);
    held.open();
    const { history } = await send(handler, wire('1 EUR', { taskId, messageId: 'm' }));
    expect(history.filter(({ messageId }) => messageId === 'm')).toHaveLength(1);
  });
});
