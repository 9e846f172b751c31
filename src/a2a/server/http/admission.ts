import type { Request, RequestHandler } from 'express';
import type { Clock, Logger } from '../../../core/contracts/index.ts';
import { authenticate, challengesOf } from '../auth/authenticate.ts';
import type { Authentication } from '../auth/authentication.ts';
import { callerOf, keepCaller } from '../call-context.ts';
import { Caller } from '../caller.ts';
import { httpConnection } from '../connection.ts';
import { hostNameIn, isLoopbackHost } from '../loopback.ts';
import type { RateLimiter } from '../rate-limiter.ts';
import type { StreamCounter } from '../stream-counter.ts';
import type { TurnCounter } from '../turn-counter.ts';
import { type Binding, type Refusal, refuse, serverError } from './refusal.ts';

/** Whether the server is not ready yet, lets callers in, or does not any more. */
export type ServerPhase = 'starting' | 'open' | 'closing';

/** Who may come in, and how often. */
export interface Admission {
  readonly auth: readonly Authentication[];
  /** Whether only callers of this machine are let in. */
  readonly localOnly: boolean;
  /** Under which name the server is reached, besides those of the loopback. */
  readonly publicHost: string | undefined;
  /** Absent where there is no limit. */
  readonly limiter: RateLimiter | undefined;
  readonly streams: StreamCounter;
  readonly turns: TurnCounter;
  readonly phase: () => ServerPhase;
  readonly logger: Logger;
  readonly clock: Clock;
  /** How long each way of `auth` may take. Milliseconds. */
  readonly timeoutMs: number;
}

/** Lets in whom the server knows, at the rate that is allowed, before anything of the body is read. */
export function admit(binding: Binding, admission: Admission): RequestHandler {
  const { auth, limiter } = admission;
  return async (request, response, next) => {
    const turnAway = (refusal: Refusal) => refuse(request, response, binding, refusal);
    const phase = admission.phase();
    if (phase !== 'open') return turnAway(phase === 'closing' ? closing : starting);
    if (admission.localOnly && !isLocal(request, admission)) return turnAway(notLocal);
    // Created before the first await, so that a disconnect in the meantime is noticed.
    const connection = httpConnection(response);
    const user = auth.length === 0 ? undefined : await authenticate(auth, request, admission);
    const address = request.ip ?? request.socket.remoteAddress ?? 'unknown';
    if (auth.length > 0 && user === undefined) {
      const failedMs = limiter?.take(`failed ${address}`) ?? 0;
      return turnAway(failedMs > 0 ? tooManyRequests(failedMs) : unauthenticated(auth));
    }
    const caller = new Caller({ user, address, connection });
    const waitMs = limiter?.take(caller.countedAs) ?? 0;
    if (waitMs > 0) return turnAway(tooManyRequests(waitMs));
    keepCaller(request, caller);
    next();
  };
}

/** Counts the turns and the streams of a caller, once the body tells what it asks for. */
export function admitMessage(binding: Binding, { streams, turns }: Admission): RequestHandler {
  return (request, response, next) => {
    if (asksForTurn(request, binding) && !turns.enter(callerOf(request))) {
      return refuse(request, response, binding, tooManyTurns);
    }
    if (!asksForStream(request, binding)) return next();
    const { countedAs, connection } = callerOf(request);
    if (streams.enter(countedAs, connection.closed)) next();
    else refuse(request, response, binding, tooManyStreams);
  };
}

/** Sends refusals by limits inside the handler like the refusals above; the transports of the SDK do not know them. */
export function answerRefused(binding: Binding): RequestHandler {
  return (request, response, next) => {
    const json = response.json;
    response.json = (body: unknown) => {
      response.json = json;
      const { refusal } = callerOf(request);
      if (refusal === undefined) return response.json(body);
      refuse(request, response, binding, refusal);
      return response;
    };
    next();
  };
}

/**
 * A page of the web can make a browser on this machine ask, under a name of its own that leads here: the name tells. One that asks under our
 * name tells its origin. Behind a proxy of this machine the address is the proxy's.
 */
function isLocal(request: Request, { publicHost }: Admission): boolean {
  const isOurs = (name: string) => isLoopbackHost(name) || name === publicHost;
  const { origin } = request.headers;
  return (
    isLoopbackHost(mappedAddress(request.socket.remoteAddress)) &&
    isOurs(hostNameIn(request.header('host'))) &&
    (origin === undefined || (URL.canParse(origin) && isOurs(new URL(origin).hostname)))
  );
}

/** An IPv4 address that a socket of IPv6 reports. */
function mappedAddress(address = ''): string {
  return address.replace(/^::ffff:(?=\d+\.)/, '');
}

const streamMethods: ReadonlySet<unknown> = new Set([
  'SendStreamingMessage',
  'SubscribeToTask',
  'message/stream',
  'tasks/resubscribe',
]);

const messageMethods: ReadonlySet<unknown> = new Set([
  'SendMessage',
  'SendStreamingMessage',
  'message/send',
  'message/stream',
]);

/** Whether a request may start a turn, or resume one. */
function asksForTurn({ body, path }: Request, binding: Binding): boolean {
  if (binding === 'HTTP+JSON') return /\/message:(send|stream)$/.test(path);
  return typeof body === 'object' && body !== null && 'method' in body && messageMethods.has(body.method);
}

function asksForStream({ body, path }: Request, binding: Binding): boolean {
  if (binding === 'HTTP+JSON') return /:(stream|subscribe)$/.test(path);
  return typeof body === 'object' && body !== null && 'method' in body && streamMethods.has(body.method);
}

export const notLocal: Refusal = {
  status: 403,
  code: serverError,
  statusName: 'PERMISSION_DENIED',
  reason: 'LOCAL_ONLY',
  message: 'The server is for callers of its own machine.',
};

export function unauthenticated(auth: readonly Authentication[]): Refusal {
  return {
    status: 401,
    code: serverError,
    statusName: 'UNAUTHENTICATED',
    reason: 'UNAUTHENTICATED',
    message: 'Authentication is required.',
    headers: { 'WWW-Authenticate': challengesOf(auth) },
  };
}

export function tooManyRequests(waitMs: number): Refusal {
  return {
    status: 429,
    code: serverError,
    statusName: 'RESOURCE_EXHAUSTED',
    reason: 'RATE_LIMIT',
    message: `Too many requests; try again in ${Math.ceil(waitMs / 1_000)} seconds.`,
    headers: { 'Retry-After': String(Math.ceil(waitMs / 1_000)) },
  };
}

export const tooManyStreams: Refusal = {
  status: 429,
  code: serverError,
  statusName: 'RESOURCE_EXHAUSTED',
  reason: 'STREAM_LIMIT',
  message: 'Too many streams are open; close one first.',
};

export const tooManyTurns: Refusal = {
  status: 429,
  code: serverError,
  statusName: 'RESOURCE_EXHAUSTED',
  reason: 'TURN_LIMIT',
  message: 'Too many of your tasks run or are queued; wait until one is over, or cancel one.',
};

export const starting: Refusal = {
  status: 503,
  code: serverError,
  statusName: 'UNAVAILABLE',
  reason: 'STARTING',
  message: 'The server starts; try again.',
  headers: { 'Retry-After': '1' },
};

export const closing: Refusal = {
  status: 503,
  code: serverError,
  statusName: 'UNAVAILABLE',
  reason: 'CLOSING',
  message: 'The server shuts down; try again.',
  // The connection is not kept, so that the next request finds another process.
  headers: { 'Retry-After': '1', Connection: 'close' },
};
