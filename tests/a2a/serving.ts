import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { AgentCard } from '@a2a-js/sdk';
import {
  type Client,
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import express from 'express';
import { type A2AHandler, type A2ARequestHandlerOptions, a2aRequestHandler, agentExtensions } from 'millrace/a2a';

export type Binding = 'JSONRPC' | 'HTTP+JSON';
export type Version = '1.0' | '0.3';

export const wires = [
  ['JSONRPC', '1.0'],
  ['JSONRPC', '0.3'],
  ['HTTP+JSON', '1.0'],
  ['HTTP+JSON', '0.3'],
] as const satisfies readonly (readonly [Binding, Version])[];

export interface ServeOptions extends Omit<A2ARequestHandlerOptions, 'card'> {
  readonly card?: Partial<AgentCard>;
  /** The only interface that the card names. Default: all. */
  readonly only?: readonly [Binding, Version];
}

/** An agent behind the express transports of the SDK, on a free port of loopback. */
export class Serving {
  readonly handler: A2AHandler;
  readonly url: string;
  readonly #server: Server;

  private constructor(server: Server, handler: A2AHandler) {
    this.#server = server;
    this.handler = handler;
    this.url = urlOf(server);
  }

  static async start({ card = {}, only, ...options }: ServeOptions): Promise<Serving> {
    const app = express();
    const server = createServer(app);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const handler = a2aRequestHandler({ ...options, card: { ...cardAt(urlOf(server), only), ...card } });
    const legacyCompat = { enabled: true };
    const userBuilder: UserBuilder = async (request) => {
      const userName = request.header('x-user');
      return userName ? { isAuthenticated: true, userName } : UserBuilder.noAuthentication();
    };
    app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: handler, legacyCompat }));
    app.use('/rpc', jsonRpcHandler({ requestHandler: handler, userBuilder, legacyCompat }));
    app.use('/rest', restHandler({ requestHandler: handler, userBuilder, legacyCompat }));
    return new Serving(server, handler);
  }

  /** A client of one binding and version; `user` is sent with every request. */
  async client(binding: Binding = 'JSONRPC', version: Version = '1.0', user?: string): Promise<Client> {
    const fetchAs: typeof fetch = (input, init) => {
      const headers = new Headers(init?.headers);
      if (user) headers.set('x-user', user);
      return fetch(input, { ...init, headers });
    };
    const common = { fetchImpl: fetchAs, legacyCompat: { enabled: true } };
    const factory = new ClientFactory(
      ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
        transports: [new JsonRpcTransportFactory(common), new RestTransportFactory(common)],
        cardResolver: new DefaultAgentCardResolver(common),
      }),
    );
    const card = await this.handler.getAgentCard();
    const supportedInterfaces = card.supportedInterfaces.filter(
      (each) => each.protocolBinding === binding && each.protocolVersion === version,
    );
    return factory.createFromAgentCard({ ...card, supportedInterfaces });
  }

  /** A JSON-RPC request as it stands. */
  async rpc(method: string, params: unknown, headers: Readonly<Record<string, string>> = {}): Promise<RpcAnswer> {
    const response = await fetch(`${this.url}/rpc`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'A2A-Version': '1.0', ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    });
    return JSON.parse(await response.text());
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

export interface RpcAnswer {
  readonly result?: unknown;
  readonly error?: {
    readonly code: number;
    readonly message: string;
    readonly data?: readonly { readonly reason: string }[];
  };
}

function urlOf(server: Server): string {
  const { port } = server.address() as AddressInfo;
  return `http://127.0.0.1:${port}`;
}

export function cardAt(url: string, [only, version]: readonly string[] = []): AgentCard {
  const at = (protocolBinding: Binding, path: string) =>
    (['1.0', '0.3'] as const).map((protocolVersion) => ({
      url: url + path,
      protocolBinding,
      protocolVersion,
      tenant: '',
    }));
  return {
    name: 'Test agent',
    description: 'Answers.',
    version: '1.0.0',
    supportedInterfaces: [...at('JSONRPC', '/rpc'), ...at('HTTP+JSON', '/rest')].filter(
      ({ protocolBinding: binding, protocolVersion }) => !only || (binding === only && protocolVersion === version),
    ),
    capabilities: {
      streaming: true,
      pushNotifications: false,
      extendedAgentCard: false,
      extensions: agentExtensions({ clientTools: true, toolEvents: true }),
    },
    defaultInputModes: ['text/plain', 'application/json', 'image/*', 'application/pdf'],
    defaultOutputModes: ['text/plain', 'application/json'],
    skills: [],
    securitySchemes: {},
    securityRequirements: [],
    signatures: [],
    provider: undefined,
  };
}
