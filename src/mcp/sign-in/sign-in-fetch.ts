import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import type { FetchLike, OAuthDiscoveryState } from '@modelcontextprotocol/client';
import { boundedResponse } from '../../body-limits.ts';
import { AgentLoopError, isObject } from '../../core/contracts/index.ts';
import { isPublicAddress } from '../../public-address.ts';
import { bodyLimitsOf, limitError, type McpHttpOptions } from '../mcp-options.ts';

interface SignInFetchOptions {
  /** The MCP server. */
  readonly server: URL;
  /** Origins on private addresses, or over plain http, that the application names itself. */
  readonly trustedOrigins?: readonly string[] | undefined;
  /** The origin of the authorization server of a sign-in that is being finished. */
  readonly issuer: () => string | undefined;
}

type Fetch = (url: URL, init: RequestInit) => Promise<Response>;

/** Of metadata (RFC 8414, OpenID Connect Discovery). */
const metadataPath = /^\/(?:.*\/)?\.well-known\/(?:oauth-authorization-server|openid-configuration)(?:\/|$)/;
/** Of an authorization server that has its origin to itself: the MCP server chooses no more than that. */
const rootMetadataPath = /^\/\.well-known\/(?:oauth-authorization-server|openid-configuration)$/;
const maxRedirects = 3;

/**
 * Sends the requests of a sign-in, whose addresses come from the MCP server and from its authorization server: to the MCP server's own origin, to
 * trusted ones, and over https to public addresses. On a private or loopback host only where the MCP server is on the same host: there
 * metadata is read at the root of an origin, and all else goes to the origin that gave it. A redirect is followed to read, after the same check, and never with a body.
 * Errors: `UNAVAILABLE`, before anything is sent.
 */
export function signInFetch({ server, trustedOrigins = [], issuer }: SignInFetchOptions): Fetch {
  const trusted = new Set([server.origin, ...trustedOrigins.map((each) => new URL(each).origin)]);
  const described = new Set<string>();

  const check = async (url: URL, isRead: boolean): Promise<void> => {
    if (!/^https?:$/.test(url.protocol)) throw refused(url, 'it is not http or https');
    if (url.username !== '' || url.password !== '') throw refused(url, 'it has credentials');
    if (trusted.has(url.origin)) return;
    if (await isPublic(url.hostname)) {
      if (url.protocol !== 'https:') throw refused(url, 'it has to be https');
      return;
    }
    const isKnown = described.has(url.origin) || issuer() === url.origin;
    const isMetadata = isRead && url.search === '' && rootMetadataPath.test(url.pathname);
    if (url.hostname === server.hostname && (isMetadata || isKnown)) return;
    throw refused(
      url,
      'its host is not on the public internet; if it is yours, name its origin in auth.trustedOrigins',
    );
  };

  return async (url, init) => {
    const isRead = (init.method ?? 'GET').toUpperCase() === 'GET';
    let target = url;
    for (let hops = 0; ; hops++) {
      await check(target, isRead);
      const response = await fetch(target, { ...init, redirect: 'manual' });
      const location = response.status >= 300 && response.status < 400 ? response.headers.get('location') : null;
      if (location === null) {
        if (response.ok && isRead && metadataPath.test(target.pathname)) described.add(target.origin);
        return response;
      }
      await response.body?.cancel();
      if (!isRead || hops === maxRedirects || !URL.canParse(location, target.href))
        throw refused(target, 'it redirects a request that has to end there');
      target = new URL(location, target);
    }
  };
}

/**
 * Sends the requests of sign-ins to a server, without its headers, each within `connectTimeoutMs`. `discovered` returns what an earlier process found for
 * the sign-in that is being finished.
 */
export function signInRequests(
  server: McpHttpOptions,
  discovered: () => OAuthDiscoveryState | undefined | Promise<unknown>,
): FetchLike {
  const { connectTimeoutMs: ms = 30_000, auth } = server;
  const send = signInFetch({
    server: new URL(server.url),
    trustedOrigins: auth?.trustedOrigins,
    issuer: () => issuerIn(discovered()),
  });
  return async (url, init) => {
    const late = AbortSignal.timeout(ms);
    const signal = init?.signal ? AbortSignal.any([init.signal, late]) : late;
    return discreet(await send(new URL(url), { ...init, signal }), server);
  };
}

/** One that has given metadata: without, nothing says that it is an authorization server. */
function issuerIn(discovery: unknown): string | undefined {
  if (!isObject(discovery) || !isObject(discovery['authorizationServerMetadata'])) return undefined;
  const url = String(discovery['authorizationServerUrl']);
  return URL.canParse(url) ? new URL(url).origin : undefined;
}

const busy: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);

/** Of an error only its code is read: the SDK shows the texts of others in errors. */
async function discreet(response: Response, server: McpHttpOptions): Promise<Response> {
  const bounded = boundedResponse(response, bodyLimitsOf(server), limitError);
  const { status, headers, ok } = bounded;
  if (ok || status === 404) return bounded;
  const body = await bounded.text();
  const said = /^\s*\{[\s\S]*"error"\s*:\s*"([a-z_]{1,40})"/.exec(body)?.[1];
  const error = busy.has(status) ? 'temporarily_unavailable' : (said ?? 'server_error');
  return Response.json({ error }, { status, headers: { 'www-authenticate': headers.get('www-authenticate') ?? '' } });
}

/** A name that leads to no address is sent nothing in any case. */
async function isPublic(hostname: string): Promise<boolean> {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  if (isIP(host) !== 0) return isPublicAddress(host);
  const found = await lookup(host, { all: true }).catch(() => []);
  return found.length > 0 && found.every(({ address }) => isPublicAddress(address));
}

function refused(url: URL, why: string): AgentLoopError {
  return new AgentLoopError('UNAVAILABLE', `The address ${url.origin} of a sign-in cannot be used: ${why}.`);
}
