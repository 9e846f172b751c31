import { unlessAborted } from '../../core/streams/index.ts';
import type { ClientSdk } from '../load-sdk.ts';

/** What a server wants of a request that it refused: another token, or one with more rights. */
export interface Refusal {
  /** The access token that the request had. */
  readonly token: string | undefined;
  readonly needsMoreRights: boolean;
  readonly scope: string | undefined;
  readonly resourceMetadataUrl: URL | undefined;
}

/** The access tokens of one connection. */
export interface HttpAuth {
  token(): Promise<string | undefined>;
  /**
   * Gets another token than the one that was refused, or finds the one that somebody else has got meanwhile. Returns `false` where the user has to sign
   * in. It ends by itself: a refresh token that was sent is used up, and the answer must be stored.
   */
  renew(refusal: Refusal): Promise<boolean>;
  /** Resolves once no `renew` runs. */
  settled(): Promise<void>;
}

interface AuthorizedOptions {
  readonly sdk: ClientSdk;
  readonly auth: HttpAuth;
  /** Sends the request with this token. */
  readonly send: (token: string | undefined) => Promise<Response>;
  readonly signal: AbortSignal | null | undefined;
}

/** One for a token that another process has replaced again, and one for more rights. */
const maxRenewals = 3;

/**
 * Sends a request with a token, and again with another one where the server refuses it. The response has the status 401 where the user has
 * to sign in.
 */
export async function authorized({ sdk, auth, send, signal }: AuthorizedOptions): Promise<Response> {
  for (let renewals = 0; ; renewals++) {
    const token = await auth.token();
    const response = await send(token);
    const { status } = response;
    if ((status !== 401 && status !== 403) || renewals === maxRenewals) return response;
    const { error, scope, resourceMetadataUrl } = sdk.extractWWWAuthenticateParams(response);
    const needsMoreRights = status === 403;
    if (needsMoreRights && error !== 'insufficient_scope') return response;
    await response.body?.cancel();
    const renewed = auth.renew({ token, needsMoreRights, scope, resourceMetadataUrl });
    if (!(await unlessAborted(signal ?? undefined, renewed))) return new Response(null, { status: 401 });
  }
}
