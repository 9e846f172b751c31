import { createHmac } from 'node:crypto';
import { A2AService } from '@a2a-js/sdk/server/grpc';
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { beforeAll, expect, it } from '@jest/globals';
import { exportJWK, exportSPKI, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose';
import { bearerAuth } from 'millrace/a2a';
import { rpc, serverBench } from '../a2a/server/test-server.ts';
import { readyModel } from './fuzz/a2a-server.ts';

const on = serverBench();
const [issuer, audience] = ['https://issuer.example', 'millrace'];
const now = Math.floor(Date.now() / 1_000);
const claims = { sub: 'alice', iss: issuer, aud: audience, iat: now, exp: now + 300 };
const ours = await generateKeyPair('RS256', { extractable: true });
const theirs = await generateKeyPair('RS256', { extractable: true });
const jwks = { keys: [{ ...(await exportJWK(ours.publicKey)), kid: 'k1', alg: 'RS256' }] };

function coded(part: object | string): string {
  return Buffer.from(typeof part === 'string' ? part : JSON.stringify(part)).toString('base64url');
}

function signed(payload: JWTPayload, header: object = {}, key = ours.privateKey): Promise<string> {
  return new SignJWT(payload).setProtectedHeader({ alg: 'RS256', kid: 'k1', ...header }).sign(key);
}

/** A token whose secret is text that everybody knows. */
function hashed(secret: string): string {
  const said = `${coded({ alg: 'HS256', kid: 'k1' })}.${coded(claims)}`;
  return `${said}.${createHmac('sha256', secret).update(said).digest('base64url')}`;
}

async function badTokens(): Promise<readonly (readonly [string, string])[]> {
  const good = await signed(claims);
  const [head = '', , signature = ''] = good.split('.');
  const strange: JWK = await exportJWK(theirs.publicKey);
  const { exp: _, ...endless } = claims;
  const none = (alg: string) => `${coded({ alg })}.${coded(claims)}.`;
  return [
    ['alg none', none('none')],
    ['alg None', none('None')],
    ['alg none with a signature', `${coded({ alg: 'none', kid: 'k1' })}.${coded(claims)}.${signature}`],
    ['no signature', `${good.split('.').slice(0, 2).join('.')}.`],
    ['another payload under the signature', `${head}.${coded({ ...claims, sub: 'bob' })}.${signature}`],
    ['the public key as a secret (PEM)', hashed(await exportSPKI(ours.publicKey))],
    ['the public key as a secret (JWK)', hashed(JSON.stringify(jwks.keys[0]))],
    ['an empty secret', hashed('')],
    ['another key', await signed(claims, {}, theirs.privateKey)],
    ['a key in the token', await signed(claims, { jwk: strange }, theirs.privateKey)],
    ['the address of a key in the token', await signed(claims, { jku: 'http://127.0.0.1:9/jwks' }, theirs.privateKey)],
    ['the id of no key', await signed(claims, { kid: '../../../../dev/null' }, theirs.privateKey)],
    ['expired', await signed({ ...claims, exp: now - 60 })],
    ['without an expiry', await signed(endless)],
    ['not valid yet', await signed({ ...claims, nbf: now + 600 })],
    ['for another audience', await signed({ ...claims, aud: 'others' })],
    ['of another issuer', await signed({ ...claims, iss: 'https://evil.example' })],
    ['without a subject', await signed({ ...claims, sub: '' })],
    ['a subject that is no string', `${head}.${coded({ ...claims, sub: 7 })}.${signature}`],
    ['of seven kilobytes', await signed({ ...claims, sub: 'alice', aud: 'others', more: 'x'.repeat(7_000) })],
    ['of dots', '.'.repeat(5_000)],
    ['JSON that is too deep', `${coded('['.repeat(4_000))}.${coded('{}')}.x`],
  ];
}

let bad: Awaited<ReturnType<typeof badTokens>>;
beforeAll(async () => {
  bad = await badTokens();
});

it('no bad token is let in, over HTTP nor gRPC, nor stands in the log', async () => {
  const lines: string[] = [];
  const line = (message: string, fields?: object) => void lines.push(message + JSON.stringify(fields ?? {}));
  const logger = { debug: line, info: line, warn: line, error: line };
  const auth = bearerAuth({ jwks, issuer, audience });
  const agent = on.echo([], { provider: readyModel });
  const { url, grpcAddress = '' } = await on.serve({ agent, auth, logger, rateLimit: null, grpc: { port: 0 } });
  const client = new Client(grpcAddress, credentials.createInsecure());
  on.after(() => client.close());
  const overHttp = async (token: string) =>
    (await rpc(url, 'ListTasks', {}, { authorization: `Bearer ${token}` })).status;
  const overGrpc = (token: string) =>
    new Promise<number>((resolve) => {
      const metadata = new Metadata();
      metadata.set('authorization', `Bearer ${token}`);
      metadata.set('a2a-version', '1.0');
      const raw = (bytes: Buffer) => bytes;
      const { path } = A2AService.listTasks;
      client.makeUnaryRequest(path, raw, raw, Buffer.alloc(0), metadata, (error) => resolve(error?.code ?? 0));
    });
  const good = await signed(claims);
  expect([await overHttp(good), await overGrpc(good)]).toEqual([200, 0]);
  for (const [what, token] of bad)
    expect([what, await overHttp(token), await overGrpc(token)]).toEqual([what, 401, 16]);
  expect(lines.join('\n')).not.toMatch(/eyJ|\.\.\./);
});

it('a token that is larger than headers may be is refused before it is read, and the server answers on', async () => {
  const auth = bearerAuth({ jwks, issuer, audience });
  const { url } = await on.serve({ agent: on.echo([], { provider: readyModel }), auth });
  const status = await rpc(url, 'ListTasks', {}, { authorization: `Bearer ${'x'.repeat(1_000_000)}` }).then(
    (response) => response.status,
    // The connection may be closed while the client still writes.
    () => 431,
  );
  expect(status).toBe(431);
  expect((await rpc(url, 'ListTasks', {}, { authorization: `Bearer ${await signed(claims)}` })).status).toBe(200);
});
