import type { AgentCard } from '@a2a-js/sdk';
import {
  type Client,
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import { turnExtension } from '../extensions.ts';
import { failure, httpFailure, quoted, type RemoteName } from './remote-errors.ts';
import { type RemoteFetchOptions, remoteFetch } from './remote-fetch.ts';
import { knownTransports, type ResolvedRemote } from './remote-options.ts';

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
const legacyCompat = { enabled: true };

/** Reads the card of an agent, and makes the client of the package for it. */
export async function connectToRemote({ remote, name, onSecrets, signal }: ConnectOptions): Promise<Connected> {
  const { url, headers, origins, limits, transports } = remote;
  const fetchImpl = remoteFetch({ name, headers, origins, limits, onSecrets });
  const timed: typeof fetch = async (input, init) => {
    const response = await fetchImpl(input, { ...init, signal });
    if (response.ok) return response;
    await response.body?.cancel();
    throw httpFailure(name, response.status);
  };
  const resolver = new DefaultAgentCardResolver({ fetchImpl: timed, legacyCompat });
  const card = url.pathname.endsWith('.json')
    ? await resolver.resolve(url.href, '')
    : await resolver.resolve(url.origin, `${url.pathname.replace(/\/$/, '')}${wellKnown}`);
  const offered = resolver.normalizeAgentCard(card).supportedInterfaces.map(({ protocolBinding }) => protocolBinding);
  if (!offered.some((each) => knownTransports.includes(each.toUpperCase()))) {
    const what = `is offered over ${quoted(name, offered.join(', ') || 'nothing')}: remoteAgent needs ${knownTransports.join(' or ')}`;
    throw failure(name, 'PROVIDER_PROTOCOL', what);
  }
  const factory = new ClientFactory({
    transports: [
      new JsonRpcTransportFactory({ fetchImpl, legacyCompat }),
      new RestTransportFactory({ fetchImpl, legacyCompat }),
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

/** Over this transport the package does not say whether a piece of text continues the one before it. */
function losesAppend(client: Client): boolean {
  return client.transport.protocolName === 'HTTP+JSON' && isLegacy(client);
}
