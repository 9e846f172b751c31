import { createHash } from 'node:crypto';
import { invalidConfig } from '../../core/contracts/index.ts';
import { isLoopbackHost } from '../../loopback.ts';
import { assertKnownOptions, type OptionNames } from '../../options/option-rules.ts';
import { scopesOf, type TokenCheck, tokenCheck } from '../../signed-tokens.ts';
import type { Caller } from './sessions.ts';

/** Which access tokens an MCP server accepts: signed ones (JWT) of one issuer. */
export interface McpTokenOptions {
  /** The authorization server: the `iss` of its tokens. Clients are sent there to sign in. */
  readonly issuer: string;
  /** The address of this server as its clients know it (RFC 8707): the `aud` of the tokens. */
  readonly audience: string;
  /** Where the issuer publishes its keys. */
  readonly jwksUrl: string;
  /** What a token has to grant. Default: nothing in particular. */
  readonly scopes?: readonly string[] | undefined;
}

/** Why a request is not let in. */
export interface Challenge {
  readonly status: 401 | 403 | 503;
  readonly message: string;
  /** The `WWW-Authenticate`, where the client can do something. */
  readonly authenticate: string | undefined;
}

const names: OptionNames<McpTokenOptions> = { issuer: true, audience: true, jwksUrl: true, scopes: true };
const wellKnown = '/.well-known/oauth-protected-resource';

/** The access tokens of one listener. A token is checked here, and passed on to nobody. */
export class TokenAuth {
  readonly #options: McpTokenOptions;
  readonly #check: TokenCheck;
  readonly #metadataPath: string;

  /** Throws `INVALID_CONFIG`. */
  constructor(options: McpTokenOptions) {
    assertKnownOptions('listen: auth', options, names);
    const { issuer, audience, jwksUrl, scopes } = options;
    if (typeof jwksUrl !== 'string') throw invalidConfig('listen: auth has no jwksUrl', 'give that of the issuer');
    this.#check = tokenCheck('listen: auth', { issuer, audience, jwksUrl });
    for (const [name, address] of Object.entries({ issuer, audience })) {
      if (!isSafe(address))
        throw invalidConfig(`listen: auth: ${name} is not an https address`, 'clients need one that they can reach');
    }
    if (scopes !== undefined && !(Array.isArray(scopes) && scopes.every((each) => /^[!#-[\]-~]+$/.test(String(each)))))
      throw invalidConfig('listen: auth: scopes must be an array of names without spaces', 'give one string for each');
    this.#options = options;
    const { pathname } = new URL(audience);
    this.#metadataPath = `${wellKnown}${pathname === '/' ? '' : pathname}`;
  }

  /** The protected resource metadata (RFC 9728), if that is what a path asks for. */
  metadataAt(path: string | undefined): object | undefined {
    if (path !== this.#metadataPath && path !== wellKnown) return undefined;
    const { issuer, audience, scopes } = this.#options;
    return {
      resource: audience,
      authorization_servers: [issuer],
      bearer_methods_supported: ['header'],
      ...(scopes && { scopes_supported: scopes }),
    };
  }

  /** Who sends a request with this `Authorization`. Never rejects. */
  async identify(authorization = ''): Promise<Caller | Challenge> {
    const { issuer, scopes = [] } = this.#options;
    const token = /^bearer +(\S+)$/i.exec(authorization)?.[1];
    if (token === undefined) return this.#challenge(401, 'an access token is needed');
    const payload = await this.#check(token).catch(() => 'unknown' as const);
    // Not the client's fault: a new sign-in would not help.
    if (payload === 'unknown')
      return { status: 503, message: 'access tokens cannot be checked now', authenticate: undefined };
    if (!payload?.sub) return this.#challenge(401, 'the access token is not valid', 'invalid_token');
    const granted = scopesOf(payload);
    if (!scopes.every((scope) => granted.includes(scope)))
      return this.#challenge(403, 'the access token does not grant enough', 'insufficient_scope');
    const principal = createHash('sha256').update(`${issuer} ${payload.sub}`).digest('base64url');
    return { name: `user ${principal}`, principal };
  }

  #challenge(status: 401 | 403, message: string, error?: string): Challenge {
    const { audience, scopes } = this.#options;
    const authenticate = [
      ...(error === undefined ? [] : [`error="${error}"`]),
      ...(scopes ? [`scope="${scopes.join(' ')}"`] : []),
      `resource_metadata="${new URL(this.#metadataPath, audience).href}"`,
    ];
    return { status, message, authenticate: `Bearer ${authenticate.join(', ')}` };
  }
}

/** Over plain http everybody on the way can read tokens. */
function isSafe(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return protocol === 'https:' || (protocol === 'http:' && isLoopbackHost(hostname));
}
