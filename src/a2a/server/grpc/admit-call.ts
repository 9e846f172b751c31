import type { Metadata } from '@grpc/grpc-js';
import { authenticate } from '../auth/authenticate.ts';
import { Caller } from '../caller.ts';
import type { GrpcConnection } from '../connection.ts';
import {
  type Admission,
  closing,
  notLocal,
  starting,
  tooManyRequests,
  tooManyStreams,
  tooManyTurns,
  unauthenticated,
} from '../http/admission.ts';
import type { Refusal } from '../http/refusal.ts';
import { isLoopbackHost } from '../loopback.ts';

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
export async function admitCall(request: GrpcRequest, admission: Admission): Promise<Caller | Refusal> {
  const { auth, limiter, streams, turns, localOnly } = admission;
  const { connection, isStream } = request;
  const phase = admission.phase();
  if (phase !== 'open') return phase === 'closing' ? closing : starting;
  const address = addressOf(request.peer);
  if (localOnly && !isLoopbackHost(address)) return notLocal;
  const user = auth.length === 0 ? undefined : await authenticate(auth, { headers: headersOf(request) }, admission);
  if (auth.length > 0 && user === undefined) {
    const failedMs = limiter?.take(`failed ${address}`) ?? 0;
    return failedMs > 0 ? tooManyRequests(failedMs) : unauthenticated(auth);
  }
  const caller = new Caller({ user, address, connection });
  const waitMs = limiter?.take(caller.countedAs) ?? 0;
  if (waitMs > 0) return tooManyRequests(waitMs);
  if (/\/Send(?:Streaming)?Message$/.test(request.path) && !turns.enter(caller)) return tooManyTurns;
  return !isStream || streams.enter(caller.countedAs, connection.closed) ? caller : tooManyStreams;
}

function headersOf({ metadata }: GrpcRequest): Record<string, string> {
  return Object.fromEntries(Object.entries(metadata.getMap()).map(([name, value]) => [name, value.toString()]));
}

/** `127.0.0.1:4711`, `[::1]:4711` or `ipv6:…` without its port. */
function addressOf(peer: string): string {
  return /^\[?(.*?)\]?:\d+$/.exec(peer)?.[1] ?? peer;
}
