import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** What a description of an error must never be shown as. */
export const secretDescription = 'description-that-nobody-may-read';

interface Grant {
  readonly challenge: string;
  readonly scope: string;
  readonly resource: string;
  readonly clientId: string;
}

export interface AuthorizationServer {
  readonly issuer: string;
  /** The protected MCP server. */
  readonly url: string;
  /** Each request to the authorization server: its path. */
  readonly asked: readonly string[];
  /** All secrets that were given or received: tokens, codes, verifiers. */
  readonly secrets: readonly string[];
  /** Headers of the requests for tokens. */
  readonly tokenHeaders: readonly IncomingMessage['headers'][];
  /** Resources that tokens were asked for. */
  readonly resources: readonly string[];
  /** How often a refresh token came that was used up: all tokens of its sign-in are void then (RFC 9700, section 4.14.2). */
  readonly reused: number;
  /** Requests to the MCP server without a valid token. */
  readonly refused: number;
  /** Answers to requests for tokens wait until the returned function is called. */
  holdTokens(): () => void;
  /** Requests for tokens are answered with this status from now on; undefined: as usual. */
  failTokens(status: number | undefined): void;
  /** Registrations so far are void. */
  forgetClients(): void;
  /** Goes through the pages as a user does, and returns the address that the browser ends at. */
  visit(url: string): Promise<string>;
  /** Access tokens so far are not accepted any more; with `refresh`, nor are refresh tokens. */
  expire(what?: 'access' | 'refresh'): void;
  /** Requests for tokens are redirected there from now on, with their body. */
  redirectTokens(to: string): void;
  /** Calls of tools need this scope from now on. */
  need(scope: string): void;
  close(): Promise<void>;
}

