import { createHash, generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { AgentCard, verifyAgentCardSignature } from '@a2a-js/sdk';
import { describe, expect, it, jest } from '@jest/globals';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import { type Authentication, apiKeyAuth, bearerAuth, customAuth } from 'millrace/a2a';
import { checkedLookup, isPublicAddress } from 'millrace/internals';
import { thrownBy } from '../../tools/thrown.ts';
import { answerOf, key, rpc, serverBench } from './test-server.ts';

const on = serverBench();

const issuer = 'https://issuer.example';
const audience = 'millrace';
const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
const jwks = { keys: [{ ...(await exportJWK(publicKey)), kid: 'k1', alg: 'ES256' }] };

interface TokenOptions {
  readonly claims?: JWTPayload;
  readonly issuer?: string;
  readonly audience?: string;
  readonly expires?: string | number;
  readonly signedBy?: Parameters<SignJWT['sign']>[0];
}

function token(options: TokenOptions = {}): Promise<string> {
  const { expires = '1m', signedBy = privateKey } = options;
  const jwt = new SignJWT({ sub: 'alice', ...options.claims })
    .setProtectedHeader({ alg: 'ES256', kid: 'k1' })
    .setIssuer(options.issuer ?? issuer)
    .setAudience(options.audience ?? audience);
  return (expires === 0 ? jwt : jwt.setExpirationTime(expires)).sign(signedBy);
}

const shown = async (way: Authentication, given: string) =>
  way.authenticate({ headers: { authorization: `Bearer ${given}` } });

describe('bearerAuth', () => {
  const way = bearerAuth({ jwks, issuer, audience, tenantsClaim: 'tenants', scopes: ['agent'] });
  const claims = { scope: 'agent other', tenants: ['acme'] };

  it('knows the subject of a good token, and its tenants', async () => {
    expect(await shown(way, await token({ claims }))).toMatchObject({ id: 'alice', tenants: ['acme'] });
  });

  it('knows nobody by one that is not good', async () => {
    const stranger = await generateKeyPair('ES256');
    const bad = [
      await token({ claims, issuer: 'https://other.example' }),
      await token({ claims, audience: 'somebody' }),
      await token({ claims, expires: 1_000 }),
      await token({ claims, expires: 0 }),
      await token({ claims, signedBy: stranger.privateKey }),
      await token({ claims: { scope: 'other' } }),
      await token({ claims: { ...claims, sub: '' } }),
      `${Buffer.from('{"alg":"none"}').toString('base64url')}.${Buffer.from('{"sub":"alice"}').toString('base64url')}.`,
      'garbage',
    ];
    for (const each of bad) expect(await shown(way, each)).toBeUndefined();
    expect(await way.authenticate({ headers: {} })).toBeUndefined();
  });

  it('takes the keys that the issuer publishes, and knows nobody while it cannot be asked', async () => {
    const published = createServer((_request, response) => void response.end(JSON.stringify(jwks)));
    await new Promise<void>((resolve) => published.listen(0, '127.0.0.1', resolve));
    on.after(() => published.close());
    const address = published.address();
    const port = typeof address === 'object' ? address?.port : 0;
    const remote = bearerAuth({ jwksUrl: `http://127.0.0.1:${port}/`, issuer, audience });
    const { url } = await on.serve({ agent: on.echo([]), auth: remote });
    const headers = { authorization: `Bearer ${await token()}` };
    expect((await rpc(url, 'ListTasks', {}, headers)).status).toBe(200);
    const away = bearerAuth({ jwksUrl: 'http://127.0.0.1:1/', issuer, audience });
    const { url: other } = await on.serve({ agent: on.echo([]), auth: away });
    const refused = await rpc(other, 'ListTasks', {}, headers);
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
  });

  it.each([
    [{ issuer, audience }, /0 of jwksUrl, jwks and key/],
    [{ issuer, audience, jwks, key: new Uint8Array(32) }, /2 of jwksUrl/],
    [{ issuer, audience, key: new Uint8Array(8) }, /too short/],
    [{ issuer: '', audience, jwks }, /no issuer/],
    [{ issuer, audience, jwksUrl: 'http://issuer.example/' }, /not an https address/],
  ])('refuses options %#', async (options, sentence) => {
    const thrown = await thrownBy(async () => bearerAuth(options));
    expect(thrown).toMatchObject({ code: 'INVALID_CONFIG', message: expect.stringMatching(sentence) });
  });
});

describe('apiKeyAuth', () => {
  it('knows a key by its hash', async () => {
    const sha256 = createHash('sha256').update(key).digest('hex');
    const way = apiKeyAuth({ keys: [{ id: 'alice', sha256 }], header: 'x-my-key' });
    expect(await way.authenticate({ headers: { 'x-my-key': key } })).toEqual({ id: 'alice' });
    expect(await way.authenticate({ headers: { 'x-my-key': sha256 } })).toBeUndefined();
  });

  it.each([
    [{ keys: [] }, /no keys/],
    [{ keys: [{ id: 'alice', key: 'short-secret' }] }, /too short/],
    [{ keys: [{ id: '', key }] }, /no id/],
    [{ keys: [{ id: 'alice', sha256: 'x' }] }, /not a hash/],
  ])('refuses options %#, and shows no key', async (options, sentence) => {
    const thrown = await thrownBy(async () => apiKeyAuth(options));
    expect(thrown).toMatchObject({ code: 'INVALID_CONFIG', message: expect.stringMatching(sentence) });
    expect(thrown.message).not.toContain('short-secret');
  });
});

describe('several ways', () => {
  it('are tried one after the other, also behind one that fails', async () => {
    const failing = customAuth(() => Promise.reject(new Error('away')), { name: 'session', challenge: 'Session' });
    const auth = [failing, apiKeyAuth({ keys: [{ id: 'alice', key }] })];
    const { url } = await on.serve({ agent: on.echo([]), auth });
    expect((await rpc(url, 'ListTasks', {}, { 'x-api-key': key })).status).toBe(200);
    const refused = await rpc(url, 'ListTasks', {});
    expect(refused.headers.get('www-authenticate')).toBe('Session, ApiKey header="x-api-key"');
  });

  it('H-13 are tried behind one that never answers, which the log names with its limit', async () => {
    const warned: unknown[] = [];
    const logger = { debug() {}, info() {}, error() {}, warn: (...line: unknown[]) => void warned.push(line) };
    const silent = customAuth(() => new Promise(() => {}), { name: 'session' });
    const auth = [silent, apiKeyAuth({ keys: [{ id: 'alice', key }] })];
    const { url } = await on.serve({ agent: on.echo([]), auth, authTimeoutMs: 50, logger });
    expect((await rpc(url, 'ListTasks', {}, { 'x-api-key': key })).status).toBe(200);
    expect(warned).toContainEqual([
      'authentication failed',
      { scheme: 'session', code: 'UNAVAILABLE', authTimeoutMs: 50 },
    ]);
  });
});

describe('the card', () => {
  it('is signed with a key of the server, and not in 0.3, whose form the signature is not over', async () => {
    const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const signing = { key: pair.privateKey, algorithm: 'ES256', keyId: 'card-1' };
    const { cardUrl, url } = await on.serve({ agent: on.echo([]), signing });
    const current = await answerOf(fetch(cardUrl, { headers: { 'a2a-version': '1.0' } }));
    const verify = verifyAgentCardSignature(async () => pair.publicKey);
    await expect(verify(AgentCard.fromJSON(current))).resolves.toBeUndefined();
    // The verifier of the SDK prints what does not fit.
    on.after(() => jest.restoreAllMocks());
    jest.spyOn(console, 'debug').mockImplementation(() => {});
    await expect(verify(AgentCard.fromJSON({ ...current, name: 'Mallory' }))).rejects.toThrow();
    for (const path of ['agent-card.json', 'agent.json']) {
      const legacy = await answerOf(fetch(`${url}/.well-known/${path}`));
      expect(legacy).toMatchObject({ protocolVersion: '0.3', url: `${url}/a2a/jsonrpc` });
      expect(legacy.signatures).toBeUndefined();
    }
  });

  it('is cached by who asks, until it changes', async () => {
    const { cardUrl } = await on.serve({ agent: on.echo([]) });
    const first = await fetch(cardUrl, { headers: { 'a2a-version': '1.0' } });
    const etag = first.headers.get('etag') ?? '';
    const again = await fetch(cardUrl, {
      headers: { 'a2a-version': '1.0', 'if-none-match': etag, 'cache-control': 'max-age=0' },
    });
    expect([again.status, first.headers.get('vary')]).toEqual([304, 'A2A-Version']);
  });
});

describe('the address of a notification', () => {
  it('is checked when it is connected to, whatever its name led to before', async () => {
    const found = (allowPrivateTargets: boolean) =>
      new Promise<unknown>((resolve) => {
        checkedLookup({ allowPrivateTargets })('localhost', {}, (error, address) => resolve(error ?? address));
      });
    expect(await found(false)).toMatchObject({ code: 'INVALID_INPUT' });
    expect(await found(true)).toMatch(/^(127\.0\.0\.1|::1)$/);
  });

  it.each([
    ['93.184.216.34', true],
    ['2606:2800:220:1:248:1893:25c8:1946', true],
    ['10.1.2.3', false],
    ['100.64.0.1', false],
    ['169.254.169.254', false],
    ['0.0.0.0', false],
    ['255.255.255.255', false],
    ['fe80::1', false],
    ['fd00::1', false],
    ['::ffff:8.8.8.8', false],
    ['64:ff9b::808:808', false],
    ['2002:7f00:1::', false],
    ['2001:0:1::', false],
    ['::', false],
  ])('%s is public: %s', (address, isPublic) => {
    expect(isPublicAddress(address)).toBe(isPublic);
  });
});
