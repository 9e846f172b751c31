import type { CryptoKey, JSONWebKeySet, JWTPayload, JWTVerifyOptions, KeyObject } from 'jose';
import { AgentLoopError, invalidConfig } from '../../core/contracts/index.ts';
import { boundedResponse } from '../../core/model-call/index.ts';
import { assertKnownOptions, type OptionNames } from '../../stores/check-arguments.ts';
import { type AuthenticatedUser, type Authentication, bearerToken } from './authentication.ts';
import { isLoopbackHost } from './listening.ts';

export interface BearerAuthOptions {
  /** Where the issuer publishes its keys; they are fetched when needed and kept for ten minutes. */
  readonly jwksUrl?: string | undefined;
  /** The keys themselves. */
  readonly jwks?: JSONWebKeySet | undefined;
  /** One public key, or a shared secret of at least 32 bytes. */
  readonly key?: CryptoKey | KeyObject | Uint8Array | undefined;
  /** Who has to have issued the token: its `iss`. */
  readonly issuer: string;
  /** Whom it has to be meant for: its `aud`. Without this, tokens that the issuer made for others are good here too. */
  readonly audience: string;
  /** Default: what is safe for the kind of key. */
  readonly algorithms?: readonly string[] | undefined;
  /** The claim that names the user. Default `sub`. */
  readonly userClaim?: string | undefined;
  /** The claim that lists the tenants of the user: an array of strings, or a string. Default: none, and no tenants. */
  readonly tenantsClaim?: string | undefined;
  /** What has to be in `scope` or `scp`. Default none. */
  readonly scopes?: readonly string[] | undefined;
  /** How far clocks may differ. Seconds; default 5. */
  readonly clockToleranceSeconds?: number | undefined;
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

const publicKeyAlgorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];
const secretAlgorithms = ['HS256', 'HS384', 'HS512'];

/**
 * Knows callers by a signed token (JWT, RFC 7519) in `Authorization: Bearer`. Its signature, issuer, audience and times are checked;
 * one without an expiry is refused. Errors: `INVALID_CONFIG`. Where the issuer's keys cannot be fetched, nobody is known.
 */
export function bearerAuth(options: BearerAuthOptions): Authentication {
  assertKnownOptions('bearerAuth', options, optionNames);
  for (const name of ['issuer', 'audience'] as const) {
    if (!options[name]) throw invalidConfig(`bearerAuth has no ${name}`, 'say which tokens are meant for this server');
  }
  const verify = verifierOf(options);
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

/** The claims of a token, or `undefined` for an invalid one. Rejects if the token cannot be verified. */
type Verify = (token: string) => Promise<JWTPayload | undefined>;

function verifierOf(options: BearerAuthOptions): Verify {
  const checks = checksOf(options);
  const keyOf = keySource(options);
  let loading: ReturnType<typeof keyOf> | undefined;
  return async (token) => {
    const { jwtVerify, errors } = await jose();
    loading ??= keyOf();
    const key = await loading;
    try {
      const { payload } = await (typeof key === 'function'
        ? jwtVerify(token, key, checks)
        : jwtVerify(token, key, checks));
      return payload;
    } catch (thrown) {
      if (thrown instanceof errors.JOSEError && !(thrown instanceof errors.JWKSTimeout)) return undefined;
      throw thrown;
    }
  };
}

function checksOf({ key, algorithms, issuer, audience, ...options }: BearerAuthOptions): JWTVerifyOptions {
  const safe = key instanceof Uint8Array || isSecret(key) ? secretAlgorithms : publicKeyAlgorithms;
  return {
    issuer,
    audience,
    algorithms: [...(algorithms ?? safe)],
    clockTolerance: options.clockToleranceSeconds ?? 5,
    requiredClaims: ['exp', options.userClaim ?? 'sub'],
  };
}

function keySource({ jwksUrl, jwks, key }: BearerAuthOptions) {
  const given = [jwksUrl, jwks, key].filter((each) => each !== undefined).length;
  if (given !== 1) throw invalidConfig(`bearerAuth has ${given} of jwksUrl, jwks and key`, 'give one of them');
  if (key instanceof Uint8Array && key.length < 32) {
    throw invalidConfig('key of bearerAuth is too short', 'a shared secret has at least 32 bytes');
  }
  const url = jwksUrl === undefined ? undefined : urlOf(jwksUrl);
  return async () => {
    const { createLocalJWKSet, createRemoteJWKSet, customFetch } = await jose();
    if (url) return createRemoteJWKSet(url, { [customFetch]: fetchKeys });
    return key ?? createLocalJWKSet(jwks ?? { keys: [] });
  };
}

/** Keys of an issuer are some kilobytes. */
const keyLimits = { maxBodyBytes: 1_048_576, maxEventBytes: 1_048_576, bodyOption: 'the limit of jwksUrl' };

async function fetchKeys(url: string, init: RequestInit): Promise<Response> {
  const fail = (what: string) =>
    new AgentLoopError('PROVIDER_TOO_LARGE', `The issuer at ${new URL(url).origin} ${what}; check jwksUrl.`);
  const response = boundedResponse(await fetch(url, init), keyLimits, fail);
  const { status, headers } = response;
  // Read here: jose hides why a body cannot be read.
  return new Response(await response.text(), { status, headers });
}

/** Loaded with the first token. */
async function jose(): Promise<typeof import('jose')> {
  try {
    return await import('jose');
  } catch (cause) {
    const message = 'bearerAuth needs the package "jose", which cannot be loaded; run `npm install jose`.';
    throw new AgentLoopError('MISSING_PACKAGE', message, { cause });
  }
}

function isSecret(key: CryptoKey | KeyObject | Uint8Array | undefined): boolean {
  return key !== undefined && 'type' in key && key.type === 'secret';
}

/** Keys that come over plain http can be swapped on the way. */
function urlOf(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopbackHost(url.hostname));
  if (url && isSafe) return url;
  throw invalidConfig('jwksUrl of bearerAuth is not an https address', 'give that of the issuer');
}

function userOf(payload: JWTPayload, options: BearerAuthOptions): AuthenticatedUser | undefined {
  const id = payload[options.userClaim ?? 'sub'];
  if (typeof id !== 'string' || id === '') return undefined;
  const granted = [...textsIn(payload['scope']), ...textsIn(payload['scp'])];
  if (options.scopes?.some((scope) => !granted.includes(scope))) return undefined;
  const tenants = options.tenantsClaim === undefined ? [] : textsIn(payload[options.tenantsClaim]);
  return { id, tenants, claims: payload };
}

function textsIn(claim: unknown): readonly string[] {
  if (typeof claim === 'string') return claim.split(' ').filter((text) => text !== '');
  return Array.isArray(claim) ? claim.filter((each) => typeof each === 'string') : [];
}
