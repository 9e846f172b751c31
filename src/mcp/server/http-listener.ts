import { createHash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { EventStore, StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { invalidConfig, shownValue } from '../../core/contracts/index.ts';
import { assertKnownOptions } from '../../stores/check-arguments.ts';
import type { ServerSdk } from '../load-sdk.ts';
import { type ClientSession, clientSession, type ServedAgent } from './client-session.ts';

export interface ListenOptions {
  /** Default 0: a free one. */
  readonly port?: number | undefined;
  /** Default `127.0.0.1`. Another one than the loopback needs `apiKeys`. */
  readonly host?: string | undefined;
  /** Where clients find it. Default `/mcp`. */
  readonly path?: string | undefined;
  /** Each request needs one of them, as `Authorization: Bearer …`. Default: anybody on this machine may call. */
  readonly apiKeys?: readonly string[] | undefined;
  /** Clients at the same time. Default 100. */
  readonly maxSessions?: number | undefined;
  /** Of them, those of one API key, or, without `apiKeys`, of one address. Default 25. */
  readonly maxSessionsPerCaller?: number | undefined;
  /** How long a request may take to arrive; its connection is closed then. Milliseconds; default 60,000. */
  readonly requestTimeoutMs?: number | undefined;
  /** After how long without a request a client that has no turn is forgotten. Milliseconds; default 1,800,000. */
  readonly sessionIdleMs?: number | undefined;
}

export interface Listening {
  /** For clients. */
  readonly url: string;
  /** Lets all clients go. */
  close(): Promise<void>;
}

interface ListenerOptions extends ListenOptions {
  readonly sdk: ServerSdk;
  readonly served: ServedAgent;
}

const names: Readonly<Record<keyof ListenOptions, true>> = {
  port: true,
  host: true,
  path: true,
  apiKeys: true,
  maxSessions: true,
  maxSessionsPerCaller: true,
  requestTimeoutMs: true,
  sessionIdleMs: true,
};
const loopback = /^(localhost|127(\.\d+){3}|\[?::1\]?)$/;
const maxBodyBytes = 1_048_576;

/** Throws `INVALID_CONFIG`. */
export function checkListening(options: ListenOptions): void {
  assertKnownOptions('listen', options, names);
  const { port = 0, host = '127.0.0.1', path = '/mcp', apiKeys } = options;
  const { maxSessions = 1, maxSessionsPerCaller = 1, requestTimeoutMs = 1, sessionIdleMs = 1 } = options;
  const counts = { maxSessions, maxSessionsPerCaller, requestTimeoutMs, sessionIdleMs };
  if (!(Number.isInteger(port) && port >= 0 && port <= 65_535))
    throw invalidConfig(`listen: port is ${shownValue(port)}`, 'give a whole number from 0 to 65535');
  if (!path.startsWith('/')) throw invalidConfig(`listen: path is ${shownValue(path)}`, 'begin it with /');
  for (const [name, value] of Object.entries(counts)) {
    if (!(Number.isInteger(value) && value > 0))
      throw invalidConfig(`listen: ${name} is ${shownValue(value)}`, 'give a whole number from 1');
  }
  if (apiKeys !== undefined && (apiKeys.length === 0 || apiKeys.some((key) => key.length < 16)))
    throw invalidConfig('listen: apiKeys has none, or one that is too short', 'give keys of at least 16 characters');
  if (!loopback.test(host) && apiKeys === undefined)
    throw invalidConfig(`listen: host ${shownValue(host)} can be reached from elsewhere`, 'give apiKeys as well');
}

/** Serves clients over HTTP, each with a session of its own. */
export async function listen(options: ListenerOptions): Promise<Listening> {
  const { port = 0, host = '127.0.0.1', path = '/mcp', requestTimeoutMs: ms = 60_000 } = options;
  const sessions = new Sessions(options);
  const times = { requestTimeout: ms, headersTimeout: ms, connectionsCheckingInterval: Math.min(ms, 5_000) };
  const server = createServer(times, (request, response) => {
    const refusal = refusalOf(request, options, path);
    if (refusal !== undefined) return refuse(response, ...refusal);
    sessions.handle(request, response).catch(() => refuse(response, 500, 'the server failed'));
  });
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    await sessions.close();
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
      await sessions.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** The sessions of all clients, by their ids. */
class Sessions {
  readonly #options: ListenerOptions;
  readonly #open = new Map<string, OpenSession>();
  /** Their callers by their ids, and those of handshakes that are under way. */
  readonly #places = new Map<string, string>();
  readonly #sweep: NodeJS.Timeout;

  constructor(options: ListenerOptions) {
    this.#options = options;
    const { sessionIdleMs = 1_800_000 } = options;
    this.#sweep = setInterval(() => this.#forgetIdle(sessionIdleMs), Math.max(100, sessionIdleMs / 4)).unref();
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const id = request.headers['mcp-session-id'];
    if (id === undefined) return this.#begin(request, response);
    const known = typeof id === 'string' ? this.#open.get(id) : undefined;
    if (!known) return refuse(response, 404, 'there is no such session');
    known.usedAt = Date.now();
    return known.transport.handleRequest(request, response);
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep);
    await Promise.all([...this.#open.values()].map((each) => this.#end(each)));
  }

  /** Another request than a handshake is refused by the transport, which is dropped then. */
  async #begin(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { sdk, served, maxSessions = 100, maxSessionsPerCaller: most = 25, apiKeys } = this.#options;
    if (this.#places.size >= maxSessions) return refuse(response, 503, 'there are too many clients; try again later');
    const caller = callerOf(request, apiKeys);
    const count = [...this.#places.values()].filter((each) => each === caller).length;
    if (count >= most)
      return refuse(response, 429, `you have ${count} sessions, the most that one caller may have; end one`);
    const id = crypto.randomUUID();
    this.#places.set(id, caller);
    const transport = new sdk.StreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      onsessioninitialized: () => void this.#open.set(id, opened),
      maxRequestBodySize: maxBodyBytes,
      eventStore: new SessionEvents(),
    });
    const session = clientSession({ sdk, served, scope: id, streamsCalls: true });
    const opened: OpenSession = { id, transport, session, usedAt: Date.now() };
    session.server.onclose = () => void this.#forget(opened);
    try {
      await session.connect(transport);
      await transport.handleRequest(request, response);
    } finally {
      if (!this.#open.has(id)) await this.#end(opened);
    }
  }

  #forgetIdle(idleMs: number): void {
    for (const each of this.#open.values())
      if (!each.session.isBusy && Date.now() - each.usedAt > idleMs) void this.#end(each);
  }

  async #end(each: OpenSession): Promise<void> {
    await this.#forget(each);
    await each.transport.close();
  }

  async #forget(each: OpenSession): Promise<void> {
    this.#open.delete(each.id);
    this.#places.delete(each.id);
    await each.session.close();
  }
}

interface OpenSession {
  readonly id: string;
  readonly transport: StreamableHTTPServerTransport;
  readonly session: ClientSession;
  usedAt: number;
}

/** Why a request is not looked at. Pages of other places, told by their origin, cannot call what listens on the loopback. */
function refusalOf(
  request: IncomingMessage,
  { host = '127.0.0.1', apiKeys }: ListenOptions,
  path: string,
): readonly [status: number, message: string] | undefined {
  const { origin, host: asked = '', authorization = '' } = request.headers;
  if (loopback.test(host) && !(isLoopback(`http://${asked}`) && (origin === undefined || isLoopback(origin))))
    return [403, 'this server is for this machine'];
  if (request.url?.split('?', 1)[0] !== path) return [404, `there is nothing here but ${path}`];
  return apiKeys === undefined || keyOf(authorization, apiKeys) ? undefined : [401, 'a key is needed'];
}

/** The caller, as far as limits go: the holder of a key, or, where none is needed, an address. */
function callerOf({ headers, socket }: IncomingMessage, apiKeys: readonly string[] | undefined): string {
  if (apiKeys === undefined) return `address ${socket.remoteAddress ?? 'unknown'}`;
  return `key ${keyOf(headers.authorization, apiKeys) ?? ''}`;
}

function keyOf(authorization = '', apiKeys: readonly string[]): string | undefined {
  return apiKeys.find((key) => isSame(authorization, `Bearer ${key}`));
}

function isLoopback(url: string): boolean {
  return URL.canParse(url) && loopback.test(new URL(url).hostname);
}

/** In a time that says nothing of how much of it is right. */
function isSame(given: string, wanted: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(wanted));
}

function refuse(response: ServerResponse, status: number, message: string): void {
  if (response.headersSent) return void response.destroy();
  const headers = status === 401 ? { 'www-authenticate': 'Bearer' } : {};
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32_000, message }, id: null }));
}

