import { afterEach, describe, expect, it } from '@jest/globals';
import { apiKeyAuth, type RouteAgent } from 'millrace/a2a';
import { openAIHandler } from 'millrace/openai';
import { gate } from 'millrace/testing';
import { uiMessageHandler } from 'millrace/ui';
import { rpc, serverBench, wireMessage } from '../a2a/server/test-server.ts';
import { eventually } from '../eventually.ts';

const on = serverBench();
let leaving = new AbortController();
afterEach(() => {
  leaving.abort();
  leaving = new AbortController();
});

const keys = [
  { id: 'alice', key: 'the-key-of-alice-is-long' },
  { id: 'bob', key: 'the-key-of-bob-is-longer' },
];
const routes = [
  {
    path: '/v1',
    handlerOf: ({ agent, ...callers }: RouteAgent) =>
      openAIHandler({ ...callers, agents: [agent], onDisconnect: 'continue' }),
  },
  {
    path: '/chat',
    handlerOf: (served: RouteAgent) => uiMessageHandler({ ...served, onDisconnect: 'continue' }),
  },
];

/** A server with handlers beside A2A, whose model answers once the gate is open. */
async function served(limits: { readonly maxTurns?: number; readonly maxStreams?: number }) {
  const open = gate();
  let calls = 0;
  const provider = {
    call: async ({ signal }: { readonly signal?: AbortSignal | undefined }) => {
      calls += 1;
      await Promise.race([open.pass(), new Promise((_, reject) => signal?.addEventListener('abort', reject))]);
      return { message: { role: 'assistant' as const, content: 'Done.' } };
    },
  };
  const { url } = await on.serve({
    agent: on.echo([], { provider }),
    auth: apiKeyAuth({ keys }),
    rateLimit: null,
    routes,
    ...limits,
  });
  on.after(() => open.open());
  const ask = (path: string, { method = 'GET', body, key = keys[0]?.key, signal = leaving.signal }: Asked = {}) =>
    fetch(`${url}${path}`, {
      method,
      signal,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  const post = (path: string, body: object = {}, more: Asked = {}) => ask(path, { method: 'POST', body, ...more });
  const respond = (more: Asked = {}) => post('/v1/responses', { model: 'echo', input: 'Hi', stream: true }, more);
  const chat = (id: string) =>
    post('/chat', { id, messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'Hi' }] }] });
  return { url, ask, post, respond, chat, open, calls: () => calls };
}

interface Asked {
  readonly method?: string;
  readonly body?: object;
  readonly key?: string | undefined;
  readonly signal?: AbortSignal;
}

/** The id of a streamed response, of which nothing more is read. */
async function idOf(response: Response): Promise<string> {
  const read = await response.body?.getReader().read();
  return /"id":"(resp_[^"]+)"/.exec(Buffer.from(read?.value ?? []).toString())?.[1] ?? '';
}

async function refusalOf(response: Response) {
  const { status } = response;
  if (status !== 429) return { status };
  const { error } = JSON.parse(await response.text());
  return { status, code: error.code, retryAfter: response.headers.get('retry-after') };
}

const streamLimit = { status: 429, code: 'STREAM_LIMIT', retryAfter: '1' };
const turnLimit = { status: 429, code: 'TURN_LIMIT', retryAfter: '1' };

describe('streams beside A2A', () => {
  it('H-17 are refused beyond those that one caller may have, before they start a turn', async () => {
    const { ask, respond, chat, calls } = await served({ maxStreams: 2 });
    const id = await idOf(await respond());
    expect((await chat('one')).status).toBe(200);
    expect(await refusalOf(await respond())).toEqual(streamLimit);
    expect(await refusalOf(await chat('two'))).toEqual(streamLimit);
    for (const path of [`/v1/responses/${id}?stream=true`, '/chat/one/stream'])
      expect(await refusalOf(await ask(path))).toEqual(streamLimit);
    expect((await respond({ key: keys[1]?.key })).status).toBe(200);
    expect((await ask(`/v1/responses/${id}`)).status).toBe(200);
    expect(calls()).toBe(3);
  });

  it('H-17 are counted together with those of A2A', async () => {
    const { url, respond } = await served({ maxStreams: 1 });
    await respond();
    const headers = { 'x-api-key': keys[0]?.key ?? '' };
    const refused = await rpc(url, 'SendStreamingMessage', wireMessage('Hi'), headers);
    expect([refused.status, await refused.text()]).toEqual([429, expect.stringContaining('STREAM_LIMIT')]);
  });

  it.each(['the client leaves', 'the turn ends'])('H-17 are counted off once where %s', async (how) => {
    const { ask, respond, open } = await served({ maxStreams: 2 });
    const id = await idOf(await respond());
    const follow = (signal = leaving.signal) => ask(`/v1/responses/${id}?stream=true`, { signal });
    const followed = new AbortController();
    const second = await follow(followed.signal);
    expect(await refusalOf(await follow())).toEqual(streamLimit);
    if (how === 'the client leaves') {
      followed.abort();
      while ((await follow()).status === 429);
      expect(await refusalOf(await follow())).toEqual(streamLimit);
    } else {
      open.open();
      await second.text();
      for (let count = 0; count < 4; count++) {
        const again = await respond();
        expect([again.status, await again.text()]).toEqual([200, expect.stringContaining('[DONE]')]);
      }
    }
  });

  it('H-17 do not hold up an answer that is no stream', async () => {
    const { respond, post, open, calls } = await served({ maxStreams: 1 });
    await respond();
    const waiting = post('/v1/responses', { model: 'echo', input: 'Hi' });
    await eventually(() => calls() === 2);
    open.open();
    expect((await waiting).status).toBe(200);
  });
});

describe('turns beside A2A', () => {
  it('H-17 can be cancelled by a caller that has as many as it may', async () => {
    const { ask, post, respond, chat, calls } = await served({ maxTurns: 2 });
    const id = await idOf(await respond());
    expect((await chat('one')).status).toBe(200);
    expect(await refusalOf(await respond())).toEqual(turnLimit);
    expect(await refusalOf(await chat('two'))).toEqual(turnLimit);
    expect(await refusalOf(await post('/v1/chat/completions', completion))).toEqual(turnLimit);
    expect(calls()).toBe(2);
    const cancelled = await post(`/v1/responses/${id}/cancel`);
    expect([cancelled.status, JSON.parse(await cancelled.text())]).toMatchObject([200, { status: 'cancelled' }]);
    expect((await post('/chat/one/stop')).status).toBe(204);
    expect((await ask('/chat/one/messages')).status).toBe(200);
    for (let count = 0; count < 2; count++) while ((await respond()).status === 429);
    expect(await refusalOf(await respond())).toEqual(turnLimit);
  });
});

const completion = { model: 'echo', messages: [{ role: 'user', content: 'Hi' }] };
