import { createHash, randomUUID } from 'node:crypto';
import { readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { OAuthClientProvider } from '@modelcontextprotocol/client';
import { invalidConfig, shownValue } from '../../core/contracts/index.ts';
import { assertKnownOptions, type OptionNames } from '../../options/option-rules.ts';
import { makeFolder, writePrivate } from '../../private-files.ts';

/** How to sign in to a server over HTTP: a provider of the SDK that does all of it, or options for the one of this package. */
export type McpAuth = McpProviderOptions | McpOAuthOptions;

/** A sign-in with an `OAuthClientProvider` of your own. */
export interface McpProviderOptions {
  /** Redirects and finishes the sign-in itself; until then calls fail. */
  readonly provider: OAuthClientProvider;
  /** Origins of authorization servers that may be on private addresses or use plain http. Default: only on the host of the MCP server itself, with an issuer that has no path. */
  readonly trustedOrigins?: readonly string[] | undefined;
}

/** Sign-in by OAuth 2.1: the turn asks a question of kind `auth` where there is no valid token. */
export interface McpOAuthOptions {
  /** Of a client that is registered with the authorization server. Default: the client registers itself. */
  readonly clientId?: string | undefined;
  /** Of that client, where it has one. */
  readonly clientSecret?: string | undefined;
  /** The https address of a client metadata document, for authorization servers that accept one in place of a registration. */
  readonly clientMetadataUrl?: string | undefined;
  /** Default: those that the server asks for. */
  readonly scopes?: readonly string[] | undefined;
  /** Where the authorization server sends the user back to. */
  readonly redirectUrl: string;
  /** Origins of authorization servers that may be on private addresses or use plain http. Default: only on the host of the MCP server itself, with an issuer that has no path. */
  readonly trustedOrigins?: readonly string[] | undefined;
  /** Keeps tokens and what a sign-in needs until it is finished. All processes that may finish it need the same. */
  readonly store: McpAuthStore;
}

/**
 * Keeps JSON values by key. A reader of the store can act as the user. A `load` that begins after a `save` has resolved must return what was saved, in
 * all processes: with that alone they refresh a token once, by a record under a key that begins with `lock`.
 */
export interface McpAuthStore {
  /** Resolves with `undefined` where there is none. */
  load(key: string): Promise<unknown>;
  /** Keeps a value, JSON, under a key in place of the one before. It is a secret: encrypt it or restrict who can read it. */
  save(key: string, value: unknown): Promise<void>;
  /** Removes what is kept under a key; nothing there is no error. */
  delete(key: string): Promise<void>;
}

const ofProvider: OptionNames<McpProviderOptions> = { provider: true, trustedOrigins: true };
const ofOAuth: OptionNames<McpOAuthOptions> = {
  clientId: true,
  clientSecret: true,
  clientMetadataUrl: true,
  scopes: true,
  redirectUrl: true,
  trustedOrigins: true,
  store: true,
};

export function isOAuth(auth: McpAuth | undefined): auth is McpOAuthOptions {
  return auth !== undefined && !('provider' in auth);
}

/** Throws `INVALID_CONFIG`. No value that may be a secret is repeated. */
export function checkAuth(owner: string, auth: McpAuth): void {
  if (typeof auth !== 'object' || auth === null)
    throw invalidConfig(`${owner} is ${shownValue(auth)}`, 'give { redirectUrl, store } or { provider }');
  const { trustedOrigins = [] } = auth;
  if (!Array.isArray(trustedOrigins) || !trustedOrigins.every(isWebAddress))
    throw invalidConfig(
      `${owner}: trustedOrigins must be an array of http or https origins`,
      'such as https://login.corp.example',
    );
  if (!isOAuth(auth)) {
    assertKnownOptions(owner, auth, ofProvider);
    if (typeof auth.provider?.tokens !== 'function')
      throw invalidConfig(`${owner}: provider must be an OAuthClientProvider`, 'give one of the SDK, or other options');
    return;
  }
  assertKnownOptions(owner, auth, ofOAuth);
  const { clientId, clientSecret, clientMetadataUrl, scopes, redirectUrl, store } = auth;
  if (typeof redirectUrl !== 'string' || !URL.canParse(redirectUrl))
    throw invalidConfig(`${owner}: redirectUrl must be an address`, 'give the one that users return to');
  for (const name of ['load', 'save', 'delete'] as const) {
    if (typeof store?.[name] !== 'function')
      throw invalidConfig(`${owner}: store has no ${name}`, 'give fileAuthStore(folder) or memoryAuthStore()');
  }
  for (const [name, value] of Object.entries({ clientId, clientSecret })) {
    if (value !== undefined && (typeof value !== 'string' || value === ''))
      throw invalidConfig(`${owner}: ${name} must be a string that is not empty`, 'leave it out where there is none');
  }
  if (clientSecret !== undefined && clientId === undefined)
    throw invalidConfig(`${owner}: clientSecret needs clientId`, 'give both');
  if (clientMetadataUrl !== undefined && !isDocument(clientMetadataUrl))
    throw invalidConfig(
      `${owner}: clientMetadataUrl must be an https address with a path`,
      'publish the document there',
    );
  if (scopes !== undefined && !(Array.isArray(scopes) && scopes.every((each) => /^[!#-[\]-~]+$/.test(String(each)))))
    throw invalidConfig(`${owner}: scopes must be an array of names without spaces`, 'give one string for each');
}

function isWebAddress(text: unknown): boolean {
  return typeof text === 'string' && URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

function isDocument(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, pathname } = new URL(text);
  return protocol === 'https:' && pathname !== '/';
}

/** Keeps tokens in this process, until it ends. A sign-in has to be finished in the process that began it. */
export function memoryAuthStore(): McpAuthStore {
  const values = new Map<string, string>();
  const store: McpAuthStore = {
    load: async (key) => {
      const text = values.get(key);
      return text === undefined ? undefined : JSON.parse(text);
    },
    save: async (key, value) => void values.set(key, JSON.stringify(value)),
    delete: async (key) => void values.delete(key),
  };
  ofOneProcess.add(store);
  return store;
}

const ofOneProcess = new WeakSet<McpAuthStore>();

/** Whether no other process can have the store. */
export function sharesNothing(store: McpAuthStore): boolean {
  return ofOneProcess.has(store);
}

/**
 * Keeps tokens in a folder, a file for each key, which only its owner can read. Processes can share it: a value is replaced as a whole, and a
 * token is refreshed by one of them. The values are not encrypted.
 */
export function fileAuthStore(folder: string): McpAuthStore {
  const fileOf = (key: string) => join(folder, `${createHash('sha256').update(key).digest('hex')}.json`);
  return {
    async load(key) {
      try {
        return JSON.parse(await readFile(fileOf(key), 'utf8'));
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },
    async save(key, value) {
      await makeFolder(folder);
      const draft = join(folder, `${randomUUID()}.tmp`);
      await writePrivate(draft, JSON.stringify(value), 'wx');
      await rename(draft, fileOf(key));
    },
    delete: (key) => rm(fileOf(key), { force: true }),
  };
}

function isMissing(error: unknown): boolean {
  return typeof error === 'object' && error !== null && Reflect.get(error, 'code') === 'ENOENT';
}
