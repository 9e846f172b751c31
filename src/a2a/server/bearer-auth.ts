import type { JWTPayload } from 'jose';
import { assertKnownOptions, type OptionNames } from '../../options/option-rules.ts';
import { scopesOf, type TokenCheckOptions, textsIn, tokenCheck } from '../../signed-tokens.ts';
import { type AuthenticatedUser, type Authentication, bearerToken } from './authentication.ts';

/** Options of `bearerAuth`: how tokens are checked, and which claims name tenants and scopes. */
export interface BearerAuthOptions extends TokenCheckOptions {
  /** The claim that lists the tenants of the user: an array of strings, or a string. Default: none, and no tenants. */
  readonly tenantsClaim?: string | undefined;
  /** What has to be in `scope` or `scp`. Default none. */
  readonly scopes?: readonly string[] | undefined;
}

const optionNames: OptionNames<BearerAuthOptions> = {
  jwksUrl: true,
  jwks: true,
  key: true,
  issuer: true,
  audience: true,
  algorithms: true,
  userClaim: true,
  tenantsClaim: true,
  scopes: true,
  clockToleranceSeconds: true,
};

/**
 * Knows callers by a signed token (JWT, RFC 7519) in `Authorization: Bearer`. Its signature, issuer, audience and times are checked;
 * one without an expiry is refused. Errors: `INVALID_CONFIG`. Where the issuer's keys cannot be fetched, nobody is known.
 */
export function bearerAuth(options: BearerAuthOptions): Authentication {
  assertKnownOptions('bearerAuth', options, optionNames);
  const verify = tokenCheck('bearerAuth', options);
  return {
    name: 'bearer',
    scheme: {
      scheme: { $case: 'httpAuthSecurityScheme', value: { description: '', scheme: 'Bearer', bearerFormat: 'JWT' } },
    },
    challenge: 'Bearer',
    async authenticate(request) {
      const token = bearerToken(request);
      if (token === undefined) return undefined;
      const payload = await verify(token);
      return payload && userOf(payload, options);
    },
  };
}

function userOf(payload: JWTPayload, options: BearerAuthOptions): AuthenticatedUser | undefined {
  const id = payload[options.userClaim ?? 'sub'];
  if (typeof id !== 'string' || id === '') return undefined;
  const granted = scopesOf(payload);
  if (options.scopes?.some((scope) => !granted.includes(scope))) return undefined;
  const tenants = options.tenantsClaim === undefined ? [] : textsIn(payload[options.tenantsClaim]);
  return { id, tenants, claims: payload };
}
