import type { User } from '@a2a-js/sdk/server';
import type { AuthContext } from '../../core/contracts/index.ts';
import type { AuthenticatedUser } from './auth/authentication.ts';
import type { Connection } from './connection.ts';
import type { Refusal } from './http/refusal.ts';

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
