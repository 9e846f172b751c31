import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type StreamResponse, Task } from '@a2a-js/sdk';
import { A2AService } from '@a2a-js/sdk/server/grpc';
import { Server, ServerCredentials, type ServerUnaryCall, type ServerWritableStream } from '@grpc/grpc-js';
import { type RemoteAgentOptions, remoteAgent } from 'millrace/a2a';
import type { serverBench } from '../server/test-server.ts';
import { wireTask } from './wire-server.ts';

type Bench = Pick<ReturnType<typeof serverBench>, 'after'>;

/** Serves a card. */
export async function cardAt(on: Bench, card: object): Promise<string> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify(card));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  on.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A card of an agent whose only binding is gRPC, beside those given. */
export const cardOf = (url: string, more: readonly object[] = [], protocolVersion = '1.0') => ({
  name: 'Wire',
  description: 'Answers by hand.',
  version: '1',
  supportedInterfaces: [{ url, protocolBinding: 'GRPC', protocolVersion }, ...more],
  capabilities: { streaming: true },
});

export type Stream = ServerWritableStream<unknown, StreamResponse>;
type Unary = ServerUnaryCall<unknown, unknown>;
interface Answers {
  readonly stream?: (call: Stream) => void;
  readonly task?: () => Task;
  readonly send?: (answer: (error: object) => void) => void;
}

/** A server of A2A 1.0 over gRPC whose every answer is the test's. */
export async function grpcWire(
  on: Bench,
  { stream = () => {}, task, send }: Answers,
  options: Partial<RemoteAgentOptions> = {},
) {
  const server = new Server();
  const calls: string[] = [];
  server.addService(A2AService, {
    sendStreamingMessage(call: Stream) {
      calls.push('SendStreamingMessage');
      stream(call);
    },
    sendMessage(_call: Unary, answer: (error: object) => void) {
      calls.push('SendMessage');
      send?.(answer);
    },
    getTask(_call: Unary, answer: (error: null, value: Task) => void) {
      calls.push('GetTask');
      if (task) answer(null, task());
    },
    cancelTask(_call: Unary, answer: (error: null, value: Task) => void) {
      calls.push('CancelTask');
      answer(null, Task.fromJSON(wireTask('CANCELED')));
    },
  });
  const bound = (port: number) =>
    new Promise<number>((resolve, reject) => {
      const use = ServerCredentials.createInsecure();
      server.bindAsync(`127.0.0.1:${port}`, use, (error, found) => (error ? reject(error) : resolve(found)));
    });
  const port = await bound(0);
  on.after(() => server.forceShutdown());
  const url = await cardAt(on, cardOf(`127.0.0.1:${port}`));
  const origins = [`http://127.0.0.1:${port}`];
  const far = await remoteAgent({ url, origins, name: 'far', description: 'Far.', contextId: 'c', ...options });
  return { far, calls, port };
}
