import { Extensions } from '@a2a-js/sdk';
import { defaultServerCallContextBuilder, type ServerCallContext } from '@a2a-js/sdk/server';
import type { Request } from 'express';
import type { AuthContext } from '../../core/contracts/index.ts';
import { Caller } from './caller.ts';

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
