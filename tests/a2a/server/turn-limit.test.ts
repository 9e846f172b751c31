import { describe, expect, it } from '@jest/globals';
import { apiKeyAuth } from 'millrace/a2a';
import { gate } from 'millrace/testing';
import { eventually } from '../../eventually.ts';
import { rpc, serverBench } from './test-server.ts';

const on = serverBench();
const keys = [
  { id: 'alice', key: 'the-key-of-alice-is-long' },
  { id: 'bob', key: 'the-key-of-bob-is-longer' },
];
const [alice, bob] = keys.map(({ key }) => ({ 'x-api-key': key }));

let sent = 0;
const immediate = (contextId?: string) => ({
  message: {
    messageId: `message-${++sent}`,
    role: 'ROLE_USER',
    parts: [{ text: 'Wait.' }],
    ...(contextId !== undefined && { contextId }),
  },
  configuration: { returnImmediately: true },
});

/** A server whose model answers once the gate is open. */
async function waiting(maxTurns: number, busy: 'queue' | 'reject' = 'reject') {
  const open = gate();
  let calls = 0;
  const provider = {
    call: async () => {
      calls += 1;
      await open.pass();
      return { message: { role: 'assistant' as const, content: 'Done.' }, finishReason: 'stop' as const };
    },
  };
  const agent = on.echo([], { provider, busy });
  on.after(() => open.open());
  const { url } = await on.serve({ agent, auth: apiKeyAuth({ keys }), maxTurns, rateLimit: null });
  return { url, open, calls: () => calls };
}

const statuses = async (responses: readonly Promise<Response>[]) => {
  const all = (await Promise.all(responses)).map(({ status }) => status);
  return Object.fromEntries([200, 429].map((status) => [status, all.filter((each) => each === status).length]));
};

describe('turns of one caller', () => {
  it('H-17 of 500 immediate sends of one key, the excess is 429, and others are not held up', async () => {
    const { url, open, calls } = await waiting(20);
    const send = (headers = alice) => rpc(url, 'SendMessage', immediate(), headers);
    expect(await statuses(Array.from({ length: 500 }, () => send()))).toEqual({ 200: 20, 429: 480 });
    await eventually(() => calls() === 20);
    const refused = await send();
    expect([refused.status, await refused.json()]).toMatchObject([
      429,
      { error: { data: [{ reason: 'TURN_LIMIT' }], message: expect.stringContaining('wait until one is over') } },
    ]);
    expect((await send(bob)).status).toBe(200);
    open.open();
    while ((await send()).status === 429);
  });

  it('H-17 counts queued turns, and is kept by both bindings', async () => {
    const { url, calls } = await waiting(2, 'queue');
    const overRpc = () => rpc(url, 'SendMessage', immediate('one-context'), alice);
    const overRest = () =>
      fetch(`${url}/a2a/rest/message:send`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...alice },
        body: JSON.stringify(immediate('one-context')),
      });
    expect((await overRpc()).status).toBe(200);
    // One runs, one is queued behind it.
    expect(await statuses([overRpc(), overRest()])).toEqual({ 200: 1, 429: 1 });
    for (const send of [overRpc, overRest]) {
      const response = await send();
      expect([response.status, await response.text()]).toEqual([429, expect.stringContaining('TURN_LIMIT')]);
    }
    expect(calls()).toBe(1);
  });
});