/** An authorization server and, in front of an MCP server, a resource server that takes its tokens only. */
export async function authorizationServer(
  behind: string,
  accessToken?: (issuer: string, resource: string) => Promise<string>,
): Promise<AuthorizationServer> {
  const asked: string[] = [];
  const secrets: string[] = [];
  const tokenHeaders: IncomingMessage['headers'][] = [];
  const resources: string[] = [];
  const codes = new Map<string, Grant>();
  const refreshTokens = new Map<string, Grant>();
  const accessTokens = new Map<string, Grant>();
  const usedUp = new Map<string, Grant>();
  const clients = new Set<string>();
  let registrations = 0;
  let reused = 0;
  let refused = 0;
  let held: Promise<void> | undefined;
  let failing: number | undefined;
  let needed: string | undefined;
  let tokensAt: string | undefined;
  let origin = '';
  const secret = () => {
    const made = `secret-${randomUUID()}`;
    secrets.push(made);
    return made;
  };
  const json = (response: ServerResponse, body: object, status = 200) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  };
  const refuse = (response: ServerResponse, error: string) =>
    json(response, { error, error_description: secretDescription }, 400);
  const issue = async (response: ServerResponse, grant: Grant) => {
    const [access, refresh] = [(await accessToken?.(origin, grant.resource)) ?? secret(), secret()];
    accessTokens.set(access, grant);
    refreshTokens.set(refresh, grant);
    const { scope } = grant;
    json(response, { access_token: access, refresh_token: refresh, token_type: 'Bearer', expires_in: 3_600, scope });
  };
  const token = async (request: IncomingMessage, response: ServerResponse) => {
    const given = new URLSearchParams(await text(request));
    tokenHeaders.push(request.headers);
    resources.push(given.get('resource') ?? '');
    const of = (name: string) => given.get(name) ?? '';
    await held;
    if (failing !== undefined) return json(response, {}, failing);
    if (!clients.has(of('client_id'))) return refuse(response, 'invalid_client');
    if (of('grant_type') === 'refresh_token') {
      const sent = of('refresh_token');
      const grant = refreshTokens.get(sent);
      refreshTokens.delete(sent);
      if (grant?.clientId === of('client_id')) {
        usedUp.set(sent, grant);
        return issue(response, grant);
      }
      const family = usedUp.get(sent);
      if (family) reused++;
      for (const all of [accessTokens, refreshTokens])
        for (const [each, of] of all) if (of === family) all.delete(each);
      return refuse(response, 'invalid_grant');
    }
    secrets.push(of('code_verifier'));
    const grant = codes.get(of('code'));
    codes.delete(of('code'));
    const challenge = createHash('sha256').update(of('code_verifier')).digest('base64url');
    const isRight =
      grant?.challenge === challenge && grant.resource === of('resource') && grant.clientId === of('client_id');
    return grant && isRight ? issue(response, grant) : refuse(response, 'invalid_grant');
  };
  const authorize = (url: URL, response: ServerResponse) => {
    const of = (name: string) => url.searchParams.get(name) ?? '';
    const code = secret();
    const grant = {
      challenge: of('code_challenge'),
      scope: of('scope')
        .split(' ')
        .filter((each) => each !== 'never-granted')
        .join(' '),
      resource: of('resource'),
      clientId: of('client_id'),
    };
    codes.set(code, grant);
    const back = new URL(of('redirect_uri'));
    back.search = new URLSearchParams({ code, state: of('state'), iss: origin }).toString();
    response.writeHead(302, { location: back.href }).end();
  };
  const mcp = async (request: IncomingMessage, response: ServerResponse) => {
    const metadata = `resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"`;
    const grant = accessTokens.get(request.headers.authorization?.replace('Bearer ', '') ?? '');
    const about = `error_description="${secretDescription}"`;
    if (!grant) refused++;
    if (!grant) return response.writeHead(401, { 'www-authenticate': `Bearer ${metadata}, ${about}` }).end();
    if (needed && request.headers['mcp-method'] === 'tools/call' && !grant.scope.split(' ').includes(needed)) {
      const challenge = `Bearer error="insufficient_scope", scope="${needed}", ${metadata}, ${about}`;
      return response.writeHead(403, { 'www-authenticate': challenge }).end();
    }
    const { host: _host, connection: _connection, 'content-length': _length, ...headers } = request.headers;
    const body = await text(request);
    const kept = Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)]);
    const method = request.method ?? 'GET';
    const answer = await fetch(behind, { method, headers: kept, ...(body !== '' && { body }) });
    const session = answer.headers.get('mcp-session-id');
    response.writeHead(answer.status, {
      'content-type': answer.headers.get('content-type') ?? 'application/json',
      ...(session !== null && { 'mcp-session-id': session }),
    });
    for await (const chunk of answer.body ?? []) response.write(chunk);
    return response.end();
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', origin);
    if (url.pathname !== '/mcp') asked.push(url.pathname);
    if (url.pathname === '/mcp') return void mcp(request, response).catch(() => response.destroy());
    if (url.pathname.startsWith('/.well-known/oauth-protected-resource'))
      return json(response, { resource: `${origin}/mcp`, authorization_servers: [origin], scopes_supported: ['read'] });
    if (url.pathname === '/.well-known/oauth-authorization-server')
      return json(response, {
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
        response_types_supported: ['code'],
        grant_types_supported: ['authorization_code', 'refresh_token'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none'],
        authorization_response_iss_parameter_supported: true,
      });
    if (url.pathname === '/register')
      return void text(request).then((body) => {
        const id = `client-${++registrations}`;
        clients.add(id);
        json(response, { ...JSON.parse(body), client_id: id, token_endpoint_auth_method: 'none' }, 201);
      });
    if (url.pathname === '/authorize') return authorize(url, response);
    if (url.pathname === '/token' && tokensAt) return void response.writeHead(307, { location: tokensAt }).end();
    if (url.pathname === '/token') return void token(request, response);
    return void response.writeHead(404).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    issuer: origin,
    url: `${origin}/mcp`,
    asked,
    secrets,
    tokenHeaders,
    resources,
    get reused() {
      return reused;
    },
    get refused() {
      return refused;
    },
    holdTokens: () => {
      let release = () => {};
      held = new Promise((resolve) => {
        release = resolve;
      });
      return release;
    },
    failTokens: (status) => {
      failing = status;
    },
    forgetClients: () => clients.clear(),
    visit: async (url) => (await fetch(url, { redirect: 'manual' })).headers.get('location') ?? '',
    expire: (what = 'access') => {
      accessTokens.clear();
      if (what === 'refresh') refreshTokens.clear();
    },
    redirectTokens: (to) => {
      tokensAt = to;
    },
    need: (scope) => {
      needed = scope;
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
