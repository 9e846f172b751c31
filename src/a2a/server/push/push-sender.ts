import { createHash, createPublicKey, type KeyObject } from 'node:crypto';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { JWK } from 'jose';
import { AgentLoopError, type Clock, invalidConfig, missingPackage } from '../../../core/contracts/index.ts';
import type { PushEntry, PushStore } from '../../../stores/push/push-store.ts';
import { checkedLookup, type TargetRules, targetUrl } from './push-target.ts';

/** What signs notifications, so that receivers can tell that they are yours. */
export interface PushSigning {
  /** A private key, whose public half the server then shows under `/.well-known/jwks.json`, or a secret of at least 32 bytes. */
  readonly key: KeyObject | JWK | Uint8Array;
  /** `ES256`, `EdDSA`, `RS256`, …; `HS256` for a secret. */
  readonly algorithm: string;
  /** Tells keys apart. */
  readonly keyId: string;
}

/** Options of push notifications: where registrations are kept, which addresses may be called, signing, and limits. */
export interface PushOptions extends TargetRules {
  /** Where registrations are kept. One that all processes share, as they share the journal. */
  readonly store: PushStore;
  /** Default: notifications are not signed. */
  readonly signing?: PushSigning | undefined;
  /** Registrations a task may have. Default 5. */
  readonly mostPerTask?: number | undefined;
  /** Registrations that this process follows at the same time; of more, those that are silent take turns. Default 500. */
  readonly concurrency?: number | undefined;
  /** How often a notification is tried before its registration is given up. Default 10: for about five minutes. */
  readonly attempts?: number | undefined;
  /** How long a receiver may take to answer. Milliseconds; default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** The least time between two notifications of one registration; text that comes meanwhile is sent in one. Milliseconds; default 250. */
  readonly intervalMs?: number | undefined;
}

export interface Notification {
  readonly body: string;
  readonly contentType: string;
  /** The same whenever it is sent again: receivers drop what they have had. */
  readonly id: string;
}

/** What came of a notification: taken, not wanted any more, or to be sent again. */
export type PushOutcome =
  | { readonly type: 'taken' }
  | { readonly type: 'gone' }
  | { readonly type: 'failed'; readonly status?: number; readonly retryAfterMs?: number };

/**
 * Posts a notification once. Follows no redirect, reads nothing of the answer but its status, and connects only to an address that was
 * checked. Never rejects.
 */
export async function sendNotification(
  entry: PushEntry,
  notification: Notification,
  options: TargetRules &
    Pick<PushOptions, 'signing' | 'timeoutMs'> & {
      readonly clock: Clock;
      readonly signal: AbortSignal;
    },
): Promise<PushOutcome> {
  try {
    const url = targetUrl(entry.url, options);
    const headers = await headersOf(entry, notification, { url, ...options });
    const response = await post(url, { headers, body: notification.body, ...options });
    return outcomeOf(response);
  } catch (thrown) {
    // A target that is not allowed any more will not be tomorrow.
    return AgentLoopError.isInstance(thrown) ? { type: 'gone' } : { type: 'failed' };
  }
}

type Headers = Readonly<Record<string, string | number>>;

async function headersOf(
  { token, authentication }: PushEntry,
  { body, contentType, id }: Notification,
  { url, signing, clock }: { readonly url: URL; readonly clock: Clock } & Pick<PushOptions, 'signing'>,
): Promise<Headers> {
  const signed = { body, id, audience: url.origin, now: clock.now() };
  return {
    'content-type': contentType,
    'content-length': Buffer.byteLength(body),
    'user-agent': 'millrace',
    'x-millrace-delivery': id,
    ...(token !== undefined && { 'x-a2a-notification-token': token }),
    ...(authentication && { authorization: `${authentication.scheme} ${authentication.credentials}` }),
    ...(signing && { 'x-millrace-signature': await signature(signing, signed) }),
  };
}

interface Post extends TargetRules, Pick<PushOptions, 'timeoutMs'> {
  readonly headers: Headers;
  readonly body: string;
  readonly signal: AbortSignal;
}

function post(url: URL, { headers, body, timeoutMs = 10_000, signal, ...rules }: Post): Promise<IncomingMessage> {
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const request = send(url, { method: 'POST', headers, agent: false, lookup: checkedLookup(rules), signal: limit });
    request.once('error', reject);
    request.once('response', (response) => {
      response.destroy();
      resolve(response);
    });
    request.end(body);
  });
}

function outcomeOf({ statusCode = 0, headers }: IncomingMessage): PushOutcome {
  if (statusCode >= 200 && statusCode < 300) return { type: 'taken' };
  if (statusCode === 410) return { type: 'gone' };
  const seconds = Number(headers['retry-after']);
  return { type: 'failed', status: statusCode, ...(seconds > 0 && { retryAfterMs: seconds * 1_000 }) };
}

interface SignedContent {
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
async function signature(signing: PushSigning, { body, id, audience, now }: SignedContent): Promise<string> {
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
