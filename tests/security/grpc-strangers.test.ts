import { once } from 'node:events';
import { type ClientHttp2Session, connect } from 'node:http2';
import { deflateSync } from 'node:zlib';
import { A2AService } from '@a2a-js/sdk/server/grpc';
import { afterAll, expect, it } from '@jest/globals';
import { apiKeyAuth } from 'millrace/a2a';
import { key, serverBench } from '../a2a/server/test-server.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';

const on = serverBench();
const children = new ChildPrograms('tests/security/children');
afterAll(() => children.clear());
const unauthenticated = '16';
const invalidArgument = '3';
const resourceExhausted = '8';
const paths = [
  '/lf.a2a.v1.A2AService/SendMessage',
  '/lf.a2a.v1.A2AService/SendStreamingMessage',
  '/a2a.v1.A2AService/SendMessage',
];

async function session(requests = 1_000): Promise<ClientHttp2Session> {
  const auth = apiKeyAuth({ keys: [{ id: 'alice', key }] });
  const rateLimit = { requests, perMs: 3_600_000 };
  const { grpcAddress } = await on.serve({ agent: on.echo([]), auth, rateLimit, grpc: { port: 0 } });
  const http2 = connect(`http://${grpcAddress}`);
  on.after(() => http2.destroy());
  return http2;
}

/** A message in the frame of gRPC. */
function framed(bytes: Buffer, compressed = false): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(compressed ? 1 : 0, 0);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

interface Sent {
  readonly path?: string;
  readonly body?: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether the client says that nothing follows. */
  readonly ends?: boolean;
}

/** The status that a call ends with. */
async function statusOf(
  http2: ClientHttp2Session,
  { path = paths[0], body, headers = {}, ends = true }: Sent,
): Promise<string> {
  const stream = http2.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...headers,
  });
  let status: unknown;
  stream.on('response', (answered) => {
    status = answered['grpc-status'];
  });
  stream.on('trailers', (trailers) => {
    status = trailers['grpc-status'];
  });
  stream.on('error', () => {});
  if (body) stream.write(body);
  if (ends) stream.end();
  stream.resume();
  await once(stream, ends ? 'close' : 'end');
  stream.close();
  return String(status);
}

it('the paths are those of the services', () => {
  expect(paths.slice(0, 2)).toEqual([A2AService.sendMessage.path, A2AService.sendStreamingMessage.path]);
});

it.each(paths)('H-06 garbage without a key is UNAUTHENTICATED, with one INVALID_ARGUMENT: %s', async (path) => {
  const http2 = await session();
  const garbage = framed(Buffer.alloc(512, 0xff));
  expect(await statusOf(http2, { path, body: garbage })).toBe(unauthenticated);
  expect(await statusOf(http2, { path, body: garbage, headers: { 'x-api-key': key } })).toBe(invalidArgument);
});

it('H-06 a stranger is refused before a byte of the message is read or unpacked', async () => {
  const http2 = await session();
  expect(await statusOf(http2, { ends: false })).toBe(unauthenticated);
  const bomb = framed(deflateSync(Buffer.alloc(64 * 1024 * 1024)), true);
  expect(await statusOf(http2, { body: bomb, headers: { 'grpc-encoding': 'deflate' } })).toBe(unauthenticated);
});

it('H-06 calls without a key count against the rate limit, and leave those with one alone', async () => {
  const http2 = await session(3);
  const strangers: string[] = [];
  for (let call = 0; call < 5; call++) strangers.push(await statusOf(http2, { body: framed(Buffer.alloc(64, 0xff)) }));
  expect(strangers).toEqual([unauthenticated, unauthenticated, unauthenticated, resourceExhausted, resourceExhausted]);
  expect(await statusOf(http2, { body: framed(Buffer.alloc(64, 0xff)), headers: { 'x-api-key': key } })).toBe(
    invalidArgument,
  );
});

it('H-06 4 MiB without a key cost less than 5 ms of CPU', async () => {
  const server = children.start('grpc-server', key);
  on.after(() => kill(server));
  const [address]: unknown[] = await nextMessage(server);
  /** The processor time that the server has used. Milliseconds. */
  const cpuMs = async () => {
    const told = nextMessage(server);
    server.send('cpu');
    const [ms]: unknown[] = await told;
    return Number(ms);
  };
  const body = framed(Buffer.alloc(4 * 1024 * 1024, 0xff));
  const call = async () => {
    const http2 = connect(`http://${address}`);
    http2.on('error', () => {});
    const status = await statusOf(http2, { body });
    http2.destroy();
    return status;
  };
  for (let warmUp = 0; warmUp < 50; warmUp++) expect(await call()).toBe(unauthenticated);
  // The least counts: what else the machine does is added to the others, and on a busy one to most of them.
  let least = Number.POSITIVE_INFINITY;
  for (let batch = 0; batch < 200 && least >= 5; batch++) {
    const before = await cpuMs();
    for (let count = 0; count < 10; count++) expect(await call()).toBe(unauthenticated);
    least = Math.min(least, ((await cpuMs()) - before) / 10);
  }
  expect(least).toBeLessThan(5);
});
