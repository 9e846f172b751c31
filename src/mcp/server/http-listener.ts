import { createHash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { NodeIncomingMessageLike } from '@modelcontextprotocol/node';
import type { McpHttpHandler } from '@modelcontextprotocol/server';
import { invalidConfig, shownValue } from '../../core/contracts/index.ts';
import { hostNameIn, isLoopbackHost } from '../../loopback.ts';
import { anything, aString, assertOptions, type OptionRules, wholeNumber } from '../../options/option-rules.ts';
import { isOwnOrigin } from '../../own-origin.ts';
import type { NodeSdk, ServerSdk } from '../load-sdk.ts';
import { agentServer, CallerTurns, OpenCalls } from './agent-server.ts';
import type { RequestStates } from './request-state.ts';
import type { ServedAgent } from './served-agent.ts';
import { type Caller, type Exchange, postedJson, type Refusal, Sessions } from './sessions.ts';
import { type Challenge, type McpTokenOptions, TokenAuth } from './token-auth.ts';

/** Where a server listens. */
export interface ListenOptions {
  /** Default 0: a free one. */
  readonly port?: number | undefined;
  /** Default `127.0.0.1`. Another one than the loopback needs `apiKeys` or `auth`. */
  readonly host?: string | undefined;
  /** Where clients find it. Default `/mcp`. */
  readonly path?: string | undefined;
  /** Each request needs one of them, as `Authorization: Bearer …`. Default: anybody on this machine may call. */
  readonly apiKeys?: readonly string[] | undefined;
  /** Each request needs an access token of this issuer, which clients get by OAuth. In place of `apiKeys`. */
  readonly auth?: McpTokenOptions | undefined;
  /** Clients at the same time. Default 100. */
  readonly maxSessions?: number | undefined;
  /** Of them, those of one user or API key, or, without `auth` and `apiKeys`, of one address. Default 25. */
  readonly maxSessionsPerCaller?: number | undefined;
  /** Turns of one user or API key at the same time. Default: half of `maxTurns`, where there are several `apiKeys` or there is `auth`, else `maxTurns`. */
  readonly maxTurnsPerCaller?: number | undefined;
  /** How long a request may take to arrive; its connection is closed then. Milliseconds; default 60,000. */
  readonly requestTimeoutMs?: number | undefined;
  /** After how long without a request a client that has no turn is forgotten. Milliseconds; default 1,800,000. */
  readonly sessionIdleMs?: number | undefined;
}

/** A server that listens. */
export interface Listening {
  /** For clients. */
  readonly url: string;
  /** Lets all clients go. */
  close(): Promise<void>;
}

interface ListenerOptions extends ListenOptions {
  readonly sdk: ServerSdk;
  readonly node: NodeSdk;
  readonly served: ServedAgent;
  readonly states: RequestStates;
}

const rules: OptionRules<ListenOptions> = {
  port: wholeNumber(0, 65_535),
  host: aString,
  path: { fits: (value) => typeof value === 'string' && value.startsWith('/'), must: 'begin with /' },
  apiKeys: {
    fits: (value) => Array.isArray(value) && value.length > 0 && value.every((key) => String(key).length >= 16),
    must: 'be an array of keys of at least 16 characters',
    secret: true,
  },
  auth: anything,
  maxSessions: wholeNumber(1),
  maxSessionsPerCaller: wholeNumber(1),
  maxTurnsPerCaller: wholeNumber(1),
  requestTimeoutMs: wholeNumber(1),
  sessionIdleMs: wholeNumber(1),
};
const maxBodyBytes = 1_048_576;

/** Throws `INVALID_CONFIG`. */
export function checkListening(options: ListenOptions): void {
  assertOptions('listen', options, rules);
  const { host = '127.0.0.1', apiKeys, auth, maxSessions = 100, maxSessionsPerCaller = 1 } = options;
  if (maxSessionsPerCaller > maxSessions)
    throw invalidConfig(
      `listen: maxSessionsPerCaller of ${maxSessionsPerCaller} cannot be reached: maxSessions is ${maxSessions}`,
      'raise maxSessions, or lower maxSessionsPerCaller',
    );
  if (auth !== undefined) new TokenAuth(auth);
  if (auth !== undefined && apiKeys !== undefined)
    throw invalidConfig('listen: apiKeys and auth are both set', 'set one of them');
  if (!isLoopbackHost(host) && apiKeys === undefined && auth === undefined)
    throw invalidConfig(
      `listen: host ${shownValue(host)} can be reached from elsewhere`,
      'give apiKeys or auth as well',
    );
}

/** Serves clients over HTTP: each request by itself, and those before 2026-07-28 in sessions. */
export async function listen(options: ListenerOptions): Promise<Listening> {
  const { port = 0, host = '127.0.0.1', path = '/mcp', requestTimeoutMs: ms = 60_000 } = options;
  const routes = new Routes(options);
  const tokens = options.auth && new TokenAuth(options.auth);
  const callerOf = async ({ headers, socket }: IncomingMessage): Promise<Caller | Challenge> =>
    tokens
      ? tokens.identify(headers.authorization)
      : keyCallerOf(headers.authorization, socket.remoteAddress, options.apiKeys);
  const times = { requestTimeout: ms, headersTimeout: ms, connectionsCheckingInterval: Math.min(ms, 5_000) };
  const server = createServer(times, (request, response) => {
    const metadata = tokens?.metadataAt(pathOf(request));
    const refusal = refusalOf(request, options, metadata ? undefined : path);
    if (refusal !== undefined) return refuse(response, ...refusal);
    if (metadata) return describe(request, response, metadata);
    callerOf(request)
      .then((caller) =>
        'status' in caller
          ? refuse(response, caller.status, caller.message, caller.authenticate)
          : routes.handle({ request, response, caller }).then((refused) => refused && refuse(response, ...refused)),
      )
      .catch(() => refuse(response, 500, 'the server failed'));
  });
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    await routes.close();
    throw error;
  }
  const address = server.address();
  const at = typeof address === 'object' && address !== null ? address.port : port;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${at}${path}`,
    async close() {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      await routes.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Where a request is handled: in its session, or by itself. */
class Routes {
  readonly #options: ListenerOptions;
  readonly #sessions: Sessions;
  /** The calls of requests that have no session. */
  readonly #calls = new OpenCalls();
  readonly #single: McpHttpHandler;
  /** Calls are answered by a stream from the start, which is kept alive however long they take. */
  readonly #streamed: McpHttpHandler;

  constructor(options: ListenerOptions) {
    this.#options = options;
    const { sdk, node, served, states, maxSessions = 100, maxSessionsPerCaller, sessionIdleMs } = options;
    const callerTurns = new CallerTurns(mostTurns(options));
    const shared = { sdk, node, served, states, callerTurns, maxBodyBytes };
    this.#sessions = new Sessions({ ...shared, maxSessions, maxSessionsPerCaller, sessionIdleMs });
    const handler = (responseMode: 'auto' | 'sse') =>
      sdk.createMcpHandler(
        ({ authInfo }) =>
          agentServer({ ...shared, calls: this.#calls, era: 'modern', scope: authInfo?.clientId ?? 'local' }),
        { legacy: 'reject', responseMode, maxRequestBodySize: maxBodyBytes, maxSubscriptions: maxSessions },
      );
    this.#single = handler('auto');
    this.#streamed = handler('sse');
  }

  async handle(exchange: Exchange): Promise<Refusal | undefined> {
    const { headers, method = '' } = exchange.request;
    if (!methods.includes(method)) return [405, `the method must be one of ${methods.join(', ')}`];
    if (!hasAddress(exchange.request)) return [400, 'the header host is not valid'];
    const session = headers['mcp-session-id'];
    if (session !== undefined) return this.#sessions.handle(String(session), exchange);
    // Clients that have sessions name no method in a header. A handshake takes its place before its body arrives.
    const early = headers['mcp-method'] === undefined ? this.#sessions.reserve(exchange.caller) : undefined;
    if (typeof early === 'object') return early;
    try {
      return await this.#unnamed(exchange, early);
    } finally {
      if (early !== undefined) this.#sessions.release(early);
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#sessions.close(), this.#calls.close()]);
    await Promise.all([this.#single.close(), this.#streamed.close()]);
  }

  async #unnamed(exchange: Exchange, early: string | undefined): Promise<Refusal | undefined> {
    const { sdk, node } = this.#options;
    const { request, response, caller } = exchange;
    const isPost = request.method === 'POST';
    if (isPost && !sdk.isJsonContentType(request.headers['content-type'] ?? null))
      return [415, 'the content type must be application/json'];
    const read = isPost ? await postedJson(request, maxBodyBytes) : { value: undefined };
    if (!('value' in read)) return read;
    const body = read.value;
    // The classification reads no more of it than this, and no body but the given one.
    const asked = new Request('http://localhost/', { method: request.method ?? 'GET', headers: headersOf(request) });
    if (!(await sdk.isLegacyRequest(asked, body))) {
      const handler = request.headers['mcp-method'] === 'tools/call' ? this.#streamed : this.#single;
      await node.toNodeHandler(handler)(likeOf(request, caller.principal), response, body);
      return undefined;
    }
    const id = early ?? this.#sessions.reserve(caller);
    if (typeof id === 'object') return id;
    await this.#sessions.begin(id, body, exchange);
    return undefined;
  }
}

/** A caller leaves turns for others, where there are some. */
function mostTurns({ served: { maxTurns }, apiKeys = [], auth, maxTurnsPerCaller }: ListenerOptions): number {
  const hasOthers = auth !== undefined || apiKeys.length > 1;
  return maxTurnsPerCaller ?? (hasOthers ? Math.ceil(maxTurns / 2) : maxTurns);
}

/** The request as the SDK takes it, with the principal as the client of its token. */
function likeOf(request: IncomingMessage, principal?: string): NodeIncomingMessageLike {
  const { method = 'GET', url = '/', headers } = request;
  const auth = principal === undefined ? {} : { auth: { token: '', clientId: principal, scopes: [] } };
  return { method, url, headers, ...auth, [Symbol.asyncIterator]: () => request[Symbol.asyncIterator]() };
}

const methods: readonly string[] = ['GET', 'POST', 'DELETE'];

/** Whether the SDK can make a URL of it. */
function hasAddress({ headers: { host = 'localhost' }, url = '/' }: IncomingMessage): boolean {
  if (!URL.canParse(`http://${host}${url}`)) return false;
  const { username, password } = new URL(`http://${host}${url}`);
  return username === '' && password === '';
}

