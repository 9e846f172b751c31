import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import type {
  ServerUnaryCall,
  ServerWritableStream,
  UntypedHandleCall,
  UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { AgentLoopError } from '../../../core/errors.ts';
import { callerOf, keepCaller } from '../call-context.ts';
import type { Admission } from '../http/admission.ts';
import { normalVersion } from '../http/protocol-version.ts';
import { admitCall, type Refused } from './admit-call.ts';

export interface GrpcListenOptions {
  /** Default 50051. */
  readonly port?: number;
  readonly host: string;
  readonly handler: A2ARequestHandler;
  readonly admission: Admission;
  readonly maxBodyBytes: number;
  /** How often a connection is asked for a sign of life. Milliseconds; 0: never. */
  readonly heartbeatMs: number;
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
  const { port = 50_051, host, handler, admission, maxBodyBytes, heartbeatMs } = options;
  const { grpc, A2AService, grpcService, LegacyA2AService, legacyGrpcService } = await packages();
  const server = new grpc.Server({
    'grpc.max_receive_message_length': maxBodyBytes,
    ...(heartbeatMs > 0 && { 'grpc.keepalive_time_ms': heartbeatMs }),
  });
  const serviceOptions = {
    requestHandler: handler,
    userBuilder: async (call: Call) => callerOf(call),
  };
  server.addService(A2AService, admitted(grpcService(serviceOptions), admission));
  server.addService(LegacyA2AService, admitted(legacyGrpcService(serviceOptions), admission));
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

/** Each method behind the same checks as those of HTTP. */
function admitted(service: UntypedServiceImplementation, admission: Admission): UntypedServiceImplementation {
  const guard =
    (method: UntypedHandleCall): UntypedHandleCall =>
    (call: Call, answer?: Answer) => {
      const { metadata } = call;
      const version = normalVersion(metadata.get('a2a-version')[0]?.toString());
      if (version !== undefined) metadata.set('a2a-version', version);
      const refuse = (refused: Refused) => {
        if (answer) answer(refused);
        else call.emit('error', refused);
      };
      void admitCall(call, answer === undefined, admission).then((caller) => {
        if ('code' in caller) return refuse(caller);
        keepCaller(call, caller);
        Reflect.apply(method, service, answer ? [call, answer] : [call]);
      });
    };
  return Object.fromEntries(Object.entries(service).map(([name, method]) => [name, guard(method)]));
}

async function packages() {
  try {
    const [grpc, current, legacy] = await Promise.all([
      import('@grpc/grpc-js'),
      import('@a2a-js/sdk/server/grpc'),
      import('@a2a-js/sdk/compat/v0_3/server/grpc'),
    ]);
    return { grpc, ...current, ...legacy };
  } catch (cause) {
    const message =
      'gRPC needs packages that cannot be loaded; run `npm install @grpc/grpc-js @bufbuild/protobuf`, or leave grpc out.';
    throw new AgentLoopError('MISSING_PACKAGE', message, { cause });
  }
}
