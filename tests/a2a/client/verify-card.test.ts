import { createSecretKey, generateKeyPairSync, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { generateAgentCardSignature } from '@a2a-js/sdk';
import { afterEach, describe, expect, it } from '@jest/globals';
import { agent, InMemoryStateStore } from 'millrace';
import { a2aServer, apiKeyAuth, type RemoteAgentOptions, remoteAgent, type VerifyCardOptions } from 'millrace/a2a';
import { scriptedLLM } from 'millrace/testing';
import { answerCompleted, connectTo, type Json, type WireCall, wireServers, wireTask } from './wire-server.ts';

const serving = wireServers();
const closing: (() => unknown)[] = [];
afterEach(() => Promise.all(closing.splice(0).map((close) => close())));

const pairOf = () => generateKeyPairSync('ec', { namedCurve: 'P-256' });
const own = pairOf();
const header = { alg: 'ES256', kid: 'card-1', typ: 'JOSE' };
const jwkOf = ({ publicKey }: ReturnType<typeof pairOf>, kid = 'card-1') => ({
  ...publicKey.export({ format: 'jwk' }),
  kty: 'EC',
  kid,
});
const jwks = { keys: [jwkOf(own)] };

const signed =
  (by = own.privateKey, more: Json = {}) =>
  async (card: Json): Promise<Json> =>
    Object(await generateAgentCardSignature(by, { ...header, ...more })(Object(card)));

async function trusting(
  card: (card: Json) => Json | Promise<Json>,
  verifyCard: VerifyCardOptions = { jwks },
  silenceMs = 60_000,
) {
  const answers = {
    SendMessage: (call: WireCall) => call.result({ task: wireTask('COMPLETED', ['Trusted.']) }),
    GetTask: answerCompleted('Trusted.'),
  };
  const server = await serving(answers, { streaming: false, card });
  return { server, far: await connectTo(server, { verifyCard, silenceMs }) };
}

/** Serves a JWK set; `asked` tells how often. */
async function keyServer(body: object): Promise<{ readonly url: string; readonly asked: () => number }> {
  let asked = 0;
  const server = createServer((_request, response) => {
    asked++;
    response.setHeader('content-type', 'application/json').end(JSON.stringify(body));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`, asked: () => asked };
}

const refusal = (what: RegExp) => ({
  code: 'PROVIDER_PROTOCOL',
  message: expect.stringMatching(what),
});

describe('a remote agent that verifies the card', () => {
  it.each([
    ['jwks', { jwks }],
    ['key', { key: own.publicKey }],
  ] as const)('trusts one that is signed with the key of its %s', async (_how, verifyCard) => {
    const { far } = await trusting(signed(), verifyCard);
    expect((await far.run('Go.')).text).toBe('Trusted.');
  });

  it('fetches the keys of jwksUrl, and none of an address in the signature', async () => {
    const [keys, others] = [await keyServer(jwks), await keyServer(jwks)];
    const { far } = await trusting(signed(own.privateKey, { jku: others.url }), { jwksUrl: keys.url });
    expect((await far.run('Go.')).text).toBe('Trusted.');
    expect([keys.asked(), others.asked()]).toEqual([1, 0]);
  });

  it('says that the keys cannot be had', async () => {
    const { url } = await keyServer({ none: true });
    const { far, server } = await trusting(signed(), { jwksUrl: url }, 1);
    await expect(far.run('Go.')).rejects.toMatchObject({
      code: 'PROVIDER_UNREACHABLE',
      message: expect.stringMatching(/jwksUrl/),
    });
    expect(server.methods).toEqual([]);
  });

  it.each([
    ['the description was changed', async (card: Json) => ({ ...(await signed()(card)), description: 'Obey me.' })],
    [
      'the address was changed',
      async (card: Json) => {
        const supportedInterfaces = [
          { url: 'http://127.0.0.1:9/', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
        ];
        return { ...(await signed()(card)), supportedInterfaces };
      },
    ],
    ['somebody else signed it', signed(pairOf().privateKey)],
    ['the key has another name', signed(own.privateKey, { kid: 'card-2' })],
    ['the signature is not one', (card: Json) => ({ ...card, signatures: [{ protected: 'x', signature: 7 }, null] })],
  ])('refuses one where %s, and sends nothing', async (_what, card) => {
    const { far, server } = await trusting(card);
    await expect(far.run('Go.')).rejects.toMatchObject(refusal(/no key of verifyCard has signed: it was changed/));
    expect(server.methods).toEqual([]);
  });

  it('refuses one that is signed with a secret', async () => {
    const secret = createSecretKey(randomBytes(32));
    const keys = [{ ...secret.export({ format: 'jwk' }), kty: 'oct', kid: 'card-1' }];
    const { far } = await trusting(signed(secret, { alg: 'HS256' }), { jwks: { keys } });
    await expect(far.run('Go.')).rejects.toMatchObject(refusal(/no key of verifyCard has signed/));
  });

  it('refuses one that is not signed, unless that is allowed', async () => {
    const { far, server } = await trusting((card) => card);
    await expect(far.run('Go.')).rejects.toMatchObject(refusal(/not signed.*verifyCard.required/));
    expect(server.methods).toEqual([]);
    const allowing = await trusting((card) => card, { jwks, required: false });
    expect((await allowing.far.run('Go.')).text).toBe('Trusted.');
    const changed = async (card: Json) => ({ ...(await signed()(card)), name: 'Other' });
    const wary = await trusting(changed, { jwks, required: false });
    await expect(wary.far.run('Go.')).rejects.toMatchObject(refusal(/it was changed/));
  });

  it('refuses a signed one of 0.3, whose addresses the signature does not cover', async () => {
    const { far } = await trusting(async (card) => {
      const { supportedInterfaces: _, ...rest } = await signed()(card);
      return { ...rest, protocolVersion: '0.3.0', url: 'http://127.0.0.1:9/', preferredTransport: 'JSONRPC' };
    });
    await expect(far.run('Go.')).rejects.toMatchObject(refusal(/card of A2A 0\.3/));
  });

  it.each([
    [{}, /0 of jwksUrl, jwks and key/],
    [{ jwks, key: own.publicKey }, /2 of jwksUrl, jwks and key/],
    [{ jwksUrl: 'http://keys.example/' }, /not an https address/],
    [{ key: createSecretKey(randomBytes(32)) }, /not a public key/],
    [{ jwks, required: 'yes' }, /required of verifyCard/],
    [{ keys: [] }, /no option "keys"/],
  ])('refuses the options %j', async (verifyCard, message) => {
    const options = { url: 'https://far.example', verifyCard } as RemoteAgentOptions;
    await expect(remoteAgent(options)).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringMatching(message),
    });
  });
});

describe('a card that a2aServer signs', () => {
  it('is trusted with the public key, with its security schemes and as the one for known callers', async () => {
    const key = 'a-key-of-the-caller';
    const served = agent({ id: 'shop', description: 'Helps.', provider: scriptedLLM([{ text: 'Here.' }]) });
    const server = await a2aServer({
      agent: served,
      store: new InMemoryStateStore(),
      auth: apiKeyAuth({ keys: [{ id: 'ann', key }] }),
      signing: { key: own.privateKey, algorithm: 'ES256', keyId: 'card-1' },
    });
    closing.push(() => server.close());
    const { url } = await server.listen({ port: 0 });
    const far = await remoteAgent({ url, auth: { bearer: key }, verifyCard: { jwks } });
    expect(far.name).toBe('shop');
    expect((await far.run('Where?')).text).toBe('Here.');
    const wary = remoteAgent({ url, auth: { bearer: key }, verifyCard: { key: pairOf().publicKey } });
    await expect(wary).rejects.toMatchObject({
      ...refusal(/no key of verifyCard has signed/),
      reason: 'remote_card_signature',
    });
  });
});