function headersOf({ headers }: IncomingMessage): Headers {
  return new Headers(
    Object.entries(headers).flatMap(([name, value]) =>
      [value ?? []].flat().map((each): [string, string] => [name, each]),
    ),
  );
}

/** Why a request is not looked at. Pages of other origins, also of other ports of this machine, cannot call what listens on the loopback. */
function refusalOf(
  request: IncomingMessage,
  { host = '127.0.0.1', apiKeys }: ListenOptions,
  path: string | undefined,
): Refusal | undefined {
  const { origin, host: asked, authorization = '' } = request.headers;
  if (isLoopbackHost(host) && !(isLoopbackHost(hostNameIn(asked)) && isOwnOrigin(origin, `http://${asked}`)))
    return [403, 'this server is for this machine'];
  if (path === undefined) return undefined;
  if (pathOf(request) !== path) return [404, `there is nothing here but ${path}`];
  return apiKeys === undefined || keyOf(authorization, apiKeys) ? undefined : [401, 'a key is needed'];
}

/** The caller, as far as limits go: the holder of a key, or, where none is needed, an address. */
function keyCallerOf(
  authorization: string | undefined,
  address: string | undefined,
  apiKeys: readonly string[] | undefined,
): Caller {
  if (apiKeys === undefined) return { name: `address ${address ?? 'unknown'}`, principal: undefined };
  const principal = digestOf(keyOf(authorization, apiKeys) ?? '').toString('base64url');
  return { name: `key ${principal}`, principal };
}

