import { LegacyA2AService } from '@a2a-js/sdk/compat/v0_3/server/grpc';
import { A2AService } from '@a2a-js/sdk/server/grpc';
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import type { Random } from '../../crash/random.ts';
import { type Attacked, attackedServer } from './a2a-server.ts';
import type { Outcome, Target } from './fuzz-run.ts';
import { mangledBytes, oddHeader } from './mutations.ts';

interface Method {
  readonly path: string;
  readonly responseStream: boolean;
  readonly encode: (id: string, random: Random, hook: string) => Buffer;
}

const part = (random: Random) => ({ text: random.pick(['Refund', 'Hi', 'Go']) });

/** The message of a method, as the official codec writes it from JSON. */
const methods: readonly Method[] = [
  ...Object.entries(A2AService).map(([name, { path, responseStream, requestSerialize, requestDeserialize }]) => ({
    path,
    responseStream,
    encode: (id: string, random: Random, hook: string) => {
      const value = Object.assign(requestDeserialize(Buffer.alloc(0)), currentFields(name, { id, random, hook }));
      return Buffer.from(Reflect.apply(requestSerialize, undefined, [value]));
    },
  })),
  ...Object.entries(LegacyA2AService).map(([name, { path, responseStream, requestSerialize, requestDeserialize }]) => ({
    path,
    responseStream,
    encode: (id: string, random: Random) => {
      const value = Object.assign(requestDeserialize(Buffer.alloc(0)), legacyFields(name, { id, random }));
      return Buffer.from(Reflect.apply(requestSerialize, undefined, [value]));
    },
  })),
];

function currentFields(name: string, { id, random, hook }: { id: string; random: Random; hook: string }): object {
  if (/^send(Streaming)?Message$/.test(name)) {
    const content = { $case: 'text', value: part(random).text };
    const parts = [{ content, metadata: undefined, filename: '', mediaType: '' }];
    const message = {
      messageId: `g${random.int(1, 1_000_000)}`,
      taskId: random.chance(0.4) ? id : '',
      contextId: '',
      role: 1,
      parts,
    };
    return { message: { ...message, metadata: undefined, extensions: [], referenceTaskIds: [] } };
  }
  if (/^createTaskPush/.test(name)) return { taskId: id, url: hook };
  return /PushNotification/.test(name) ? { taskId: id, id: 'x' } : { id };
}

function legacyFields(name: string, { id, random }: { id: string; random: Random }): object {
  if (!/^send(Streaming)?Message$/.test(name)) return { name: `tasks/${id}`, parent: `tasks/${id}` };
  const message = { messageId: `g${random.int(1, 1_000_000)}`, taskId: '', contextId: '', role: 1 };
  const content = [{ part: { $case: 'text', value: part(random).text } }];
  return { request: { ...message, content, metadata: undefined, extensions: [] } };
}

/** UNKNOWN, INTERNAL and DATA_LOSS: the server does not know what went wrong, or failed. */
const faulty: ReadonlySet<number> = new Set([2, 13, 15]);

export async function grpcTarget(): Promise<Target> {
  const server = await attackedServer();
  const client = new Client(server.grpcAddress, credentials.createInsecure());
  return {
    name: 'A2A over gRPC',
    async close() {
      client.close();
      await server.close();
    },
    send: (random) => send(server, client, random),
  };
}

function send(server: Attacked, client: Client, random: Random): Promise<Outcome> {
  const method = methods[random.int(0, methods.length - 1)];
  if (!method) throw new Error('there is no method');
  const id = server.taskId(random);
  const whole = method.encode(id, random, server.hook);
  const bytes = random.chance(0.15) ? whole : mangledBytes(whole, random);
  const metadata = new Metadata();
  metadata.set('a2a-version', method.path.startsWith('/lf.') ? '1.0' : '0.3');
  if (random.chance(0.15)) {
    const name = random.pick(['a2a-version', 'a2a-extensions', 'last-event-id', 'x-api-key', 'grpc-accept-encoding']);
    try {
      metadata.set(name, oddHeader(random));
    } catch {
      // No client of gRPC can send it.
    }
  }
  const sent = `${method.path} ${JSON.stringify(metadata.getMap())} ${bytes.toString('hex').slice(0, 400)}`;
  const raw = (value: Buffer) => value;
  const outcome = ({ code, details }: Pick<ServiceError, 'code' | 'details'>): Outcome =>
    faulty.has(code) ? { sent, fault: `status ${code}: ${details}` } : { sent };
  return new Promise((resolve) => {
    if (!method.responseStream) {
      client.makeUnaryRequest(method.path, raw, raw, bytes, metadata, (error, answer) => {
        if (answer) server.saw(`"id":"${/[0-9a-f]{8}-[0-9a-f-]{27}/.exec(answer.toString('latin1'))?.[0] ?? ''}"`);
        resolve(error ? outcome(error) : { sent });
      });
      return;
    }
    const stream = client.makeServerStreamRequest(method.path, raw, raw, bytes, metadata);
    // What comes first is enough: a task that waits keeps its stream open.
    stream.once('data', () => {
      stream.cancel();
      resolve({ sent });
    });
    stream.once('end', () => resolve({ sent }));
    stream.on('error', (error: ServiceError) => resolve(error.code === 1 ? { sent } : outcome(error)));
  });
}
