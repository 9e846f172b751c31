import { createHash, timingSafeEqual } from 'node:crypto';
import { invalidConfig } from '../../../core/contracts/index.ts';
import { assertKnownOptions, type OptionNames } from '../../../stores/check-arguments.ts';
import {
  type AuthenticatedUser,
  type Authentication,
  type AuthRequest,
  bearerToken,
  headerOf,
} from './authentication.ts';
import { shortestKey } from './shortest-key.ts';

/** A key and whose it is; given as it is, or only its hash, so that no key stands in the configuration. */
export type ApiKey = AuthenticatedUser & ({ readonly key: string } | { readonly sha256: string });

export interface ApiKeyAuthOptions {
  readonly keys: readonly ApiKey[];
  /** Default `x-api-key`. The key may also come as a bearer token. */
  readonly header?: string | undefined;
}

const optionNames: OptionNames<ApiKeyAuthOptions> = { keys: true, header: true };

/**
 * Knows callers by a secret of theirs. `sha256` is the hexadecimal hash of the key: `createHash('sha256').update(key).digest('hex')`.
 * Keys are kept as hashes, and each is compared in the same time. Errors: `INVALID_CONFIG`, for a key of less than 16 characters too;
 * none shows a key.
 */
export function apiKeyAuth(options: ApiKeyAuthOptions): Authentication {
  assertKnownOptions('apiKeyAuth', options, optionNames);
  const { keys, header = 'x-api-key' } = options;
  if (!Array.isArray(keys) || keys.length === 0) {
    throw invalidConfig('apiKeyAuth has no keys', "give some: apiKeyAuth({ keys: [{ id: 'alice', key: '…' }] })");
  }
  if (!/^[A-Za-z0-9-]+$/.test(header))
    throw invalidConfig('header of apiKeyAuth is not a name of a header', 'give another');
  const known = keys.map(knownKey);
  return {
    name: 'apiKey',
    scheme: { scheme: { $case: 'apiKeySecurityScheme', value: { description: '', location: 'header', name: header } } },
    challenge: `ApiKey header="${header}"`,
    authenticate: (request) => userOf(known, presentedKey(request, header)),
  };
}

interface KnownKey {
  readonly hash: Buffer;
  readonly user: AuthenticatedUser;
}

function presentedKey(request: AuthRequest, header: string): string | undefined {
  return headerOf(request, header) ?? bearerToken(request);
}

function userOf(known: readonly KnownKey[], key: string | undefined): AuthenticatedUser | undefined {
  if (key === undefined) return undefined;
  const hash = hashOf(key);
  let user: AuthenticatedUser | undefined;
  for (const each of known) {
    if (timingSafeEqual(each.hash, hash)) user = each.user;
  }
  return user;
}

function knownKey(given: ApiKey, index: number): KnownKey {
  const which = `key ${index + 1} of apiKeyAuth`;
  const { id, tenants, claims } = given;
  if (typeof id !== 'string' || id === '') throw invalidConfig(`${which} has no id`, 'name whose it is');
  const user = { id, ...(tenants && { tenants: [...tenants] }), ...(claims && { claims }) };
  if ('sha256' in given) {
    if (!/^[0-9a-f]{64}$/i.test(given.sha256))
      throw invalidConfig(`sha256 of ${which} is not a hash`, 'give 64 hexadecimal digits');
    return { hash: Buffer.from(given.sha256, 'hex'), user };
  }
  if (typeof given.key !== 'string' || given.key.length < shortestKey) {
    throw invalidConfig(`${which} is too short`, `take a random one of at least ${shortestKey} characters`);
  }
  return { hash: hashOf(given.key), user };
}

function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
