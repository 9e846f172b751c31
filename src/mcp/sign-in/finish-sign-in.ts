import type { SecretWords } from '../call-failure.ts';
import type { ClientSdk } from '../load-sdk.ts';
import type { McpHttpOptions } from '../mcp-options.ts';
import { httpTransport } from '../transports.ts';
import { isOAuth } from './auth-options.ts';
import { StoredSignIn } from './stored-sign-in.ts';

interface FinishOptions {
  readonly sdk: ClientSdk;
  readonly server: McpHttpOptions;
  readonly secrets: SecretWords;
}

/**
 * Exchanges what the authorization server sent the user back with for tokens, which are in the store then. Returns why that failed, as the
 * rest of a sentence; never what the authorization server says of it beside its code. Rejects as the store does.
 */
export async function finishSignIn(callback: string, options: FinishOptions): Promise<string | undefined> {
  const { sdk, server, secrets } = options;
  if (!isOAuth(server.auth)) return 'this server has no sign-in';
  const params = new URLSearchParams(URL.canParse(callback.trim()) ? new URL(callback.trim()).search : callback.trim());
  const code = params.get('code');
  if (code !== null) secrets.addToken(code);
  const signIn = new StoredSignIn(server.url, server.auth, (token) => secrets.addToken(token));
  if (!(await signIn.resume(params.get('state') ?? '')))
    return 'the answer belongs to no sign-in that waits for one; it may have been used before';
  const ignore = () => {};
  const transport = httpTransport({
    sdk,
    server,
    authProvider: signIn,
    onHeaders: (headers) => secrets.addHeaders(headers),
    onStreamEnd: ignore,
    onTooLarge: ignore,
  });
  try {
    await transport.finishAuth(params);
    return undefined;
  } catch (thrown) {
    if (!(thrown instanceof sdk.OAuthError)) return 'the answer cannot be exchanged for a token';
    const known = /^[a-z_]{1,40}$/.test(thrown.code) ? thrown.code : 'an error';
    return `the authorization server answered with ${known}`;
  }
}
