import type { AgentCard } from '@a2a-js/sdk';
import {
  type Client,
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import { afterEach } from '@jest/globals';
import { type Agent, agent, InMemoryStateStore } from 'millrace';
import { type A2AAddress, type A2AServer, type A2AServerOptions, a2aServer, type ListenOptions } from 'millrace/a2a';
import { scriptedLLM } from 'millrace/testing';
import type { AgentSettings } from 'millrace/types';

export type Binding = 'JSONRPC' | 'HTTP+JSON';

export const wires = [
  ['JSONRPC', '1.0'],
  ['JSONRPC', '0.3'],
  ['HTTP+JSON', '1.0'],
  ['HTTP+JSON', '0.3'],
] as const satisfies readonly (readonly [Binding, string])[];

export interface Served extends A2AAddress {
  readonly server: A2AServer;
}

type Steps = Parameters<typeof scriptedLLM>[0];

export const key = 'a-key-of-sixteen-and-more';

/** Servers and what belongs to a test, closed behind it. */
export function serverBench() {
  const open: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close();
  });
  const echo = (steps: Steps, settings: Partial<AgentSettings> = {}): Agent =>
    agent({ id: 'echo', description: 'Says it again.', provider: scriptedLLM(steps), ...settings });
  return {
    after: (close: () => unknown) => void open.push(close),
    echo,
    async serve(
      options: Partial<A2AServerOptions> & Pick<A2AServerOptions, 'agent'>,
      listen: ListenOptions = {},
    ): Promise<Served> {
      const store = options.agent.options.taskStateStore ?? new InMemoryStateStore();
      const server = await a2aServer({ store, closeMs: 2_000, ...options });
      open.push(() => server.close());
      return { server, ...(await server.listen({ port: 0, ...listen })) };
    },
  };
}

/** A client of one binding and version. */
export async function clientOf(
  url: string,
  { binding = 'JSONRPC', version = '1.0', headers = {} }: ClientOptions = {},
): Promise<Client> {
  const fetchImpl: typeof fetch = (input, init) => {
    const all = new Headers(init?.headers);
    for (const [name, value] of Object.entries(headers)) all.set(name, value);
    return fetch(input, { ...init, headers: all });
  };
  const common = { fetchImpl, legacyCompat: { enabled: true } };
  const factory = new ClientFactory(
    ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
      transports: [new JsonRpcTransportFactory(common), new RestTransportFactory(common)],
      cardResolver: new DefaultAgentCardResolver(common),
    }),
  );
  const card: AgentCard = await new DefaultAgentCardResolver(common).resolve(url);
  const supportedInterfaces = card.supportedInterfaces.filter(
    (each) => each.protocolBinding === binding && each.protocolVersion === version,
  );
  return factory.createFromAgentCard({ ...card, supportedInterfaces });
}

export interface ClientOptions {
  readonly binding?: Binding;
  readonly version?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

let sent = 0;

/** The parameters of a message; `SendMessageRequest` as the SDK's client takes it. */
export function message(text: string, more: { readonly messageId?: string; readonly taskId?: string } = {}) {
  const { messageId = `m${++sent}`, taskId = '' } = more;
  return {
    tenant: '',
    message: {
      messageId,
      taskId,
      contextId: '',
      role: 1 as const,
      parts: [{ content: { $case: 'text' as const, value: text }, metadata: undefined, filename: '', mediaType: '' }],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    },
    configuration: undefined,
    metadata: undefined,
  };
}

/** A request over JSON-RPC as it stands on the wire. */
export function rpc(
  url: string,
  method: string,
  params: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return fetch(`${url}/a2a/jsonrpc`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
}

export function wireMessage(text: string, messageId = `m${++sent}`): object {
  return { message: { messageId, role: 'ROLE_USER', parts: [{ text }] } };
}

/** The JSON that was answered, whatever it is. */
export async function answerOf(response: Promise<Response>) {
  return JSON.parse(await (await response).text());
}
