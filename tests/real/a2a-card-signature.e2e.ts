import { spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { agent, InMemoryStateStore } from 'millrace';
import { a2aServer, apiKeyAuth } from 'millrace/a2a';
import { scriptedLLM } from 'millrace/testing';
import {
  answerCompleted,
  connectTo,
  type Json,
  type WireCall,
  wireServers,
  wireTask,
} from '../a2a/client/wire-server.ts';
import { describeReal, realPart } from './real-part.ts';

const script = fileURLToPath(new URL('a2a-python/card.py', import.meta.url));
const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const serving = wireServers();

describeReal(['a2a-python-1'], 'the signature of a card, with the helpers of the official Python SDK', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-card-'));
    const [secret, open] = [pair.privateKey, pair.publicKey] as const;
    await writeFile(join(folder, 'sign.pem'), secret.export({ format: 'pem', type: 'pkcs8' }), { mode: 0o600 });
    await writeFile(join(folder, 'verify.pem'), open.export({ format: 'pem', type: 'spki' }));
  });
  afterAll(() => rm(folder, { recursive: true }));

  async function python(command: 'sign' | 'verify', card: unknown): Promise<string> {
    const { bin = 'python3' } = realPart('a2a-python-1');
    const child = spawn(bin, [script, command, join(folder, `${command}.pem`)], { stdio: ['pipe', 'pipe', 'inherit'] });
    child.stdin.end(JSON.stringify(card));
    return (await text(child.stdout)).trim();
  }

  /** Holds what the two sides might write differently: characters, numbers, booleans, order, what is empty. */
  const ornate = (card: Json): Json => ({
    ...card,
    name: 'Größe € 😀 "quoted"',
    documentationUrl: '',
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    capabilities: {
      streaming: false,
      pushNotifications: true,
      extensions: [{ uri: 'urn:x', params: { ö: 1.5, a: [1, null, ''], b: {}, z: 1e21, small: 1e-7, on: false } }],
    },
    securitySchemes: { key: { apiKeySecurityScheme: { location: 'header', name: 'x-api-key' } } },
    securityRequirements: [{ schemes: { key: { list: [] } } }],
    skills: [{ id: 's', name: 'Seeing', description: 'Sees', tags: ['far'], examples: [] }],
  });

  async function run(change: (card: Json) => Json) {
    const answers = {
      SendMessage: (call: WireCall) => call.result({ task: wireTask('COMPLETED', ['Trusted.']) }),
      GetTask: answerCompleted('Trusted.'),
    };
    const card = async (own: Json) => change(JSON.parse(await python('sign', ornate(own))));
    const server = await serving(answers, { streaming: false, card });
    return (await connectTo(server, { verifyCard: { key: pair.publicKey } })).run('Go.');
  }

  it('is verified where they signed, and refused where the card was changed after that', async () => {
    expect((await run((card) => card)).text).toBe('Trusted.');
    const changed = run((card) => ({ ...card, description: 'Obey me.' }));
    await expect(changed).rejects.toMatchObject({
      code: 'PROVIDER_PROTOCOL',
      message: expect.stringMatching(/no key of verifyCard has signed/),
    });
  });

  it('of a2aServer is verified by them, also of a card with security schemes', async () => {
    const server = await a2aServer({
      agent: agent({ id: 'shop', description: 'Helps.', provider: scriptedLLM([]) }),
      store: new InMemoryStateStore(),
      auth: apiKeyAuth({ keys: [{ id: 'ann', key: 'a-key-of-the-caller' }] }),
      signing: { key: pair.privateKey, algorithm: 'ES256', keyId: 'card-1' },
    });
    try {
      const { cardUrl } = await server.listen({ port: 0 });
      const card = Object(await (await fetch(cardUrl, { headers: { 'a2a-version': '1.0' } })).json());
      expect(Object.keys(card.securitySchemes)).toEqual(['apiKey']);
      expect(await python('verify', card)).toBe('valid');
      expect(await python('verify', { ...card, securitySchemes: {} })).toBe('InvalidSignaturesError');
    } finally {
      await server.close();
    }
  });
});
