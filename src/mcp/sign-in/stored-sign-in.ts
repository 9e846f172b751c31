import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type {
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client';
import type { McpOAuthOptions } from './auth-options.ts';

/** A server wants the user to sign in, or to grant more, before it does anything. */
export class SignInNeeded extends Error {
  readonly signIn: StoredSignIn;

  constructor(signIn: StoredSignIn) {
    super('the user has to sign in');
    this.signIn = signIn;
  }
}

/** A sign-in that the user has not returned from. */
interface Pending {
  readonly state: string;
  readonly verifier: string;
  readonly discovery: OAuthDiscoveryState;
}

/** Of one server. The oldest is given up then. */
const maxPending = 20;

/**
 * The sign-in of one connection, as the SDK asks for it. Tokens and the registration are in the store; the state, the verifier and what was
 * discovered get there with `begin`, so that a sign-in that nobody is asked for leaves nothing.
 */
export class StoredSignIn implements OAuthClientProvider {
  /** Where the user has to go. Undefined as long as no sign-in is needed. */
  authorizationUrl: string | undefined;
  readonly clientMetadataUrl?: string;
  readonly #options: McpOAuthOptions;
  readonly #server: string;
  readonly #onToken: (token: string) => void;
  readonly #state = randomBytes(32).toString('base64url');
  #verifier = '';
  #discovery: OAuthDiscoveryState | undefined;

  /** `onToken` receives each secret before it is sent. */
  constructor(server: string | URL, options: McpOAuthOptions, onToken: (token: string) => void) {
    this.#server = String(server);
    this.#options = options;
    this.#onToken = onToken;
    if (options.clientMetadataUrl !== undefined) this.clientMetadataUrl = options.clientMetadataUrl;
  }

  get redirectUrl(): string {
    return this.#options.redirectUrl;
  }

  get clientMetadata(): OAuthClientMetadata {
    const { redirectUrl, scopes } = this.#options;
    return {
      client_name: 'millrace',
      redirect_uris: [redirectUrl],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      ...(scopes && { scope: scopes.join(' ') }),
    };
  }

  state(): string {
    return this.#state;
  }

  async clientInformation(): Promise<StoredOAuthClientInformation | undefined> {
    const { clientId, clientSecret, store } = this.#options;
    const kept = await store.load(this.#key('client'));
    // The stored one names the authorization server that the client belongs to.
    if (isClient(kept) && (clientId === undefined || kept.given === clientId)) return this.#noted(kept.client);
    if (clientId === undefined) return undefined;
    return this.#noted({ client_id: clientId, ...(clientSecret !== undefined && { client_secret: clientSecret }) });
  }

  async saveClientInformation(client: StoredOAuthClientInformation): Promise<void> {
    const { clientId, store } = this.#options;
    await store.save(this.#key('client'), { client: this.#noted(client), given: clientId ?? null });
  }

  async tokens(): Promise<StoredOAuthTokens | undefined> {
    const kept = await this.#options.store.load(this.#key('tokens'));
    if (!isTokens(kept)) return undefined;
    this.#onToken(kept.access_token);
    if (kept.refresh_token !== undefined) this.#onToken(kept.refresh_token);
    return kept;
  }

  async saveTokens(tokens: StoredOAuthTokens): Promise<void> {
    this.#onToken(tokens.access_token);
    if (tokens.refresh_token !== undefined) this.#onToken(tokens.refresh_token);
    await this.#options.store.save(this.#key('tokens'), tokens);
  }

  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
    this.#onToken(verifier);
  }

  codeVerifier(): string {
    return this.#verifier;
  }

  saveDiscoveryState(discovery: OAuthDiscoveryState): void {
    this.#discovery = discovery;
  }

  /** What was discovered for the sign-in that is being finished. A new one discovers anew: the server may have moved to another issuer. */
  discoveryState(): OAuthDiscoveryState | undefined {
    return this.authorizationUrl === undefined ? this.#discovery : undefined;
  }

  redirectToAuthorization(url: URL): void {
    if (!/^https?:$/.test(url.protocol)) throw new Error('the address to sign in at is not http or https');
    this.authorizationUrl = url.href;
  }

  async invalidateCredentials(what: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): Promise<void> {
    const { store } = this.#options;
    if (what === 'all' || what === 'client') await store.delete(this.#key('client'));
    if (what === 'all' || what === 'tokens') await store.delete(this.#key('tokens'));
    if (what === 'all' || what === 'verifier') this.#verifier = '';
    if (what === 'all' || what === 'discovery') this.#discovery = undefined;
  }

  /** Stores what `resume` needs, before the user is asked. */
  async begin(): Promise<void> {
    if (this.#discovery === undefined) return;
    const pending = { state: this.#state, verifier: this.#verifier, discovery: this.#discovery };
    await this.#savePending([...(await this.#pending()), pending].slice(-maxPending));
  }

  /** Takes up the sign-in that a callback belongs to, and removes it: it can be finished once. Returns whether there is one. */
  async resume(state: string): Promise<boolean> {
    const all = await this.#pending();
    // Each is compared, in a time that says nothing of the state.
    const [found] = all.filter((each) => isSame(each.state, state));
    if (!found) return false;
    await this.#savePending(all.filter((each) => each !== found));
    this.#verifier = found.verifier;
    this.#discovery = found.discovery;
    this.#onToken(found.verifier);
    return true;
  }

  async #pending(): Promise<readonly Pending[]> {
    const kept = await this.#options.store.load(this.#key('pending'));
    return Array.isArray(kept) ? kept.filter(isPending) : [];
  }

  async #savePending(pending: readonly Pending[]): Promise<void> {
    const key = this.#key('pending');
    if (pending.length === 0) await this.#options.store.delete(key);
    else await this.#options.store.save(key, pending);
  }

  #key(what: AuthKey): string {
    return authKey(this.#server, what);
  }

  #noted(client: StoredOAuthClientInformation): StoredOAuthClientInformation {
    if (client.client_secret !== undefined) this.#onToken(client.client_secret);
    return client;
  }
}

type AuthKey = 'client' | 'tokens' | 'pending' | 'tools';

/** Under which a store keeps something of a server. */
export function authKey(server: string | URL, what: AuthKey): string {
  return `${what} ${new URL(server).href}`;
}

/** Compares in a time that says nothing of how much of it is right. */
export function isSame(given: string, wanted: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(wanted));
}

function isTokens(kept: unknown): kept is StoredOAuthTokens {
  return isRecord(kept) && typeof kept['access_token'] === 'string' && typeof kept['token_type'] === 'string';
}

function isClient(
  kept: unknown,
): kept is { readonly client: StoredOAuthClientInformation; readonly given: string | null } {
  return isRecord(kept) && isRecord(kept['client']) && typeof kept['client']['client_id'] === 'string';
}

function isPending(kept: unknown): kept is Pending {
  return (
    isRecord(kept) &&
    typeof kept['state'] === 'string' &&
    typeof kept['verifier'] === 'string' &&
    isRecord(kept['discovery'])
  );
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