function keyOf(authorization = '', apiKeys: readonly string[]): string | undefined {
  return apiKeys.find((key) => isSame(authorization, `Bearer ${key}`));
}

/** In a time that says nothing of how much of it is right. */
function isSame(given: string, wanted: string): boolean {
  return timingSafeEqual(digestOf(given), digestOf(wanted));
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function pathOf({ url }: IncomingMessage): string | undefined {
  return url?.split('?', 1)[0];
}

/** The metadata of the resource. Anybody may read it. */
function describe({ method }: IncomingMessage, response: ServerResponse, metadata: object): void {
  if (method !== 'GET') return void response.writeHead(405, { allow: 'GET' }).end();
  response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'max-age=3600' });
  response.end(JSON.stringify(metadata));
}

function refuse(response: ServerResponse, status: number, message: string, authenticate?: string): void {
  if (response.headersSent) return void response.destroy();
  const challenge = authenticate ?? (status === 401 ? 'Bearer' : undefined);
  const more = {
    ...(challenge !== undefined && { 'www-authenticate': challenge }),
    ...(status === 413 && { connection: 'close' }),
    ...(status === 405 && { allow: methods.join(', ') }),
  };
  response.writeHead(status, { 'content-type': 'application/json', ...more });
  response.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32_000, message }, id: null }));
}
