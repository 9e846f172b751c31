import {
  type Client,
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';

/** Every way to call an A2A server: binding and version. */
export const wires = [
  ['JSONRPC', '1.0'],
  ['JSONRPC', '0.3'],
  ['HTTP+JSON', '1.0'],
  ['HTTP+JSON', '0.3'],
  ['GRPC', '1.0'],
  ['GRPC', '0.3'],
] as const;

export type Wire = (typeof wires)[number];

export interface Reached {
  readonly client: Client;
  /** For each call: over gRPC, who asks, and in which version. */
  readonly options: { readonly serviceParameters: Readonly<Record<string, string>> };
}

/** A client of one binding and version, which sends `headers` with each call; `onResponse` sees each response over HTTP. */
export async function reach(
  url: string,
  [binding, version]: Wire,
  headers: Readonly<Record<string, string>> = {},
  onResponse: (response: Response) => void = () => {},
): Promise<Reached> {
  const fetchAs: typeof fetch = async (input, init) => {
    const all = new Headers(init?.headers);
    for (const [name, value] of Object.entries(headers)) all.set(name, value);
    const response = await fetch(input, { ...init, headers: all });
    onResponse(response);
    return response;
  };
  const common = { fetchImpl: fetchAs, legacyCompat: { enabled: true } };
  const transports = [
    new JsonRpcTransportFactory(common),
    new RestTransportFactory(common),
    new GrpcTransportFactory({ legacyCompat: { enabled: true } }),
  ];
  const factory = new ClientFactory(
    ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
      transports,
      cardResolver: new DefaultAgentCardResolver(common),
    }),
  );
  const card = await new DefaultAgentCardResolver(common).resolve(url);
  const supportedInterfaces = card.supportedInterfaces.filter(
    (each) => each.protocolBinding === binding && each.protocolVersion === version,
  );
  const client = await factory.createFromAgentCard({ ...card, supportedInterfaces });
  const serviceParameters = binding === 'GRPC' ? { 'a2a-version': version, ...headers } : {};
  return { client, options: { serviceParameters } };
}

/** The name of the protocol's error that a call fails with, and its words. */
export async function failureOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => 'no error',
    (error: unknown) => (error instanceof Error ? `${error.name}: ${error.message}` : String(error)),
  );
}
