import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import { agent, InMemoryStateStore } from 'millrace';
import { type McpTokenOptions, mcpServer, mcpTools, memoryAuthStore } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';
import { authorizationServer } from '../authorization-server.ts';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

type Key = Awaited<ReturnType<typeof generateKeyPair>>['privateKey'];
const issuer = 'http://127.0.0.1:1';
const keys: { readonly kid: string; readonly signs: Key; readonly shown: object }[] = [];

async function makeKey(kid: string) {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
  return { kid, signs: privateKey, shown: { ...(await exportJWK(publicKey)), kid, alg: 'ES256' } };
}

beforeAll(async () => {
  keys.push(await makeKey('k1'), await makeKey('k2'));
});

/** Publishes keys. */
async function jwks(
  shown: readonly object[],
): Promise<{ readonly url: string; readonly shown: object[]; close(): Promise<void> }> {
  const now = [...shown];
  const server = createServer((_request, response) => {
    response.writeHead(now.length === 0 ? 500 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ keys: now }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  closing.push(close);
  return { url: `http://127.0.0.1:${port}/keys`, shown: now, close };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function served(auth: Partial<McpTokenOptions> & Pick<McpTokenOptions, 'jwksUrl'>): Promise<string> {
  const port = await freePort();
  const clerk = agent({ id: 'clerk', name: 'clerk', provider: scriptedLLM([{ text: 'Filed.' }]) });
  const server = mcpServer({ agent: clerk });
  closing.push(() => server.close());
  const audience = `http://127.0.0.1:${port}/mcp`;
  return (await server.listen({ port, auth: { issuer, audience, ...auth } })).url;
}

interface TokenOptions {
  readonly audience: string;
  readonly claims?: JWTPayload;
  readonly issuedBy?: string;
  readonly expires?: number | string;
  readonly key?: number;
}

async function tokenFor({
  audience,
  claims,
  issuedBy = issuer,
  expires = '1m',
  key = 0,
}: TokenOptions): Promise<string> {
  const { kid, signs } = keys[key] ?? (await makeKey('unknown'));
  return new SignJWT({ sub: 'alice', scope: 'call', ...claims })
    .setProtectedHeader({ alg: 'ES256', kid })
    .setIssuer(issuedBy)
    .setAudience(audience)
    .setExpirationTime(expires)
    .sign(signs);
}

/** What a client of 2026-07-28 sends first. */
async function ask(url: string, token?: string): Promise<Response> {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  return fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/list',
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta } }),
  });
}

const shownKeys = () => keys.slice(0, 1).map(({ shown }) => shown);

