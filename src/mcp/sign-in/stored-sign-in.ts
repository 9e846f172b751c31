import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type {
  FetchLike,
  OAuthClientMetadata,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client';
import { AgentLoopError, messageOf } from '../../core/contracts/index.ts';
import type { ClientSdk } from '../load-sdk.ts';
import type { McpHttpOptions } from '../mcp-options.ts';
import type { McpOAuthOptions } from './auth-options.ts';
import type { HttpAuth, Refusal } from './http-auth.ts';
import { signInRequests } from './sign-in-fetch.ts';
import { isIssuer, type Pending, SignInRecords } from './sign-in-records.ts';

/** A server wants the user to sign in, or to grant more, before it does anything. */
export class SignInNeeded extends Error {
  readonly signIn: StoredSignIn;

  constructor(signIn: StoredSignIn) {
    super('the user has to sign in');
    this.signIn = signIn;
  }
}

/** What the server and its authorization server say of themselves. */
interface Discovered {
  readonly discovery: OAuthDiscoveryState;
  readonly issuer: string;
  readonly resource: string | undefined;
}

interface StoredSignInOptions {
  readonly sdk: ClientSdk;
  readonly server: McpHttpOptions;
  readonly auth: McpOAuthOptions;
  /** Receives each secret before it is sent. */
  readonly onToken: (token: string) => void;
}

/** Of one server. The oldest is given up then. */
const maxPending = 20;

/**
 * The sign-in of one connection. Tokens, the registration and sign-ins that wait for the user are in the store, and change under its lock only: who
 * was refused reads the store again under the lock, and uses what another has put there. Nothing is kept of a sign-in before `begin`, so that one
 * that nobody is asked for leaves nothing.
 */
export class StoredSignIn implements HttpAuth {
  /** Where the user has to go. Undefined as long as no sign-in is needed. */
  authorizationUrl: string | undefined;
  readonly #sdk: ClientSdk;
  readonly #server: string;
  readonly #auth: McpOAuthOptions;
  readonly #onToken: (token: string) => void;
  readonly #send: FetchLike;
  readonly #records: SignInRecords;
  #pending: Pending | undefined;
  #begun: Promise<void> | undefined;
  /** Of the sign-in that is being finished. */
  #finishing: OAuthDiscoveryState | undefined;
  #scope: string | undefined;

  constructor({ sdk, server, auth, onToken }: StoredSignInOptions) {
    this.#sdk = sdk;
    this.#server = String(server.url);
    this.#auth = auth;
    this.#onToken = onToken;
    this.#records = new SignInRecords({ server: this.#server, auth, onToken });
    this.#send = signInRequests(server, () => this.#finishing);
  }

  /** Of the sign-in that the user is asked for. */
  get state(): string {
    return this.#pending?.state ?? '';
  }

  async token(): Promise<string | undefined> {
    return (await this.#records.tokens())?.access_token;
  }

  async renew(refusal: Refusal): Promise<boolean> {
    const replaced = async (): Promise<true | undefined> => {
      const tokens = await this.#records.tokens();
      return tokens !== undefined && tokens.access_token !== refusal.token ? true : undefined;
    };
    return this.#records.locked<boolean>(async () => {
      if (await replaced()) return true;
      const tokens = await this.#records.tokens();
      if (this.authorizationUrl !== undefined) return false;
      const discovered = await this.#discover(refusal.resourceMetadataUrl);
      const scope = this.#scopeFor(refusal, tokens);
      const isMore = refusal.needsMoreRights && this.#sdk.isStrictScopeSuperset(scope, tokens?.scope);
      if (tokens && !isMore && (await this.#refresh(tokens, discovered))) return true;
      await this.#authorize(discovered, scope);
      return false;
    }, replaced);
  }

  async settled(): Promise<void> {
    await this.#records.settled();
  }

  /** Stores what `finish` needs, before the user is asked. */
  async begin(): Promise<void> {
    const pending = this.#pending;
    if (!pending) return;
    this.#begun ??= this.#records.locked(async () => {
      await this.#records.savePending([...(await this.#records.pending()), pending].slice(-maxPending));
    });
    await this.#begun;
  }

  /**
   * Exchanges what the authorization server sent the user back with, an address or its query, for tokens, which are in the store then. An answer is
   * taken once. Returns why that failed, as the rest of a sentence; never what the authorization server says of it beside its code. Rejects as
   * the store does.
   */
  async finish(callback: string): Promise<string | undefined> {
    const text = callback.trim();
    const params = new URLSearchParams(URL.canParse(text) ? new URL(text).search : text);
    const code = params.get('code');
    if (code !== null) this.#onToken(code);
    return this.#records.locked(async () => {
      const all = await this.#records.pending();
      // Each is compared, in a time that says nothing of the state.
      const [found] = all.filter((each) => isSame(each.state, params.get('state') ?? ''));
      if (!found) return 'the answer belongs to no sign-in that waits for one; it may have been used before';
      await this.#records.savePending(all.filter((each) => each !== found));
      const exchanged = await this.#exchange(found, params).catch(async (thrown: unknown) => {
        if (!isTransient(thrown, this.#sdk)) return this.#whyNot(thrown);
        await this.#records.savePending(all);
        return 'the authorization server cannot be reached';
      });
      if (typeof exchanged === 'string') return exchanged;
      await this.#records.saveClient(exchanged.client);
      await this.#records.saveTokens(exchanged.tokens);
      return undefined;
    });
  }

  /** Saves the tokens of a sign-in that was done with another store. */
  async adopt(from: McpOAuthOptions['store']): Promise<void> {
    await this.#records.locked(() => this.#records.copyFrom(from));
  }

  async #exchange(
    { discovery, verifier, client }: Pending,
    params: URLSearchParams,
  ): Promise<{ readonly client: StoredOAuthClientInformation; readonly tokens: StoredOAuthTokens } | string> {
    const sdk = this.#sdk;
    const { authorizationServerUrl, authorizationServerMetadata: metadata } = discovery;
    const { issuer, resource } = this.#described(discovery);
    const [code, iss, error] = ['code', 'iss', 'error'].map((name) => params.get(name) ?? undefined);
    this.#onToken(verifier);
    if (code === undefined) {
      if (error === undefined || !metadata) return cannotExchange;
      const issParameterSupported = metadata.authorization_response_iss_parameter_supported === true;
      sdk.validateAuthorizationResponseIssuer({ iss, expectedIssuer: metadata.issuer, issParameterSupported });
      return answeredWith(error);
    }
    const used = client ?? (await this.#records.client(issuer));
    if (!used) return cannotExchange;
    this.#finishing = discovery;
    try {
      const tokens = await sdk.exchangeAuthorization(authorizationServerUrl, {
        clientInformation: this.#records.noted(used),
        authorizationCode: code,
        codeVerifier: verifier,
        redirectUri: this.#auth.redirectUrl,
        fetchFn: this.#send,
        ...(metadata && { metadata }),
        ...(iss !== undefined && { iss }),
        ...(resource !== undefined && { resource }),
      });
      return { client: used, tokens: { ...tokens, issuer } };
    } catch (thrown) {
      if (isOfClient(thrown, sdk)) await this.#records.forgetClient(used);
      throw thrown;
    } finally {
      this.#finishing = undefined;
    }
  }

  #whyNot(thrown: unknown): string {
    return thrown instanceof this.#sdk.OAuthError ? answeredWith(thrown.code) : cannotExchange;
  }

  /** Returns whether there is another token. Rejects with `UNAVAILABLE` where that cannot be known: the refresh token may still be good. */
  async #refresh(tokens: StoredOAuthTokens, { discovery, issuer, resource }: Discovered): Promise<boolean> {
    const sdk = this.#sdk;
    const { refresh_token: refreshToken } = tokens;
    const { authorizationServerUrl, authorizationServerMetadata: metadata } = discovery;
    if (refreshToken === undefined || !isIssuer(tokens.issuer ?? issuer, issuer)) return false;
    const client = await this.#records.client(issuer);
    if (!client) return false;
    try {
      const renewed = await sdk.refreshAuthorization(authorizationServerUrl, {
        clientInformation: client,
        refreshToken,
        fetchFn: this.#send,
        ...(metadata && { metadata }),
        ...(resource !== undefined && { resource }),
      });
      await this.#records.saveTokens({
        ...(tokens.scope !== undefined && { scope: tokens.scope }),
        ...renewed,
        issuer,
      });
      return true;
    } catch (thrown) {
      if (isOfClient(thrown, sdk)) await this.#records.forgetClient(client);
      return this.#afterFailedRefresh(thrown, tokens);
    }
  }

  async #afterFailedRefresh(thrown: unknown, { access_token, refresh_token, ...rest }: StoredOAuthTokens) {
    if (thrown instanceof this.#sdk.OAuthError && !isTransient(thrown, this.#sdk)) {
      const now = await this.#records.tokens();
      if (now && now.access_token !== access_token) return true;
      // It is not sent again. What is left names the token that others were refused with.
      if (thrown.code === 'invalid_grant' && now?.refresh_token === refresh_token)
        await this.#records.saveTokens({ ...rest, access_token });
      return false;
    }
    if (isUnreadable(thrown)) return false;
    const why = `its authorization server cannot be used (${messageOf(thrown)})`;
    throw new AgentLoopError('UNAVAILABLE', `has no valid access token: ${why}`, { retryable: true, cause: thrown });
  }

  /** Makes the address that the user has to open, with a client that is registered if there is none. */
  async #authorize({ discovery, issuer, resource }: Discovered, wanted: string | undefined): Promise<void> {
    const { authorizationServerUrl, authorizationServerMetadata: metadata, resourceMetadata } = discovery;
    const asked = wanted || resourceMetadata?.scopes_supported?.join(' ') || this.#clientMetadata.scope;
    const isOffline = metadata?.scopes_supported?.includes('offline_access') ?? false;
    const scope = asked && isOffline ? this.#sdk.computeScopeUnion(asked, 'offline_access') : asked;
    const client =
      (await this.#records.client(issuer)) ?? (await this.#newClient({ discovery, issuer, resource }, scope));
    const state = randomBytes(32).toString('base64url');
    const { authorizationUrl, codeVerifier } = await this.#sdk.startAuthorization(authorizationServerUrl, {
      clientInformation: client,
      state,
      redirectUrl: this.#auth.redirectUrl,
      ...(metadata && { metadata }),
      ...(scope !== undefined && { scope }),
      ...(resource !== undefined && { resource }),
    });
    if (!/^https?:$/.test(authorizationUrl.protocol)) throw new Error('the address to sign in at is not http or https');
    this.#onToken(codeVerifier);
    this.#pending = { state, verifier: codeVerifier, discovery, client };
    this.authorizationUrl = authorizationUrl.href;
  }

  /** A new sign-in discovers anew: the server may have moved to another issuer. */
  async #discover(resourceMetadataUrl: URL | undefined): Promise<Discovered> {
    const found = await this.#sdk.discoverOAuthServerInfo(this.#server, {
      fetchFn: this.#send,
      ...(resourceMetadataUrl && { resourceMetadataUrl }),
    });
    return this.#described(found);
  }

  #described(discovery: OAuthDiscoveryState): Discovered {
    const { authorizationServerUrl, authorizationServerMetadata, resourceMetadata } = discovery;
    const issuer = authorizationServerMetadata?.issuer ?? String(authorizationServerUrl);
    const resource = resourceMetadata?.resource;
    const requestedResource = this.#sdk.resourceUrlFromServerUrl(this.#server);
    if (resource !== undefined && !this.#sdk.checkResourceAllowed({ requestedResource, configuredResource: resource }))
      throw new Error(`its metadata is that of another resource, ${new URL(resource).origin}`);
    return { discovery, issuer, resource };
  }

  /** A server that wants more rights gets those that the token has as well. */
  #scopeFor({ needsMoreRights, scope }: Refusal, tokens: StoredOAuthTokens | undefined): string | undefined {
    this.#scope = this.#sdk.computeScopeUnion(this.#scope, scope);
    return needsMoreRights ? this.#sdk.computeScopeUnion(tokens?.scope, this.#scope) : scope;
  }

  async #newClient(
    { discovery, issuer }: Discovered,
    scope: string | undefined,
  ): Promise<StoredOAuthClientInformation> {
    const { clientMetadataUrl } = this.#auth;
    const { authorizationServerUrl, authorizationServerMetadata: metadata } = discovery;
    if (clientMetadataUrl !== undefined && metadata?.client_id_metadata_document_supported === true)
      return this.#records.saveClient({ client_id: clientMetadataUrl, issuer });
    const { redirectUrl } = this.#auth;
    const registered = await this.#sdk.registerClient(authorizationServerUrl, {
      clientMetadata: this.#sdk.resolveClientMetadata({ clientMetadata: this.#clientMetadata, redirectUrl }),
      fetchFn: this.#send,
      ...(metadata && { metadata }),
      ...(scope !== undefined && { scope }),
    });
    return this.#records.saveClient({ ...registered, issuer });
  }

  get #clientMetadata(): OAuthClientMetadata {
    const { redirectUrl, scopes } = this.#auth;
    return {
      client_name: 'millrace',
      redirect_uris: [redirectUrl],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      ...(scopes && { scope: scopes.join(' ') }),
    };
  }
}

/** Compares in a time that says nothing of how much of it is right. */
export function isSame(given: string, wanted: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(wanted));
}

const cannotExchange = 'the answer cannot be exchanged for a token';

function answeredWith(code: string): string {
  return `the authorization server answered with ${/^[a-z_]{1,40}$/.test(code) ? code : 'an error'}`;
}

/** The authorization server was not asked, or has not decided. */
function isTransient(thrown: unknown, { OAuthError }: ClientSdk): boolean {
  if (thrown instanceof OAuthError) return thrown.code === 'temporarily_unavailable';
  return thrown instanceof Error && (thrown.name === 'TypeError' || thrown.name === 'TimeoutError');
}

/** The registration is void. */
function isOfClient(thrown: unknown, { OAuthError }: ClientSdk): boolean {
  return thrown instanceof OAuthError && (thrown.code === 'invalid_client' || thrown.code === 'unauthorized_client');
}

/** An answer that holds no tokens. */
function isUnreadable(thrown: unknown): boolean {
  return thrown instanceof Error && /^(?:SyntaxError|\$?ZodError)$/.test(thrown.name);
}
