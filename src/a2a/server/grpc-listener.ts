import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import type {
  Metadata,
  ServerInterceptor,
  ServerUnaryCall,
  ServerWritableStream,
  ServiceDefinition,
  StatusObject,
  UntypedHandleCall,
  UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { AgentLoopError } from '../../core/contracts/index.ts';
import { isLoopbackHost } from '../../loopback.ts';
import { type Admission, countAsked, letIn } from './admission.ts';
import { Caller, callerOf, GrpcConnection, keepCaller } from './caller.ts';
import { forLegacyGrpcClients } from './legacy-requests.ts';
import { errorDomain, errorInfoType, normalVersion, type Refusal } from './refusal.ts';

interface GrpcListenOptions {
  /** Default 50051. */
  readonly port?: number | undefined;
  readonly host: string;
  readonly handler: A2ARequestHandler;
  readonly admission: Admission;
  readonly maxBodyBytes: number;
  /** Calls of one connection that may be open at the same time. A call that is refused before its client has sent all of it counts until it has. */
  readonly maxCalls: number;
  /** How often a connection is pinged. Milliseconds; 0: never. */
  readonly heartbeatMs: number;
  /** Whether A2A 0.3 is served too. */
  readonly legacy: boolean;
}

export interface GrpcListener {
  readonly port: number;
  /** Takes no more calls, and resolves once those that run are over. */
  close(): Promise<void>;
  /** Ends those that run. */
  breakOff(): void;
}

type Call = ServerUnaryCall<unknown, unknown> | ServerWritableStream<unknown, unknown>;
type Answer = (error: object | null, value?: unknown) => void;

/**
 * A2A over gRPC, both versions, without TLS: a proxy in front of it, or the loopback, is where that belongs. Errors: `MISSING_PACKAGE`,
 * `UNAVAILABLE` where the port cannot be had.
 */
export async function startGrpc(options: GrpcListenOptions): Promise<GrpcListener> {
  const { port = 50_051, host, handler, admission, maxBodyBytes, maxCalls, heartbeatMs } = options;
  const loaded = await packages();
  const { grpc, A2AService, grpcService, LegacyA2AService, legacyGrpcService } = loaded;
  const server = new grpc.Server({
    'grpc.max_receive_message_length': maxBodyBytes,
    'grpc.max_concurrent_streams': Math.min(maxCalls, 2 ** 31 - 1),
    interceptors: [admitting(loaded, admission)],
    ...(heartbeatMs > 0 && { 'grpc.keepalive_time_ms': heartbeatMs }),
  });
  const serviceOptions = {
    requestHandler: handler,
    userBuilder: async (call: Call) => callerOf(call.metadata),
  };
  server.addService(tolerant(A2AService), readable(grpcService(serviceOptions)));
  if (options.legacy) {
    const legacy = legacyGrpcService({ ...serviceOptions, requestHandler: forLegacyGrpcClients(handler) });
    server.addService(tolerant(LegacyA2AService), readable(legacy));
  }
  const target = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(target, grpc.ServerCredentials.createInsecure(), (cause, found) => {
      if (cause) reject(new AgentLoopError('UNAVAILABLE', `gRPC cannot listen on ${target}.`, { cause }));
      else resolve(found);
    });
  });
  return {
    port: bound,
    close: () => new Promise((resolve) => server.tryShutdown(() => resolve())),
    breakOff: () => server.forceShutdown(),
  };
}

/**
 * Lets a call in by its metadata alone. Nothing of its message is read before that: no bytes are taken off the connection, unpacked or
 * parsed for a caller whom the server does not know.
 */
function admitting(
  packages: StatusPackages & { readonly grpc: typeof import('@grpc/grpc-js') },
  admission: Admission,
): ServerInterceptor {
  return ({ responseStream: isStream, path }, call) => {
    const connection = new GrpcConnection();
    let refused: () => Refusal | undefined = () => undefined;
    return new packages.grpc.ServerInterceptingCall(call, {
      start: (next) =>
        next({
          onReceiveMetadata(metadata, admit) {
            const version = normalVersion(metadata.get('a2a-version')[0]?.toString());
            if (version !== undefined) metadata.set('a2a-version', version);
            void admitCall({ metadata, peer: call.getPeer(), isStream, path, connection }, admission).then((caller) => {
              if (!(caller instanceof Caller)) return call.sendStatus(statusOf(caller, packages));
              keepCaller(metadata, caller);
              refused = () => caller.refusal ?? caller.failure;
              admit(metadata);
            });
          },
          onCancel: () => connection.close(),
        }),
      // Refusals by limits inside the handler get the same status as refusals here, and errors inside keep their code; the service of the SDK knows neither.
      sendStatus: (status, next) => {
        const refusal = refused();
        next(refusal ? statusOf(refusal, packages) : status);
      },
    });
  };
}

