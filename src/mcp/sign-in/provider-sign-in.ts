import type { FetchLike, OAuthClientProvider } from '@modelcontextprotocol/client';
import type { ClientSdk } from '../load-sdk.ts';
import type { HttpAuth, Refusal } from './http-auth.ts';
import { inTurn } from './store-lock.ts';

interface ProviderSignInOptions {
  readonly sdk: ClientSdk;
  readonly server: URL;
  readonly provider: OAuthClientProvider;
  /** Sends the requests of a sign-in. */
  readonly send: FetchLike;
}

/** The tokens of a provider of the application's own, which the SDK refreshes: for one request at a time. */
export class ProviderSignIn implements HttpAuth {
  readonly #options: ProviderSignInOptions;
  readonly #running = new Map<string, Promise<boolean>>();
  #scope: string | undefined;

  constructor(options: ProviderSignInOptions) {
    this.#options = options;
  }

  async token(): Promise<string | undefined> {
    return (await this.#options.provider.tokens())?.access_token;
  }

  /** Requests that were refused alike share one result: the provider shows the user one address. */
  renew(refusal: Refusal): Promise<boolean> {
    const { token = '', needsMoreRights, scope = '' } = refusal;
    const key = JSON.stringify([token, needsMoreRights, scope]);
    const running =
      this.#running.get(key) ??
      inTurn(this.#options.provider, '', () => this.#renew(refusal)).finally(() => this.#running.delete(key));
    this.#running.set(key, running);
    return running;
  }

  async settled(): Promise<void> {
    await Promise.allSettled(this.#running.values());
  }

  async #renew({ token, needsMoreRights, scope: wanted, resourceMetadataUrl }: Refusal): Promise<boolean> {
    const { sdk, server, provider, send } = this.#options;
    const tokens = await provider.tokens();
    if (tokens !== undefined && tokens.access_token !== token) return true;
    this.#scope = sdk.computeScopeUnion(this.#scope, wanted);
    const scope = needsMoreRights ? sdk.computeScopeUnion(tokens?.scope, this.#scope) : wanted;
    const result = await sdk.auth(provider, {
      serverUrl: server,
      fetchFn: send,
      forceReauthorization: needsMoreRights && sdk.isStrictScopeSuperset(scope, tokens?.scope),
      ...(scope !== undefined && { scope }),
      ...(resourceMetadataUrl && { resourceMetadataUrl }),
    });
    return result === 'AUTHORIZED';
  }
}