describe('listen with auth', () => {
  it('P-11 refuses a request without a token, and says where the metadata is, which names the issuer', async () => {
    const { url: jwksUrl } = await jwks(shownKeys());
    const url = await served({ jwksUrl, scopes: ['call'] });
    const refused = await ask(url);
    expect(refused.status).toBe(401);
    const challenge = refused.headers.get('www-authenticate') ?? '';
    const at = new URL('/.well-known/oauth-protected-resource/mcp', url).href;
    expect(challenge).toBe(`Bearer scope="call", resource_metadata="${at}"`);
    const metadata = await fetch(at);
    expect(await metadata.json()).toEqual({
      resource: url,
      authorization_servers: [issuer],
      bearer_methods_supported: ['header'],
      scopes_supported: ['call'],
    });
    expect((await fetch(at, { headers: { origin: 'https://evil.test' } })).status).toBe(403);
    expect((await fetch(at, { method: 'POST' })).status).toBe(405);
  });

  it('P-11 lets a good token in', async () => {
    const { url: jwksUrl } = await jwks(shownKeys());
    const url = await served({ jwksUrl, scopes: ['call'] });
    const answer = await ask(url, await tokenFor({ audience: url }));
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain('"name":"clerk"');
  });

  it.each<[string, Partial<TokenOptions>]>([
    ['for another audience', { audience: 'http://127.0.0.1:2/mcp' }],
    ['that has expired', { expires: 1_000 }],
    ['of another issuer', { issuedBy: 'http://127.0.0.1:2' }],
    ['signed by another key', { key: 7 }],
    ['without a subject', { claims: { sub: '' } }],
  ])('P-11 refuses a token %s', async (_what, options) => {
    const { url: jwksUrl } = await jwks(shownKeys());
    const url = await served({ jwksUrl });
    const refused = await ask(url, await tokenFor({ audience: url, ...options }));
    expect(refused.status).toBe(401);
    expect(refused.headers.get('www-authenticate')).toContain('error="invalid_token"');
  });

  it('P-11 refuses a token that nobody signed', async () => {
    const { url: jwksUrl } = await jwks(shownKeys());
    const url = await served({ jwksUrl });
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const claims = { sub: 'alice', iss: issuer, aud: url, exp: Math.floor(Date.now() / 1_000) + 60 };
    for (const alg of ['none', 'None', 'HS256']) {
      const refused = await ask(url, `${part({ alg, kid: 'k1' })}.${part(claims)}.`);
      expect(refused.status).toBe(401);
    }
  });

  it('P-11 names the scopes that a token lacks', async () => {
    const { url: jwksUrl } = await jwks(shownKeys());
    const url = await served({ jwksUrl, scopes: ['call', 'file'] });
    const refused = await ask(url, await tokenFor({ audience: url }));
    expect(refused.status).toBe(403);
    expect(refused.headers.get('www-authenticate')).toContain('error="insufficient_scope", scope="call file"');
  });

  it('P-11 follows an issuer that changes its key, and refuses the old one', async () => {
    const published = await jwks(shownKeys());
    const url = await served({ jwksUrl: published.url });
    const before = await tokenFor({ audience: url });
    expect((await ask(url, before)).status).toBe(200);
    published.shown.splice(0, 1, ...keys.slice(1).map(({ shown }) => shown));
    // Unknown keys are asked for at most each 30 seconds.
    const later = Date.now() + 31_000;
    const clock = jest.spyOn(Date, 'now').mockImplementation(() => later);
    try {
      expect((await ask(url, await tokenFor({ audience: url, key: 1 }))).status).toBe(200);
      expect((await ask(url, before)).status).toBe(401);
    } finally {
      clock.mockRestore();
    }
  });

  it('P-11 is where a user of mcpTools signs in, with a token of the issuer', async () => {
    const { url: jwksUrl } = await jwks(shownKeys());
    const accessToken = (issuedBy: string, audience: string) => tokenFor({ audience, issuedBy });
    const authorization = await authorizationServer('', accessToken);
    closing.push(() => authorization.close());
    const url = await served({ jwksUrl, issuer: authorization.issuer, scopes: ['call'] });
    const auth = { redirectUrl: 'http://127.0.0.1:9/callback', store: memoryAuthStore() };
    const tools = mcpTools({ servers: { it: { url, auth } } });
    closing.push(() => tools.close());
    const provider = scriptedLLM([
      { toolCalls: [{ name: 'it__oauth_sign_in' }] },
      { toolCalls: [{ name: 'it__clerk', arguments: { message: 'File this.' } }] },
      { text: 'Done.' },
    ]);
    const taskStateStore = new InMemoryStateStore();
    const boss = agent({ id: 'boss', name: 'boss', provider, toolProviders: [tools], taskStateStore });
    const turn = boss.startTurn('go');
    const [question] = (await turn.result()).questions;
    const address: unknown = Reflect.get(Object(question?.data), 'url');
    await tools.finishSignIn('it', await authorization.visit(String(address)));
    const done = await boss.resume(turn.taskId, { answers: { [String(question?.id)]: true } }).result();
    expect(done).toMatchObject({ status: 'completed', text: 'Done.' });
    expect(provider.calls[2]?.messages.at(-1)).toMatchObject({ content: 'Filed.' });
  });

  it('P-11 says that it cannot check tokens where the keys cannot be fetched, and does not send the client away', async () => {
    const published = await jwks([]);
    const url = await served({ jwksUrl: published.url });
    const refused = await ask(url, await tokenFor({ audience: url }));
    expect(refused.status).toBe(503);
    expect(refused.headers.get('www-authenticate')).toBeNull();
    const gone = await served({ jwksUrl: 'http://127.0.0.1:1/keys' });
    expect((await ask(gone, await tokenFor({ audience: gone }))).status).toBe(503);
  });
});
