import type { SecurityScheme } from '@a2a-js/sdk';
import type { MaybePromise } from '../../../core/contracts/index.ts';

/** Who a request comes from. */
export interface AuthenticatedUser {
  /** Tells users apart: tasks belong to it. Not empty. */
  readonly id: string;
  /** The tenants that requests of this user may name. Default none. */
  readonly tenants?: readonly string[];
  /** Additional properties of `authContext` for tools; never logged. */
  readonly claims?: Readonly<Record<string, unknown>>;
}

/** A request before anything of it is read: headers of HTTP, or metadata of gRPC, by names in lower case. */
export interface AuthRequest {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/**
 * A way for callers to say who they are. `undefined` for a request without credentials, or with wrong ones: the next way is tried,
 * and where none knows the caller, the answer is 401. What it throws is logged by its name, and is 401 too.
 */
export interface Authentication {
  /** Names the scheme in the agent's card. */
  readonly name: string;
  /** What the card declares. */
  readonly scheme: SecurityScheme;
  /** The `WWW-Authenticate` of a 401: `Bearer`, `ApiKey`, … */
  readonly challenge: string;
  authenticate(request: AuthRequest): MaybePromise<AuthenticatedUser | undefined>;
}

/** The value of a header that is there once, and is not empty. */
export function headerOf({ headers }: AuthRequest, name: string): string | undefined {
  const value = headers[name.toLowerCase()];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** What stands behind `Bearer ` in the authorization header. */
export function bearerToken(request: AuthRequest): string | undefined {
  return /^bearer +(\S+)$/i.exec(headerOf(request, 'authorization') ?? '')?.[1];
}
