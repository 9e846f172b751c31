import type { Request, RequestHandler } from 'express';
import type { Clock, Logger } from '../../core/contracts/index.ts';
import { onAbort } from '../../core/streams/index.ts';
import { hostNameIn, isLoopbackHost } from '../../loopback.ts';
import { isOwnOrigin } from '../../own-origin.ts';
import { RecentMap } from '../../recent-map.ts';
import { type Authentication, type AuthRequest, authenticate, challengesOf } from './authentication.ts';
import { Caller, type Connection, callerOf, httpConnection, keepCaller } from './caller.ts';
import {
  type Binding,
  closing,
  notLocal,
  type Refusal,
  refuse,
  starting,
  tooManyRequests,
  tooManyStreams,
  tooManyTurns,
  unauthenticated,
} from './refusal.ts';

/** Whether the server is not ready yet, lets callers in, or does not any more. */
export type ServerPhase = 'starting' | 'open' | 'closing';

/** Who may come in, and how often. */
export interface Admission {
  readonly auth: readonly Authentication[];
  /** Whether only callers of this machine are let in. */
  readonly localOnly: boolean;
  /** Where the server is reached, besides the loopback. */
  readonly publicUrl: string | undefined;
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

/** A request of which nothing but the headers has been read. */
interface Arrival {
  readonly request: AuthRequest;
  readonly address: string;
  /** Whether it comes from this machine. */
  readonly isLocal: () => boolean;
  readonly connection: Connection;
}

/** The caller of a request whom the server knows, at the rate that is allowed; else why it is not let in. */
export async function letIn(arrival: Arrival, admission: Admission): Promise<Caller | Refusal> {
  const { request, address, isLocal, connection } = arrival;
  const { auth, limiter, localOnly } = admission;
  const phase = admission.phase();
  if (phase !== 'open') return phase === 'closing' ? closing : starting;
  if (localOnly && !isLocal()) return notLocal;
  const user = auth.length === 0 ? undefined : await authenticate(auth, request, admission);
  if (auth.length > 0 && user === undefined) {
    const failedMs = limiter?.take(`failed ${address}`) ?? 0;
    return failedMs > 0 ? tooManyRequests(failedMs) : unauthenticated(challengesOf(auth));
  }
  const caller = new Caller({ user, address, connection });
  const waitMs = limiter?.take(caller.countedAs) ?? 0;
  return waitMs > 0 ? tooManyRequests(waitMs) : caller;
}

/** What a request asks for that is limited for each caller. */
export interface Asked {
  /** Whether it may start a turn, or resume one. */
  readonly turn: boolean;
  readonly stream: boolean;
}

/** Counts the turn and the stream that a request asks for, each once; returns the refusal of a caller that has as many as it may. */
export function countAsked(
  caller: Caller,
  { turn, stream }: Asked,
  { turns, streams }: Pick<Admission, 'turns' | 'streams'>,
): Refusal | undefined {
  if (turn && !turns.enter(caller)) return tooManyTurns;
  return stream && !streams.enter(caller) ? tooManyStreams : undefined;
}

/** Lets requests over HTTP in before anything of the body is read. */
export function admit(binding: Binding, admission: Admission): RequestHandler {
  return async (request, response, next) => {
    const caller = await letIn(
      {
        request,
        address: request.ip ?? request.socket.remoteAddress ?? 'unknown',
        isLocal: () => isLocal(request, admission),
        // Created before the first await, so that a disconnect in the meantime is noticed.
        connection: httpConnection(response),
      },
      admission,
    );
    if (!(caller instanceof Caller)) return refuse(request, response, binding, caller);
    keepCaller(request, caller);
    next();
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
 * name tells its origin: other ports of this machine are other origins. Behind a proxy of this machine the address is the proxy's.
 */
function isLocal(request: Request, { publicUrl }: Admission): boolean {
  const { origin, host } = request.headers;
  const name = hostNameIn(host);
  const ours = publicUrl === undefined ? undefined : new URL(publicUrl);
  return (
    isLoopbackHost(mappedAddress(request.socket.remoteAddress)) &&
    (isLoopbackHost(name) || name === ours?.hostname) &&
    (isOwnOrigin(origin, `http://${host}`) || origin === ours?.origin)
  );
}

/** An IPv4 address that a socket of IPv6 reports. */
function mappedAddress(address = ''): string {
  return address.replace(/^::ffff:(?=\d+\.)/, '');
}

/** How many requests one caller may make. */
export interface RateLimit {
  /** How many requests a caller may make within the time. */
  readonly requests: number;
  /** Milliseconds. */
  readonly perMs: number;
}

/** The most callers that are remembered; who has not asked for longest is forgotten first. */
const mostCallers = 10_000;

interface Bucket {
  /** Requests that may be made now. */
  tokens: number;
  filledAt: number;
}

/**
 * Counts requests by caller, as a bucket that fills evenly: `requests` at once, then one each `perMs / requests`. Counts those of
 * this process. Memory: 10,000 callers.
 */
export class RateLimiter {
  readonly #limit: RateLimit;
  readonly #now: () => number;
  readonly #buckets = new RecentMap<string, Bucket>(mostCallers);

  constructor(limit: RateLimit, now: () => number) {
    this.#limit = limit;
    this.#now = now;
  }

  /** Takes a request of this caller: 0 where it may be made, else the milliseconds until one may. */
  take(caller: string): number {
    const { requests, perMs } = this.#limit;
    const bucket = this.#filled(caller);
    if (bucket.tokens < 1) return Math.max(1, Math.ceil(((1 - bucket.tokens) * perMs) / requests));
    bucket.tokens -= 1;
    return 0;
  }

  #filled(caller: string): Bucket {
    const { requests, perMs } = this.#limit;
    const now = this.#now();
    const bucket = this.#buckets.get(caller) ?? { tokens: requests, filledAt: now };
    bucket.tokens = Math.min(requests, bucket.tokens + ((now - bucket.filledAt) * requests) / perMs);
    bucket.filledAt = now;
    this.#buckets.set(caller, bucket);
    return bucket;
  }
}

/** Counts the open streams of each caller. */
export class StreamCounter {
  readonly #most: number;
  readonly #open = new Map<string, number>();
  readonly #counted = new WeakSet<Caller>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Counts a request, once, until its connection is closed. False where the caller has as many streams as it may. */
  enter(caller: Caller): boolean {
    const { countedAs, connection } = caller;
    if (connection.closed.aborted || this.#counted.has(caller)) return true;
    const count = this.#open.get(countedAs) ?? 0;
    if (count >= this.#most) return false;
    this.#counted.add(caller);
    this.#open.set(countedAs, count + 1);
    onAbort(connection.closed, () => this.#leave(countedAs));
    return true;
  }

  #leave(caller: string): void {
    const left = (this.#open.get(caller) ?? 1) - 1;
    if (left === 0) this.#open.delete(caller);
    else this.#open.set(caller, left);
  }
}

/**
 * Counts the turns of each caller that this process runs or has queued, and the requests that may start one. A request and its turn
 * count as one, until both are over.
 */
export class TurnCounter {
  readonly #most: number;
  readonly #counts = new Map<string, number>();
  /** How many of a request and its turns are not over. */
  readonly #holders = new WeakMap<Caller, number>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Counts a request, once, until its connection is closed. False where the caller has as many turns as it may. */
  enter(caller: Caller): boolean {
    const { countedAs, connection } = caller;
    if (connection.closed.aborted || (this.#holders.get(caller) ?? 0) > 0) return true;
    if ((this.#counts.get(countedAs) ?? 0) >= this.#most) return false;
    this.#hold(caller);
    onAbort(connection.closed, () => this.#leave(caller));
    return true;
  }

  /** Has a turn that the request started or resumed count until it is over. */
  started(caller: Caller, settled: Promise<unknown>): void {
    this.#hold(caller);
    const leave = () => this.#leave(caller);
    settled.then(leave, leave);
  }

  #hold(caller: Caller): void {
    const holders = this.#holders.get(caller) ?? 0;
    this.#holders.set(caller, holders + 1);
    if (holders === 0) this.#counts.set(caller.countedAs, (this.#counts.get(caller.countedAs) ?? 0) + 1);
  }

  #leave(caller: Caller): void {
    const holders = (this.#holders.get(caller) ?? 1) - 1;
    this.#holders.set(caller, holders);
    if (holders > 0) return;
    const left = (this.#counts.get(caller.countedAs) ?? 1) - 1;
    if (left === 0) this.#counts.delete(caller.countedAs);
    else this.#counts.set(caller.countedAs, left);
  }
}
