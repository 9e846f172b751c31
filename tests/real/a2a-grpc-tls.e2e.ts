import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Task } from '@a2a-js/sdk';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { remoteAgent } from 'millrace/a2a';
import { wireTask } from '../a2a/client/wire-server.ts';
import { describeReal } from './real-part.ts';

const rootsVariable = 'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH';
const certificate = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'];
const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];

describeReal(['openssl'], 'remoteAgent over gRPC with TLS', () => {
  const closing: (() => unknown)[] = [];
  afterAll(async () => {
    for (const close of closing.reverse()) await close();
  });
  let port: number;
  let cardUrl: string;
  const shown: unknown[] = [];

  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), 'millrace-tls-'));
    closing.push(() => rm(folder, { recursive: true }));
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    await promisify(execFile)('openssl', [...certificate, ...subject, '-keyout', key, '-out', cert]);
    // Read once, when the package is loaded.
    process.env[rootsVariable] = cert;
    closing.push(() => delete process.env[rootsVariable]);
    const { Server, ServerCredentials } = await import('@grpc/grpc-js');
    const { A2AService } = await import('@a2a-js/sdk/server/grpc');
    const server = new Server();
    type Call = { readonly metadata: { get(name: string): unknown[] } };
    const task = Task.fromJSON(wireTask('COMPLETED', ['Safe.']));
    server.addService(A2AService, {
      sendMessage(call: Call, answer: (error: null, value: object) => void) {
        shown.push(...call.metadata.get('authorization'));
        answer(null, { payload: { $case: 'task', value: task } });
      },
      getTask: (_call: Call, answer: (error: null, value: object) => void) => answer(null, task),
    });
    const pair = { private_key: await readFile(key), cert_chain: await readFile(cert) };
    const credentials = ServerCredentials.createSsl(null, [pair]);
    port = await new Promise<number>((resolve, reject) => {
      server.bindAsync('127.0.0.1:0', credentials, (error, found) => (error ? reject(error) : resolve(found)));
    });
    closing.push(() => server.forceShutdown());
    const http = createServer((request, response) => {
      const host = new URL(request.url ?? '/', 'http://x').searchParams.get('host');
      const supportedInterfaces = [{ url: `${host}:${port}`, protocolBinding: 'GRPC', protocolVersion: '1.0' }];
      const card = { name: 'Safe', description: 'Is safe.', version: '1', supportedInterfaces, capabilities: {} };
      response.setHeader('content-type', 'application/json').end(JSON.stringify(card));
    });
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    closing.push(() => {
      http.closeAllConnections();
      http.close();
    });
    cardUrl = `http://127.0.0.1:${(http.address() as AddressInfo).port}/card.json`;
  });

  const run = async (host: string) => {
    const auth = { bearer: 'a-secret-of-mine' };
    const origins = [`https://${host}:${port}`];
    const far = await remoteAgent({ url: `${cardUrl}?host=${host}`, origins, auth, silenceMs: 1 });
    return far.run('Go.');
  };

  it('reaches a server whose certificate is trusted and of its name, with its credentials', async () => {
    expect((await run('localhost')).text).toBe('Safe.');
    expect(shown).toEqual(['Bearer a-secret-of-mine']);
  });

  it('sends nothing to one whose certificate is of another name', async () => {
    await expect(run('127.0.0.1')).rejects.toMatchObject({ code: 'PROVIDER_UNREACHABLE' });
    expect(shown).toHaveLength(1);
  });
});
