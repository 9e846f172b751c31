import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { agent, InMemoryStateStore, tool } from 'millrace';
import { serveInspector } from 'millrace/internals';
import { scriptedLLM } from 'millrace/testing';
import { lastValueFrom } from 'rxjs';

describe('the server of millrace inspect', () => {
  const store = new InMemoryStateStore();
  let server: Awaited<ReturnType<typeof serveInspector>>;
  let token = '';
  let base = '';

  beforeAll(async () => {
    const bo = agent({ id: 'bo', provider: scriptedLLM([{ text: 'Hi.' }]), taskStateStore: store });
    await bo.run('Hello', { taskId: 't' });
    server = await serveInspector({ store, write: true }, 0);
    [base = '', token = ''] = server.url.split('#token=');
  });
  afterAll(() => server.close());

  /** The status of an answer. `fetch` does not let anybody choose the Host. */
  function statusOf(path: string, headers: Readonly<Record<string, string>>, method = 'GET'): Promise<number> {
    return new Promise((resolve, reject) => {
      const asked = request(new URL(path, base), { method, headers }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      asked.on('error', reject).end();
    });
  }

  it('V-27 listens on 127.0.0.1 and has a token of 192 bits in the fragment', () => {
    expect(new URL(server.url).hostname).toBe('127.0.0.1');
    expect(Buffer.from(token, 'base64url')).toHaveLength(24);
  });

  it('V-27 refuses a Host that is not this server, whatever it resolves to', async () => {
    const { port } = new URL(base);
    const authorization = `Bearer ${token}`;
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`])
      expect([host, await statusOf('api/tasks', { host, authorization })]).toEqual([host, 200]);
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      '127.0.0.1',
      '127.0.0.1:1',
      `127.0.0.1.evil.example:${port}`,
    ])
      for (const path of ['', 'page.js', 'api/tasks'])
        expect([host, await statusOf(path, { host, authorization })]).toEqual([host, 403]);
  });

  it('V-27 refuses other sites and wrong tokens, and gives the page to anybody, without anything of the store', async () => {
    expect(await statusOf('api/tasks', {})).toBe(401);
    expect(await statusOf('api/tasks', { authorization: `Bearer ${token.slice(1)}` })).toBe(401);
    const authorization = `Bearer ${token}`;
    expect(await statusOf('api/tasks', { authorization, origin: 'http://evil.example' })).toBe(403);
    expect(await statusOf('', { 'sec-fetch-site': 'cross-site' })).toBe(403);
    expect(await statusOf('api/tasks/t/cancel', { authorization, 'sec-fetch-site': 'cross-site' }, 'POST')).toBe(403);
    const page = await fetch(base);
    const html = await page.text();
    expect(page.headers.get('content-security-policy')).toMatch(/^default-src 'none';.*frame-ancestors 'none'$/);
    expect(page.headers.get('cache-control')).toBe('no-store');
    expect(html).not.toMatch(/<script(?![^>]*\bsrc=)|style=|Hello/);
    expect([...page.headers.keys()].filter((name) => /^(set-cookie|access-control)/.test(name))).toEqual([]);
  });

  it('reads the body of a POST, changes the turn, and refuses one that is too large or no JSON', async () => {
    const refund = tool({
      name: 'refund',
      description: 'Refunds.',
      parameters: { type: 'object' },
      needsApproval: true,
      execute: () => 'refunded',
    });
    const provider = scriptedLLM([{ toolCalls: [{ name: 'refund' }] }, { text: 'Refunded.' }]);
    const bo = agent({ id: 'bo', provider, tools: [refund], taskStateStore: store });
    await bo.run('Refund', { taskId: 'asks' });
    const own = await serveInspector({ store, write: true, agent: bo }, 0);
    try {
      const [url = '', key = ''] = own.url.split('#token=');
      const post = async (path: string, body: BodyInit, type = 'application/json') => {
        const headers = { authorization: `Bearer ${key}`, 'content-type': type };
        const response = await fetch(new URL(`api/tasks/${path}`, url), { method: 'POST', body, headers });
        return [response.status, await response.json()];
      };
      expect((await post('asks/answer', 'no JSON'))[0]).toBe(400);
      expect((await post('asks/answer', '{}', 'text/plain'))[0]).toBe(415);
      expect((await post('asks/steer', JSON.stringify({ text: 'x'.repeat(2 ** 20) })))[0]).toBe(413);
      const answers = { '1:0': { approved: true } };
      expect(await post('asks/answer', JSON.stringify({ answers }))).toEqual([200, { taskId: 'asks', runs: true }]);
      await lastValueFrom(store.follow('asks'));
      expect((await store.describe('asks'))?.state).toBe('completed');
    } finally {
      await own.close();
    }
  });

  it('leaves the stream of the rows when the client disconnects, and closes with open streams', async () => {
    const waiting = await store.create('w', {
      type: 'turn.started',
      schema: 3,
      taskId: 'w',
      contextId: 'w',
      agentId: 'bo',
      messages: [{ role: 'user', content: 'Wait' }],
      settings: {},
      seq: 1,
      epoch: 0,
      at: 1,
    });
    expect(waiting.created).toBe(true);
    const response = await fetch(new URL('api/tasks/w/rows', base), { headers: { authorization: `Bearer ${token}` } });
    const reader = response.body?.getReader();
    const { value } = (await reader?.read()) ?? {};
    expect(new TextDecoder().decode(value)).toContain('"state":"submitted"');
    await server.close();
    await expect(reader?.read()).rejects.toThrow();
    await expect(fetch(base)).rejects.toThrow();
    server = await serveInspector({ store }, 0);
  });

  it('V-29 has a page whose script and style are at most 60 KB', async () => {
    const files = await Promise.all(
      ['page.js', 'page.css'].map(async (path) => (await fetch(new URL(path, server.url))).arrayBuffer()),
    );
    const bytes = files.reduce((sum, { byteLength }) => sum + byteLength, 0);
    expect(bytes).toBeGreaterThan(20_000);
    expect(bytes).toBeLessThanOrEqual(60 * 1024);
  });
});