/** Stands for the message of a call that is none of the protocol. */
const unreadable = Symbol('unreadable');

const unreadableStatus = { code: 3, details: 'The request is not a message of the method.' } as const;

/** Methods whose messages may be anything: what cannot be parsed is the client's fault, and no internal error. */
function tolerant<D extends ServiceDefinition>(service: D): ServiceDefinition {
  const methods = Object.entries(service).map(([name, method]) => {
    const requestDeserialize = (bytes: Buffer): unknown => {
      try {
        return method.requestDeserialize(bytes);
      } catch {
        return unreadable;
      }
    };
    return [name, { ...method, requestDeserialize }];
  });
  return Object.fromEntries(methods);
}

/** The methods of a service for messages that could be parsed. */
function readable(service: UntypedServiceImplementation): UntypedServiceImplementation {
  const guard =
    (method: UntypedHandleCall): UntypedHandleCall =>
    (call: Call, answer?: Answer) => {
      if (call.request !== unreadable) {
        const { connection } = callerOf(call.metadata);
        if (connection instanceof GrpcConnection && 'writableNeedDrain' in call) connection.writeTo(call);
        Reflect.apply(method, service, answer ? [call, answer] : [call]);
      } else if (answer) answer(unreadableStatus);
      else call.emit('error', unreadableStatus);
    };
  return Object.fromEntries(Object.entries(service).map(([name, method]) => [name, guard(method)]));
}

async function packages() {
  try {
    const [grpc, current, legacy, { BinaryWriter }] = await Promise.all([
      import('@grpc/grpc-js'),
      import('@a2a-js/sdk/server/grpc'),
      import('@a2a-js/sdk/compat/v0_3/server/grpc'),
      import('@bufbuild/protobuf/wire'),
    ]);
    return { grpc, BinaryWriter, ...current, ...legacy };
  } catch (cause) {
    const message =
      'gRPC needs packages that cannot be loaded; run `npm install @grpc/grpc-js @bufbuild/protobuf`, or leave grpc out.';
    throw new AgentLoopError('MISSING_PACKAGE', message, { cause });
  }
}

/** A call of which nothing but the metadata has been read. */
interface GrpcRequest {
  readonly metadata: Metadata;
  readonly peer: string;
  readonly isStream: boolean;
  /** Of the method, `/lf.a2a.v1.A2AService/SendMessage`. */
  readonly path: string;
  readonly connection: GrpcConnection;
}

/** The caller of a call, or why it is not let in. */
async function admitCall(request: GrpcRequest, admission: Admission): Promise<Caller | Refusal> {
  const { peer, path, isStream: stream, connection } = request;
  const address = addressOf(peer);
  const isLocal = () => isLoopbackHost(address);
  const caller = await letIn({ request: { headers: headersOf(request) }, address, isLocal, connection }, admission);
  if (!(caller instanceof Caller)) return caller;
  return countAsked(caller, { turn: /\/Send(?:Streaming)?Message$/.test(path), stream }, admission) ?? caller;
}

function headersOf({ metadata }: GrpcRequest): Record<string, string> {
  return Object.fromEntries(Object.entries(metadata.getMap()).map(([name, value]) => [name, value.toString()]));
}

/** `127.0.0.1:4711`, `[::1]:4711` or `ipv6:…` without its port. */
function addressOf(peer: string): string {
  return /^\[?(.*?)\]?:\d+$/.exec(peer)?.[1] ?? peer;
}

/** What is used of packages that are loaded once gRPC is offered. */
interface StatusPackages {
  readonly grpc: { readonly Metadata: new () => Metadata };
  readonly BinaryWriter: typeof import('@bufbuild/protobuf/wire').BinaryWriter;
}

const codes: Readonly<Record<string, number>> = {
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
};

/** The response to a refused call: the status, with its details as `google.rpc.Status`, and when to retry, in seconds. */
function statusOf(refusal: Refusal, { grpc, BinaryWriter }: StatusPackages): StatusObject {
  const { statusName, message, reason, headers, metadata: figures = {} } = refusal;
  const code = codes[statusName] ?? 2;
  const info = new BinaryWriter().uint32(10).string(reason).uint32(18).string(errorDomain);
  for (const [name, value] of Object.entries(figures))
    info.uint32(26).fork().uint32(10).string(name).uint32(18).string(value).join();
  const details = new BinaryWriter().uint32(10).string(errorInfoType).uint32(18).bytes(info.finish());
  const status = new BinaryWriter().uint32(8).int32(code).uint32(18).string(message).uint32(26).bytes(details.finish());
  const metadata = new grpc.Metadata();
  metadata.set('grpc-status-details-bin', Buffer.from(status.finish()));
  const seconds = headers?.['Retry-After'];
  if (seconds !== undefined) metadata.set('retry-after', seconds);
  return { code, details: message, metadata };
}
