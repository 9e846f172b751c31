import type {
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client';
import { isObject } from '../../core/contracts/index.ts';
import type { McpOAuthOptions } from './auth-options.ts';
import { withLock } from './store-lock.ts';

/** A sign-in that the user has not returned from. */
export interface Pending {
  readonly state: string;
  readonly verifier: string;
  readonly discovery: OAuthDiscoveryState;
  /** The one that the user was sent away with: another process may have registered another one since. */
  readonly client?: StoredOAuthClientInformation | undefined;
}

interface SignInRecordsOptions {
  /** Its address. */
  readonly server: string;
  readonly auth: McpOAuthOptions;
  /** Receives each secret that is read or saved. */
  readonly onToken: (token: string) => void;
}

/** What the store keeps of the sign-ins at one server: tokens, the registered client, and the sign-ins that wait for the user. Change them under the lock. */
export class SignInRecords {
  readonly #server: string;
  readonly #auth: McpOAuthOptions;
  readonly #onToken: (token: string) => void;
  readonly #running = new Set<Promise<unknown>>();

  constructor({ server, auth, onToken }: SignInRecordsOptions) {
    this.#server = server;
    this.#auth = auth;
    this.#onToken = onToken;
  }

  /** Resolves once nothing holds the lock here. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#running);
  }

  /** Copies client and tokens of another store. */
  async copyFrom(from: McpOAuthOptions['store']): Promise<void> {
    for (const what of ['client', 'tokens'] as const) await this.#save(what, await from.load(this.#key(what)));
  }

  /** The registered client, of this authorization server only. */
  async client(issuer: string): Promise<StoredOAuthClientInformation | undefined> {
    const { clientId, clientSecret } = this.#auth;
    const kept = await this.#load('client');
    if (isClient(kept) && (clientId === undefined || kept.given === clientId))
      return isIssuer(kept.client.issuer ?? issuer, issuer) ? this.noted(kept.client) : undefined;
    if (clientId === undefined) return undefined;
    // From its first use on, it belongs to this authorization server.
    return this.saveClient({
      client_id: clientId,
      ...(clientSecret !== undefined && { client_secret: clientSecret }),
      issuer,
    });
  }

  async saveClient(client: StoredOAuthClientInformation): Promise<StoredOAuthClientInformation> {
    await this.#save('client', { client, given: this.#auth.clientId ?? null });
    return this.noted(client);
  }

  /** The authorization server does not know it any more. Another one that was registered meanwhile stays. */
  async forgetClient({ client_id }: StoredOAuthClientInformation): Promise<void> {
    const kept = await this.#load('client');
    if (isClient(kept) && kept.client.client_id === client_id) await this.#auth.store.delete(this.#key('client'));
  }

  async tokens(): Promise<StoredOAuthTokens | undefined> {
    const kept = await this.#load('tokens');
    return isTokens(kept) ? this.#notedTokens(kept) : undefined;
  }

  async saveTokens(tokens: StoredOAuthTokens): Promise<void> {
    await this.#save('tokens', this.#notedTokens(tokens));
  }

  async pending(): Promise<readonly Pending[]> {
    const kept = await this.#load('pending');
    return Array.isArray(kept) ? kept.filter(isPending) : [];
  }

  async savePending(pending: readonly Pending[]): Promise<void> {
    if (pending.length === 0) await this.#auth.store.delete(this.#key('pending'));
    else await this.#save('pending', pending);
  }

  #load(what: AuthKey): Promise<unknown> {
    return this.#auth.store.load(this.#key(what));
  }

  #save(what: AuthKey, value: unknown): Promise<void> {
    return this.#auth.store.save(this.#key(what), value);
  }

  #key(what: AuthKey): string {
    return authKey(this.#server, what);
  }

  locked<T>(run: () => Promise<T>, early?: () => Promise<T | undefined>): Promise<T> {
    const running = withLock({ store: this.#auth.store, key: this.#key('lock'), early }, run).finally(() =>
      this.#running.delete(running),
    );
    this.#running.add(running);
    return running;
  }

  noted(client: StoredOAuthClientInformation): StoredOAuthClientInformation {
    if (client.client_secret !== undefined) this.#onToken(client.client_secret);
    return client;
  }

  #notedTokens(tokens: StoredOAuthTokens): StoredOAuthTokens {
    this.#onToken(tokens.access_token);
    if (tokens.refresh_token !== undefined) this.#onToken(tokens.refresh_token);
    return tokens;
  }
}

type AuthKey = 'client' | 'tokens' | 'pending' | 'tools' | 'lock';

/** Under which a store keeps something of a server. */
export function authKey(server: string | URL, what: AuthKey): string {
  return `${what} ${new URL(server).href}`;
}

/** RFC 8414, section 3.3, with and without the slash at its end that `URL` adds. */
export function isIssuer(a: string, b: string): boolean {
  return a.replace(/\/$/, '') === b.replace(/\/$/, '');
}

function isTokens(kept: unknown): kept is StoredOAuthTokens {
  return isObject(kept) && typeof kept['access_token'] === 'string' && typeof kept['token_type'] === 'string';
}

function isClient(
  kept: unknown,
): kept is { readonly client: StoredOAuthClientInformation; readonly given: string | null } {
  return isObject(kept) && isObject(kept['client']) && typeof kept['client']['client_id'] === 'string';
}

function isPending(kept: unknown): kept is Pending {
  return (
    isObject(kept) &&
    typeof kept['state'] === 'string' &&
    typeof kept['verifier'] === 'string' &&
    isObject(kept['discovery'])
  );
}