interface KeptEvent {
  readonly id: string;
  readonly streamId: string;
  readonly message: JSONRPCMessage;
  readonly length: number;
}

const maxEvents = 1_000;
const maxLength = 16_777_216;

/**
 * What a client was sent lately, so that one whose connection broke gets the rest. Holds the newest 1,000 messages of a session, and no
 * more than 16 M characters of them beside the newest.
 */
export class SessionEvents implements EventStore {
  readonly #events: KeptEvent[] = [];
  #count = 0;
  #length = 0;

  async storeEvent(streamId: string, message: JSONRPCMessage): Promise<string> {
    const id = `${++this.#count}-${streamId}`;
    const { length } = JSON.stringify(message);
    this.#events.push({ id, streamId, message, length });
    this.#length += length;
    while (this.#events.length > 1 && (this.#events.length > maxEvents || this.#length > maxLength))
      this.#length -= this.#events.shift()?.length ?? 0;
    return id;
  }

  /** None where the client has all that its stream will ever bring: such a stream is not opened again. */
  async getStreamIdForEventId(id: string): Promise<string | undefined> {
    const streamId = streamOf(id);
    const newest = this.#events.findLast((event) => event.streamId === streamId);
    const isOver = newest?.id === id && ('result' in newest.message || 'error' in newest.message);
    return isOver ? undefined : streamId;
  }

  async replayEventsAfter(
    lastId: string,
    { send }: { readonly send: (id: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const streamId = streamOf(lastId) ?? '';
    const last = Number.parseInt(lastId, 10);
    for (const event of [...this.#events]) {
      // The first event of a stream is empty: it only gives its id.
      const isSaid = 'jsonrpc' in event.message;
      if (isSaid && event.streamId === streamId && Number.parseInt(event.id, 10) > last)
        await send(event.id, event.message);
    }
    return streamId;
  }
}

function streamOf(id: string): string | undefined {
  return /^\d+-(.+)$/.exec(id)?.[1];
}
