import { createHash, createPublicKey } from 'node:crypto';
import type { JWK } from 'jose';
import { invalidConfig, missingPackage } from '../../../core/contracts/index.ts';
import type { PushSigning } from './push-options.ts';

export interface SignedContent {
  readonly body: string;
  /** The same whenever a notification is sent again. */
  readonly id: string;
  /** Whom it is for: the origin of the target. */
  readonly audience: string;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** How long a signature may be taken for one that was made just now. Seconds. */
const validSeconds = 300;

/**
 * A token (JWT) over a notification: `jti` is its id, `aud` the origin of the receiver, `request_body_sha256` the hash of the body in
 * hexadecimal; it expires after five minutes. Rejects with `MISSING_PACKAGE`.
 */
export async function signature(signing: PushSigning, { body, id, audience, now }: SignedContent): Promise<string> {
  const { key, algorithm, keyId } = signing;
  const { importJWK, SignJWT } = await import('jose').catch((cause: unknown) => {
    throw missingPackage('jose', cause);
  });
  const issuedAt = Math.floor(now / 1_000);
  const hash = createHash('sha256').update(body).digest('hex');
  return new SignJWT({ request_body_sha256: hash })
    .setProtectedHeader({ alg: algorithm, kid: keyId, typ: 'JWT' })
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + validSeconds)
    .setJti(id)
    .setAudience(audience)
    .sign(isJwk(key) ? await importJWK(key, algorithm) : key);
}

/** The public half of a key as a JWK set; `undefined` for a secret, which has none. Errors: `INVALID_CONFIG`. */
export function publicKeys({ key, algorithm, keyId }: PushSigning): { readonly keys: readonly object[] } | undefined {
  const isSecret = key instanceof Uint8Array || algorithm.startsWith('HS');
  if (isSecret !== algorithm.startsWith('HS')) {
    throw invalidConfig(`push.signing has the algorithm ${algorithm} and a secret`, 'take HS256, or a private key');
  }
  if (isSecret) {
    const bytes = key instanceof Uint8Array ? key.length : undefined;
    if (bytes !== undefined && bytes < 32)
      throw invalidConfig('key of push.signing is too short', 'a secret has at least 32 bytes');
    return undefined;
  }
  try {
    return { keys: [{ ...publicJwk(key), kid: keyId, alg: algorithm, use: 'sig' }] };
  } catch {
    throw invalidConfig(
      'key of push.signing is no private key that can be shown in public',
      'give a private KeyObject or JWK',
    );
  }
}

function publicJwk(key: Exclude<PushSigning['key'], Uint8Array>): object {
  if (isJwk(key)) return createPublicKey({ key, format: 'jwk' }).export({ format: 'jwk' });
  return createPublicKey(key.export({ format: 'pem', type: 'pkcs8' })).export({ format: 'jwk' });
}

function isJwk(key: PushSigning['key']): key is JWK {
  return 'kty' in key;
}
