import { createHash, timingSafeEqual } from 'node:crypto';
import type { SecurityScheme } from '@a2a-js/sdk';
import {
  AgentLoopError,
  type Clock,
  invalidConfig,
  type Logger,
  type MaybePromise,
  nameOf,
} from '../../core/contracts/index.ts';
import { within } from '../../core/streams/index.ts';
import { assertKnownOptions, type OptionNames } from '../../options/option-rules.ts';

/** Who a request comes from. */
export interface AuthenticatedUser {
  /** Tells users apart: tasks belong to it. Not empty. */
  readonly id: string;
  /** The tenants that requests of this user may name. Default none. */
  readonly tenants?: readonly string[];
  /** Additional properties of `authContext` for tools; never logged. */
  readonly claims?: Readonly<Record<string, unknown>>;
}

/** A request before anything of it is read: headers of HTTP, or metadata of gRPC, by names in lower case. */
export interface AuthRequest {
  /** By lower-case name; an array where a header is there several times. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/**
 * A way for callers to say who they are. `undefined` for a request without credentials, or with wrong ones: the next way is tried,
 * and where none knows the caller, the answer is 401. What it throws is logged by its name, and is 401 too.
 */
export interface Authentication {
  /** Names the scheme in the agent's card. */
  readonly name: string;
  /** What the card declares. */
  readonly scheme: SecurityScheme;
  /** The `WWW-Authenticate` of a 401: `Bearer`, `ApiKey`, … */
  readonly challenge: string;
  /** Tells who sent a request; `undefined` where this way does not know the caller. */
  authenticate(request: AuthRequest): MaybePromise<AuthenticatedUser | undefined>;
}

/** The value of a header that is there once, and is not empty. */
function headerOf({ headers }: AuthRequest, name: string): string | undefined {
  const value = headers[name.toLowerCase()];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** What stands behind `Bearer ` in the authorization header. */
export function bearerToken(request: AuthRequest): string | undefined {
  return /^bearer +(\S+)$/i.exec(headerOf(request, 'authorization') ?? '')?.[1];
}

interface AuthenticateOptions {
  readonly logger: Logger;
  readonly clock: Clock;
  /** How long each way may take. Milliseconds. */
  readonly timeoutMs: number;
}

/** The user of the first way that knows the caller; `undefined` where none does. Never rejects. */
export async function authenticate(
  ways: readonly Authentication[],
  request: AuthRequest,
  { logger, clock, timeoutMs: ms }: AuthenticateOptions,
): Promise<AuthenticatedUser | undefined> {
  for (const way of ways) {
    try {
      const late = () => new AgentLoopError('UNAVAILABLE', `no answer within ${ms} ms (authTimeoutMs)`);
      const user = await within({ ms, clock, late }, () => way.authenticate(request));
      if (user !== undefined && typeof user.id === 'string' && user.id !== '') return user;
    } catch (thrown) {
      // What an issuer or a function of the user says may repeat the credentials.
      const why = AgentLoopError.isInstance(thrown)
        ? { code: thrown.code, authTimeoutMs: ms }
        : { error: nameOf(thrown) };
      logger.warn('authentication failed', { scheme: way.name, ...why });
    }
  }
  return undefined;
}

/** The `WWW-Authenticate` of a 401. */
export function challengesOf(ways: readonly Authentication[]): string {
  return ways.map(({ challenge }) => challenge).join(', ');
}

/** What of an {@link Authentication} may be left out, where a function decides. */
export interface CustomAuthOptions {
  /** Default `custom`. */
  readonly name?: string | undefined;
  /** What the card declares. Default: a bearer token. */
  readonly scheme?: SecurityScheme | undefined;
  /** Default `Bearer`. */
  readonly challenge?: string | undefined;
}

/** Knows callers by a function of yours: a session, a header that a proxy sets, a look into a database. */
export function customAuth(
  authenticate: Authentication['authenticate'],
  options: CustomAuthOptions = {},
): Authentication {
  const value = { description: '', scheme: 'Bearer', bearerFormat: '' };
  const {
    name = 'custom',
    scheme = { scheme: { $case: 'httpAuthSecurityScheme', value } },
    challenge = 'Bearer',
  } = options;
  return { name, scheme, challenge, authenticate };
}

/** How many characters a key has at least: shorter ones can be guessed. */
export const shortestKey = 16;

/** A key and whose it is; given as it is, or only its hash, so that no key stands in the configuration. */
export type ApiKey = AuthenticatedUser & ({ readonly key: string } | { readonly sha256: string });

/** Options of `apiKeyAuth`: the keys, and the header that carries one. */
export interface ApiKeyAuthOptions {
  /** The keys, each with the id of its user. */
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
    throw invalidConfig(`${which} is too short`, `use a random one of at least ${shortestKey} characters`);
  }
  return { hash: hashOf(given.key), user };
}

function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
