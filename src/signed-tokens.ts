import type { CryptoKey, JSONWebKeySet, JWTPayload, JWTVerifyOptions, KeyObject } from 'jose';
import { boundedResponse, type LimitError } from './body-limits.ts';
import { AgentLoopError, invalidConfig } from './core/contracts/index.ts';
import { isLoopbackHost } from './loopback.ts';

/** Where the keys of signatures come from: one of the three. */
export interface KeyOptions {
  /** Where the issuer publishes its keys; they are fetched when needed and kept for ten minutes. */
  readonly jwksUrl?: string | undefined;
  /** The keys themselves. */
  readonly jwks?: JSONWebKeySet | undefined;
  /** One public key, or a shared secret of at least 32 bytes. */
  readonly key?: CryptoKey | KeyObject | Uint8Array | undefined;
}

export interface TokenCheckOptions extends KeyOptions {
  /** Who has to have issued the token: its `iss`. */
  readonly issuer: string;
  /** Whom it has to be meant for: its `aud`. Without this, tokens that the issuer made for others are good here too. */
  readonly audience: string;
  /** Default: what is safe for the kind of key. */
  readonly algorithms?: readonly string[] | undefined;
  /** The claim that names the user. Default `sub`. */
  readonly userClaim?: string | undefined;
  /** How far clocks may differ. Seconds; default 5. */
  readonly clockToleranceSeconds?: number | undefined;
}

/** Of signatures with a private key. */
export const publicKeyAlgorithms = [
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

/** The claims of a token, or `undefined` for an invalid one. Rejects if the token cannot be verified. */
export type TokenCheck = (token: string) => Promise<JWTPayload | undefined>;

/**
 * Checks tokens (JWT, RFC 7519): signature, issuer, audience and times. One without an expiry, or without the claim that names the user, is
 * invalid. `owner` names the caller in errors. Throws `INVALID_CONFIG`.
 */
export function tokenCheck(owner: string, options: TokenCheckOptions): TokenCheck {
  for (const name of ['issuer', 'audience'] as const) {
    if (!options[name])
      throw invalidConfig(`${owner} has no ${name}`, 'set the value that tokens for this server have');
  }
  const checks = checksOf(options);
  const keyOf = keySource(owner, options);
  let loading: ReturnType<typeof keyOf> | undefined;
  return async (token) => {
    const { jwtVerify, errors } = await jose(owner);
    loading ??= keyOf();
    const key = await loading;
    try {
      const { payload } = await (typeof key === 'function'
        ? jwtVerify(token, key, checks)
        : jwtVerify(token, key, checks));
      return payload;
    } catch (thrown) {
      // What is wrong with the keys of the issuer says nothing of the token.
      const isOfKeys = ['ERR_JOSE_GENERIC', errors.JWKSTimeout.code, errors.JWKSInvalid.code];
      if (thrown instanceof errors.JOSEError && !isOfKeys.includes(thrown.code)) return undefined;
      throw thrown;
    }
  };
}

function checksOf({ key, algorithms, issuer, audience, ...options }: TokenCheckOptions): JWTVerifyOptions {
  const safe = key instanceof Uint8Array || isSecret(key) ? secretAlgorithms : publicKeyAlgorithms;
  return {
    issuer,
    audience,
    algorithms: [...(algorithms ?? safe)],
    clockTolerance: options.clockToleranceSeconds ?? 5,
    requiredClaims: ['exp', options.userClaim ?? 'sub'],
  };
}

/** Gives the keys, or what finds one by the header of a signature. Throws `INVALID_CONFIG`; `MISSING_PACKAGE` once they are asked for. */
export function keySource(owner: string, { jwksUrl, jwks, key }: KeyOptions) {
  const given = [jwksUrl, jwks, key].filter((each) => each !== undefined).length;
  if (given !== 1) throw invalidConfig(`${owner} has ${given} of jwksUrl, jwks and key`, 'give one of them');
  if (key instanceof Uint8Array && key.length < 32) {
    throw invalidConfig(`key of ${owner} is too short`, 'a shared secret has at least 32 bytes');
  }
  const url = jwksUrl === undefined ? undefined : urlOf(owner, jwksUrl);
  return async () => {
    const { createLocalJWKSet, createRemoteJWKSet, customFetch } = await jose(owner);
    if (url) return createRemoteJWKSet(url, { [customFetch]: fetchKeys });
    return key ?? createLocalJWKSet(jwks ?? { keys: [] });
  };
}

/** Keys of an issuer are some kilobytes. */
const keyLimits = { maxBodyBytes: 1_048_576, maxEventBytes: 1_048_576, bodyOption: 'the limit of jwksUrl' };

async function fetchKeys(url: string, init: RequestInit): Promise<Response> {
  const fail: LimitError = (what, limit) =>
    new AgentLoopError(
      limit === 'size' ? 'PROVIDER_TOO_LARGE' : 'PROVIDER_PROTOCOL',
      `The issuer at ${new URL(url).origin} ${what}; check jwksUrl.`,
    );
  const response = boundedResponse(await fetch(url, init), keyLimits, fail);
  const { status, headers } = response;
  // Read here: jose hides why a body cannot be read.
  return new Response(await response.text(), { status, headers });
}

/** Loaded with the first signature. */
export async function jose(owner: string): Promise<typeof import('jose')> {
  try {
    return await import('jose');
  } catch (cause) {
    const message = `${owner} needs the package "jose", which cannot be loaded; run \`npm install jose\`.`;
    throw new AgentLoopError('MISSING_PACKAGE', message, { cause });
  }
}

function isSecret(key: CryptoKey | KeyObject | Uint8Array | undefined): boolean {
  return key !== undefined && 'type' in key && key.type === 'secret';
}

/** Keys that come over plain http can be swapped on the way. */
function urlOf(owner: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopbackHost(url.hostname));
  if (url && isSafe) return url;
  throw invalidConfig(`jwksUrl of ${owner} is not an https address`, 'give that of the issuer');
}

/** What a token grants: its `scope` and `scp`. */
export function scopesOf(payload: JWTPayload): readonly string[] {
  return [...textsIn(payload['scope']), ...textsIn(payload['scp'])];
}

/** A claim that is an array of strings, or one string with spaces in between. */
export function textsIn(claim: unknown): readonly string[] {
  if (typeof claim === 'string') return claim.split(' ').filter((text) => text !== '');
  return Array.isArray(claim) ? claim.filter((each) => typeof each === 'string') : [];
}
