import type { Metadata } from '@grpc/grpc-js';
import { authenticate } from '../auth/authenticate.ts';
import { Caller } from '../caller.ts';
import type { GrpcConnection } from '../connection.ts';
import type { Admission } from '../http/admission.ts';
import { isLoopbackHost } from '../loopback.ts';

/** A status of gRPC. */
export interface Refused {
  readonly code: number;
  readonly details: string;
}

const status = { permissionDenied: 7, resourceExhausted: 8, unavailable: 14, unauthenticated: 16 } as const;

const tooManyRequests: Refused = { code: status.resourceExhausted, details: 'Too many requests; try again later.' };

const tooManyTurns: Refused = {
  code: status.resourceExhausted,
  details: 'Too many of your tasks run or are queued; wait until one is over, or cancel one.',
};

/** A call of which nothing but the metadata has been read. */
export interface GrpcRequest {
  readonly metadata: Metadata;
  readonly peer: string;
  readonly isStream: boolean;
  /** Of the method, `/lf.a2a.v1.A2AService/SendMessage`. */
  readonly path: string;
  readonly connection: GrpcConnection;
}

/** The caller of a call, or why it is not let in. */
export async function admitCall(request: GrpcRequest, admission: Admission): Promise<Caller | Refused> {
  const { auth, limiter, streams, turns, localOnly } = admission;
  const { connection, isStream } = request;
  const phase = admission.phase();
  if (phase !== 'open') {
    const what = phase === 'closing' ? 'shuts down' : 'starts';
    return { code: status.unavailable, details: `The server ${what}; try again.` };
  }
  const address = addressOf(request.peer);
  if (localOnly && !isLoopbackHost(address)) return { code: status.permissionDenied, details: 'The server is local.' };
  const user = auth.length === 0 ? undefined : await authenticate(auth, { headers: headersOf(request) }, admission);
  if (auth.length > 0 && user === undefined) {
    if ((limiter?.take(`failed ${address}`) ?? 0) > 0) return tooManyRequests;
    return { code: status.unauthenticated, details: 'Authentication is required.' };
  }
  const caller = new Caller({ user, address, connection });
  if ((limiter?.take(caller.countedAs) ?? 0) > 0) return tooManyRequests;
  if (/\/Send(?:Streaming)?Message$/.test(request.path) && !turns.enter(caller)) return tooManyTurns;
  if (!isStream || streams.enter(caller.countedAs, connection.closed)) return caller;
  return { code: status.resourceExhausted, details: 'Too many streams are open; close one first.' };
}

function headersOf({ metadata }: GrpcRequest): Record<string, string> {
  return Object.fromEntries(Object.entries(metadata.getMap()).map(([name, value]) => [name, value.toString()]));
}

/** `127.0.0.1:4711`, `[::1]:4711` or `ipv6:…` without its port. */
function addressOf(peer: string): string {
  return /^\[?(.*?)\]?:\d+$/.exec(peer)?.[1] ?? peer;
}
