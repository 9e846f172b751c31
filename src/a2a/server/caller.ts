import type { ServerResponse } from 'node:http';
import { Extensions } from '@a2a-js/sdk';
import { defaultServerCallContextBuilder, type ServerCallContext, type User } from '@a2a-js/sdk/server';
import type { Request } from 'express';
import type { AuthContext } from '../../core/contracts/index.ts';
import { onAbort } from '../../core/streams/index.ts';
import type { AuthenticatedUser } from './authentication.ts';
import type { Refusal } from './refusal.ts';

/** Whoever makes a request, as the protocol's handlers know a user, and the way back to them. */
export class Caller implements User {
  readonly isAuthenticated: boolean;
  /** Empty where nobody is asked who they are. */
  readonly userName: string;
  /** The user's properties for tools. */
  readonly authContext: AuthContext | undefined;
  readonly connection: Connection;
  /** What limits are counted by: the user, or, where there is none, the address. */
  readonly countedAs: string;
  /** Why a limit has refused what the request asks for: what it is answered with, in the form of its binding. */
  refusal: Refusal | undefined;
  /** The error inside that the request failed with, as gRPC answers it. Other bindings have a form for its code. */
  failure: Refusal | undefined;
  readonly #tenants: readonly string[] | undefined;

  constructor({ user, address, connection }: CallerOptions) {
    this.isAuthenticated = user !== undefined;
    this.userName = user?.id ?? '';
    this.authContext = user === undefined ? undefined : { ...user.claims, user: user.id };
    this.connection = connection;
    this.countedAs = user === undefined ? `address ${address}` : `user ${user.id}`;
    this.#tenants = user === undefined ? undefined : (user.tenants ?? []);
  }

  /** Where nobody is asked who they are, all tenants are one owner's. */
  mayAct(tenant: string): boolean {
    return this.#tenants?.includes(tenant) ?? true;
  }
}

interface CallerOptions {
  /** Absent where the server asks nobody who they are. */
  readonly user: AuthenticatedUser | undefined;
  readonly address: string;
  readonly connection: Connection;
}

/** The way back to a caller. */
export interface Connection {
  /** Aborted when the client disconnects. */
  readonly closed: AbortSignal;
  /** Resolves when there is room again, or the client disconnects; `undefined` while there is room. */
  drained(): Promise<void> | undefined;
  /** Shows an idle reader, and what is in between, that the stream is alive; does nothing before the stream has begun. */
  beat(): void;
}

/** What of a stream of Node's is used. */
interface Channel {
  readonly writableNeedDrain: boolean;
  once(event: 'drain', listener: () => void): unknown;
  off(event: 'drain', listener: () => void): unknown;
}

/** Of an HTTP response; its beat is a comment of server-sent events, which their readers skip. */
export function httpConnection(response: ServerResponse): Connection {
  const left = new AbortController();
  const { signal: closed } = left;
  response.once('close', () => left.abort());
  return {
    closed,
    drained: () => drainOf(response, closed),
    beat() {
      const streams = String(response.getHeader('content-type')).startsWith('text/event-stream');
      if (response.headersSent && streams && !response.writableEnded && !response.writableNeedDrain) {
        response.write(': alive\n\n');
      }
    },
  };
}

/** Of a call over gRPC, which is there before its stream is. Sends no heartbeat: the connection itself is pinged. */
export class GrpcConnection implements Connection {
  readonly #closed = new AbortController();
  #channel: Channel | undefined;

  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** The call is over, or its client has left. */
  close(): void {
    this.#closed.abort();
  }

  /** Names the stream that the answers are written to; a call with one answer has none. */
  writeTo(channel: Channel): void {
    this.#channel = channel;
  }

  drained(): Promise<void> | undefined {
    return this.#channel && drainOf(this.#channel, this.closed);
  }

  beat(): void {}
}

function drainOf(channel: Channel, closed: AbortSignal): Promise<void> | undefined {
  if (!channel.writableNeedDrain || closed.aborted) return undefined;
  return new Promise((resolve) => {
    const go = () => {
      channel.off('drain', go);
      leave();
      resolve();
    };
    channel.once('drain', go);
    const leave = onAbort(closed, go);
  });
}

/** Where the caller of a request is kept between the middleware and the protocol's handlers. */
const callers = new WeakMap<object, Caller>();

export function keepCaller(request: object, caller: Caller): void {
  callers.set(request, caller);
}

/** The caller that authentication has found. A request without one has passed by it, which is a defect of this library. */
export function callerOf(request: object): Caller {
  const caller = callers.get(request);
  if (caller === undefined) throw new Error('a request has passed by authentication');
  return caller;
}

/** The caller of a call that has reached the request handler. */
export function callerIn({ user }: ServerCallContext): Caller {
  if (user instanceof Caller) return user;
  throw new Error('a request has passed by authentication');
}

/** The user and the tenant of the request, for tools. */
export function authContextIn(context: ServerCallContext): AuthContext | undefined {
  const { authContext } = callerIn(context);
  return authContext && { ...authContext, ...(context.tenant && { tenant: context.tenant }) };
}

/** Whose message it is, where callers are not asked who they are: that of an address. A user's scope is their own. */
export function senderIn(context: ServerCallContext): string {
  const { isAuthenticated, countedAs } = callerIn(context);
  return isAuthenticated ? '' : countedAs;
}

export type ContextOf = (request: Request) => ServerCallContext;

/** The call context of a request over JSON-RPC; its tenant is in the body, and is read by the transport. */
export const jsonRpcContext: ContextOf = (request) =>
  defaultServerCallContextBuilder({
    extensions: Extensions.parseServiceParameter(
      request.header('x-a2a-extensions') ?? request.header('a2a-extensions') ?? '',
    ),
    user: callerOf(request),
    headers: request.headers,
    ...versionOf(request),
  });

function versionOf(request: Request): { readonly requestedVersion?: string } {
  const version = request.header('a2a-version');
  return version === undefined ? {} : { requestedVersion: version };
}
