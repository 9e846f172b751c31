import { AgentCard, type StreamResponse } from '@a2a-js/sdk';
import {
  type Client,
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import { type BodyLimits, boundedResponse } from '../../body-limits.ts';
import { type Clock, maxMessageDepth, parsedJson } from '../../core/contracts/index.ts';
import { after, unlessAborted } from '../../core/streams/index.ts';
import { turnExtension } from '../extensions.ts';
import { grpcTransports, isGrpcAllowed } from './grpc-client.ts';
import { httpTransports, knownTransports, type RemoteHeaders, type ResolvedRemote } from './remote-agent.ts';
import { httpFailure, quoted } from './remote-errors.ts';
import { failure, limitFailure, type RemoteName } from './remote-failure.ts';

export interface Connected {
  readonly client: Client;
  /** The public one. */
  readonly card: AgentCard;
}

interface ConnectOptions {
  readonly remote: ResolvedRemote;
  readonly name: RemoteName;
  readonly onSecrets: RemoteFetchOptions['onSecrets'];
  /** Ends the request for the card. */
  readonly signal: AbortSignal;
}

const wellKnown = '/.well-known/agent-card.json';
const cardHeaders = { 'A2A-Version': '1.0' };
const legacyCompat = { enabled: true };

/** Reads the card of an agent, and makes the client of the package for it. */
export async function connectToRemote({ remote, name, onSecrets, signal }: ConnectOptions): Promise<Connected> {
  const { url, headers, origins, limits, transports } = remote;
  const fetchImpl = remoteFetch({ name, headers, origins, limits, onSecrets });
  const isCard = url.pathname.endsWith('.json');
  const address = isCard ? url : new URL(`${url.pathname.replace(/\/$/, '')}${wellKnown}`, url.origin);
  const response = await fetchImpl(address, { headers: cardHeaders, signal });
  if (!response.ok) {
    await response.body?.cancel();
    throw httpFailure(name, response.status);
  }
  const resolver = new DefaultAgentCardResolver({ legacyCompat });
  const given = await response.json();
  if (remote.verifyCard) await unlessAborted(signal, remote.verifyCard(name, given));
  const normal = resolver.normalizeAgentCard(given);
  // The package leaves one of 1.0 as it came, without what its JSON leaves out.
  const card = normal === given ? AgentCard.fromJSON(given) : normal;
  const offered = card.supportedInterfaces.map(({ protocolBinding }) => protocolBinding);
  if (!offered.some((each) => knownTransports.includes(each.toUpperCase()))) {
    const what = `is offered over ${quoted(name, offered.join(', ') || 'nothing')}: remoteAgent needs ${knownTransports.join(' or ')}`;
    throw failure(name, 'PROVIDER_PROTOCOL', what);
  }
  const hasHttp = offered.some((each) => httpTransports.includes(each.toUpperCase()));
  // Not everybody who is offered gRPC has its packages, and lets calls go to its address.
  const usesGrpc = !hasHttp || transports.includes('GRPC') || isGrpcAllowed(card, origins);
  const factory = new ClientFactory({
    transports: [
      new JsonRpcTransportFactory({ fetchImpl, legacyCompat }),
      new RestTransportFactory({ fetchImpl, legacyCompat }),
      ...(usesGrpc ? [grpcTransports({ remote, name, onSecrets })] : []),
    ],
    cardResolver: resolver,
    ...(transports.length > 0 && { preferredTransports: [...transports] }),
  });
  return { client: await factory.createFromAgentCard(card), card };
}

/** Whether updates can be streamed, and are complete then. */
export function streams({ client, card }: Connected): boolean {
  return card.capabilities?.streaming === true && !losesAppend(client);
}

export function isMillrace({ card }: Connected): boolean {
  return card.capabilities?.extensions.some(({ uri }) => uri === turnExtension) === true;
}

export function isLegacy({ protocolVersion }: Client): boolean {
  return protocolVersion.startsWith('0.');
}

/** Over these transports the package does not say whether a piece of text continues the one before it. */
function losesAppend(client: Client): boolean {
  return client.transport.protocolName !== 'JSONRPC' && isLegacy(client);
}

interface RemoteFetchOptions {
  readonly name: RemoteName;
  readonly headers: RemoteHeaders;
  readonly origins: ReadonlySet<string>;
  readonly limits: BodyLimits;
  /** Told what a request is authorized by, so that no error shows it. */
  readonly onSecrets: (secrets: readonly string[]) => void;
}

/**
 * A `fetch` that authorizes its requests, and that follows no redirect: credentials go to the origins that were named, and nowhere else.
 * An answer that is too large is an error; one that is none of the protocol becomes an error of its HTTP status.
 */
function remoteFetch({ name, headers, origins, limits, onSecrets }: RemoteFetchOptions): typeof fetch {
  return async (input, init = {}) => {
    const request = new Request(input, { ...init, redirect: 'manual' });
    const { origin } = new URL(request.url);
    if (!origins.has(origin)) {
      throw failure(
        name,
        'PROVIDER_PROTOCOL',
        `says that it is found at ${origin}: add that to origins if it is right`,
      );
    }
    const own = await unlessAborted(request.signal, headers);
    onSecrets(Object.values(own));
    for (const [header, value] of Object.entries(own)) request.headers.set(header, value);
    const response = boundedResponse(await fetch(request), limits, limitFailure(name));
    if (response.ok) return wantsEvents(request) && isJson(response) ? asEvents(response) : response;
    if (isJson(response) && !isRefused(response.status)) return protocolAnswer(name, response);
    await response.body?.cancel();
    throw httpFailure(name, response.status);
  };
}

function isJson(response: Response): boolean {
  return /[/+]json\b/.test(response.headers.get('content-type') ?? '');
}

function wantsEvents({ headers }: Request): boolean {
  return headers.get('accept') === 'text/event-stream';
}

/**
 * The whole answer of a server that does not stream, as the only event of a stream: the message has arrived, and must not be sent again. An
 * error is left to the package.
 */
async function asEvents(response: Response): Promise<Response> {
  const { status } = response;
  const body = await response.text();
  const answer = parsed(body);
  if (!isObject(answer) || 'error' in answer)
    return new Response(body, { status, headers: { 'content-type': 'application/json' } });
  const event = `data: ${JSON.stringify(answer)}\n\n`;
  return new Response(event, { status, headers: { 'content-type': 'text/event-stream' } });
}

/** An error of the protocol, or one of HTTP in words that mean nothing to it. */
async function protocolAnswer(name: RemoteName, response: Response): Promise<Response> {
  const { status, headers } = response;
  const body = await response.text();
  const answer = parsed(body);
  const isAnswer = isAway(status)
    ? invalidAnswer.test(body)
    : isObject(answer) && (!noRoute.has(status) || isProtocolError(answer));
  if (isAnswer) return new Response(body, { status, headers });
  throw httpFailure(name, status);
}

/** What A2A 1.0.0 answers with HTTP 502, and 1.0.1 with 500: the agent is there, and its answer is wrong. */
const invalidAnswer = /INVALID_AGENT_RESPONSE|"code"\s*:\s*-32006\b/;

/** Web frameworks answer these in JSON of their own where they have no such route. */
const noRoute: ReadonlySet<number> = new Set([404, 405, 501]);

/** Of 1.0 and JSON-RPC, or of 0.3 over HTTP+JSON. */
function isProtocolError(answer: object): boolean {
  return 'error' in answer || 'code' in answer;
}

function parsed(body: string): unknown {
  try {
    return parsedJson(body, maxMessageDepth);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function isRefused(status: number): boolean {
  return status === 401 || status === 403 || status === 429;
}

/** A server that starts, stops or is down has not read the request, whatever stands in the body. */
function isAway(status: number): boolean {
  return status === 502 || status === 503 || status === 504;
}

/** An open stream of updates of one task. */
export interface TaskStream {
  readonly updates: AsyncIterable<StreamResponse>;
  /** Closes the connection. */
  readonly close: () => void;
}

/**
 * The streams that messages opened, by the id of the message, until they are read: a step of the turn sends the message, and the next
 * one follows its task. Nothing is read in between, so the socket holds back what comes. One that is not taken within `keepMs` is closed.
 */
export class TaskStreams {
  readonly #clock: Clock;
  readonly #keepMs: number;
  readonly #kept = new Map<string, { readonly stream: TaskStream; readonly forget: () => void }>();

  constructor(clock: Clock, keepMs: number) {
    this.#clock = clock;
    this.#keepMs = keepMs;
  }

  keep(messageId: string, stream: TaskStream): void {
    this.drop(messageId);
    this.#kept.set(messageId, { stream, forget: after(this.#keepMs, this.#clock, () => this.drop(messageId)) });
  }

  /** Gives it once: whoever takes it closes it. */
  take(messageId: string): TaskStream | undefined {
    const kept = this.#kept.get(messageId);
    this.#kept.delete(messageId);
    kept?.forget();
    return kept?.stream;
  }

  drop(messageId: string): void {
    this.take(messageId)?.close();
  }
}
