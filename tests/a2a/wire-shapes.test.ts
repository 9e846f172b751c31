import { StreamResponse, Task } from '@a2a-js/sdk';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { agent, InMemoryStateStore } from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import { z } from 'zod';
import { plainTools } from '../core/plain-tools.ts';
import { legacyMessage, legacySchema } from './legacy-schema.ts';
import { data, message } from './messages.ts';
import { Serving } from './serving.ts';

const serving: Serving[] = [];
afterEach(async () => {
  for (const each of serving.splice(0)) await each.close();
});

async function served(options: { readonly fails?: boolean } = {}) {
  const refund = { needsApproval: true, execute: () => 'refunded' };
  const first = { text: 'Refunding.', toolCalls: [{ name: 'refund', arguments: { order: '7' } }] };
  const last = options.fails
    ? { error: new Error('connect ECONNREFUSED 10.0.0.7:4000') }
    : { text: 'Sure.', toolCalls: [{ name: '__finish__', arguments: { ok: true } }] };
  const provider = scriptedLLM([first, last]);
  const served = await Serving.start({
    agent: agent({
      id: 'ada',
      provider,
      taskStateStore: new InMemoryStateStore(),
      toolProviders: [plainTools({ refund })],
      outputSchema: z.object({ ok: z.boolean() }),
    }),
  });
  serving.push(served);
  return served;
}

/** All data of the server-sent events of one request. */
async function events(url: string, method: string, params: unknown, version: string): Promise<unknown[]> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'A2A-Version': version },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const lines = (await response.text()).split('\n').filter((line) => line.startsWith('data: '));
  return lines.map((line) => JSON.parse(line.slice('data: '.length)).result);
}

describe('what is sent', () => {
  it('S1-101 is A2A 1.0: every event comes out of the codec of the protocol as it went in, with nothing that it does not know', async () => {
    const { url } = await served();
    const sent = message('Refund order 7');
    const asked = await events(`${url}/rpc`, 'SendStreamingMessage', { message: wire(sent) }, '1.0');
    const taskId = idIn(asked[0]);
    const answer = message([data({ answers: { '1:0': { approved: true } } })], { taskId });
    const done = await events(`${url}/rpc`, 'SendStreamingMessage', { message: wire(answer) }, '1.0');
    const all = [...asked, ...done];
    expect(all.length).toBeGreaterThan(8);
    for (const event of all) expect(StreamResponse.toJSON(StreamResponse.fromJSON(event))).toEqual(event);
    expect(all.map((event) => Object.keys(Object(event)))).toEqual(
      all.map(() => [expect.stringMatching(/^(task|statusUpdate|artifactUpdate)$/)]),
    );
    expect(JSON.stringify(all)).not.toContain('internal:');
    expect(done).toContainEqual({
      artifactUpdate: expect.objectContaining({
        artifact: { artifactId: 'output', parts: [{ data: { ok: true }, mediaType: 'application/json' }] },
        lastChunk: true,
      }),
    });
  });

  it('S1-101 is A2A 0.3: every event fits its schema, which allows no other member', async () => {
    const { url } = await served();
    const validate = new Ajv2020().compile(legacySchema);
    const asked = await events(`${url}/rpc`, 'message/stream', { message: legacyMessage('Refund order 7') }, '0.3');
    const taskId = Reflect.get(Object(asked[0]), 'id');
    const answer = {
      ...legacyMessage('answer'),
      taskId,
      parts: [{ kind: 'data', data: { answers: { '1:0': { approved: true } } } }],
    };
    const done = await events(`${url}/rpc`, 'message/stream', { message: answer }, '0.3');
    const got = await fetch(`${url}/rest/v1/tasks/${taskId}`, { headers: { 'A2A-Version': '0.3' } });
    expect(got.status).toBe(200);
    for (const event of [...asked, ...done])
      expect([validate(event), validate.errors, event]).toEqual([true, null, event]);
    expect(Reflect.get(Object(done.at(-1)), 'final')).toBe(true);
  });

  it('says of a failure its code in words of the server, never what the engine says', async () => {
    const server = await served({ fails: true });
    const { url } = server;
    const [first] = await events(`${url}/rpc`, 'SendStreamingMessage', { message: wire(message('Refund')) }, '1.0');
    const taskId = idIn(first);
    const answer = message([data({ approved: true })], { taskId });
    const seen = await events(`${url}/rpc`, 'SendStreamingMessage', { message: wire(answer) }, '1.0');
    const { result } = await server.rpc('GetTask', { id: taskId });
    for (const told of [JSON.stringify(seen), JSON.stringify(result)]) {
      expect(told).toContain('TASK_STATE_FAILED');
      expect(told).toMatch(/The agent could not (reach its model|finish the task)\./);
      expect(told).toMatch(/"code":"[A-Z_]+"/);
      expect(told).not.toMatch(/ECONNREFUSED|10\.0\.0\.7/);
    }
    expect(Task.toJSON(Task.fromJSON(result))).toEqual(result);
  });
});

function idIn(event: unknown): string {
  return StreamResponse.fromJSON(event).payload?.$case === 'task'
    ? Task.fromJSON(Reflect.get(Object(event), 'task')).id
    : '';
}

function wire(sent: ReturnType<typeof message>): unknown {
  const { messageId, taskId, parts } = sent;
  const plain = parts.map(({ content }) =>
    content?.$case === 'data' ? { data: content.value } : { text: content?.value },
  );
  return { messageId, role: 'ROLE_USER', parts: plain, ...(taskId && { taskId }) };
}
