import type { AgentCard } from '@a2a-js/sdk';
import type { Transport, TransportFactory } from '@a2a-js/sdk/client';
import type { Client as GrpcClient, Metadata, MethodDefinition, ServiceDefinition } from '@grpc/grpc-js';
import { BodyCounter, type BodyLimits, type LimitError } from '../../body-limits.ts';
import { AgentLoopError, maxMessageDepth, nestsTooDeep } from '../../core/contracts/index.ts';
import type { RemoteHeaders, ResolvedRemote } from './remote-agent.ts';
import { failure, limitFailure, type RemoteName } from './remote-failure.ts';

interface GrpcOptions {
  readonly remote: Pick<ResolvedRemote, 'headers' | 'origins' | 'limits'>;
  readonly name: RemoteName;
  /** Told what a request is authorized by, so that no error shows it. */
  readonly onSecrets: (secrets: readonly string[]) => void;
}

export const grpcBinding = 'GRPC';

/** Whether a card is offered over gRPC at an origin that was named. */
export function isGrpcAllowed({ supportedInterfaces }: AgentCard, origins: ReadonlySet<string>): boolean {
  return supportedInterfaces.some(
    ({ protocolBinding, url }) => protocolBinding.toUpperCase() === grpcBinding && targetOf(url, origins) !== undefined,
  );
}

/**
 * Reaches agents over gRPC, with the transports of the package. They go to origins that were named: with TLS to `https://host:port`, and
 * without to `http://host:port`. Each call is authorized anew. Its packages are loaded with the first one: `MISSING_PACKAGE`.
 */
export function grpcTransports(options: GrpcOptions): TransportFactory {
  const { remote, name } = options;
  return {
    protocolName: grpcBinding,
    async create(url, card) {
      const target = targetOf(url, remote.origins);
      if (!target) {
        const at = addressIn(url);
        const where = at ? `${at.hostname}:${at.port ?? 443}` : url;
        const what = `says that gRPC is found at ${where}: add https://${where} to origins if it is right, or http://${where} where it has no TLS`;
        throw failure(name, 'PROVIDER_PROTOCOL', what);
      }
      const { grpc, GrpcTransportFactory, LegacyGrpcTransport, A2AService, LegacyA2AService } = await load();
      const grpcChannelCredentials = target.isSecure ? grpc.credentials.createSsl() : grpc.credentials.createInsecure();
      const client = new grpc.Client(target.address, grpcChannelCredentials, channelOptions(remote.limits));
      const calls = { ...options, client };
      if (isLegacyAt(card, url)) {
        const transport = new LegacyGrpcTransport({ endpoint: target.address, grpcChannelCredentials });
        return calling(transport, callsOf(LegacyA2AService, calls));
      }
      const transport = await new GrpcTransportFactory({ grpcChannelCredentials }).create(target.address, card);
      return calling(transport, callsOf(A2AService, calls));
    },
  };
}

/** As the package chooses between the interfaces of one address. */
function isLegacyAt({ supportedInterfaces }: AgentCard, url: string): boolean {
  const here = supportedInterfaces.filter(
    (each) => each.protocolBinding.toUpperCase() === grpcBinding && each.url === url,
  );
  return here.length > 0 && here.every(({ protocolVersion }) => protocolVersion.startsWith('0.'));
}

/** Has a transport of the package make its calls with a client of ours: that of the package has neither limits nor credentials of a call. */
function calling(transport: Transport, calls: object): Transport {
  const own: unknown = Reflect.get(transport, 'grpcClient');
  if (typeof own !== 'object' || own === null || !('close' in own) || typeof own.close !== 'function') {
    const message = 'This version of @a2a-js/sdk cannot be used for gRPC; run `npm install @a2a-js/sdk@1.3`.';
    throw new AgentLoopError('MISSING_PACKAGE', message);
  }
  own.close();
  Reflect.set(transport, 'grpcClient', calls);
  return transport;
}

const mostBytes = 2 ** 31 - 1;

function channelOptions({ maxBodyBytes }: BodyLimits) {
  return {
    'grpc.max_receive_message_length': Math.min(maxBodyBytes, mostBytes),
    // As pauses between requests over HTTP; by default they grow to two minutes.
    'grpc.initial_reconnect_backoff_ms': 250,
    'grpc.max_reconnect_backoff_ms': 5_000,
    'grpc.client_idle_timeout_ms': 60_000,
    // DNS is not asked how calls are to be repeated.
    'grpc.service_config_disable_resolution': 1,
  };
}

interface CallOptions extends GrpcOptions {
  readonly client: GrpcClient;
}

type Method = MethodDefinition<unknown, unknown>;
type Answer = (error: unknown, value?: unknown) => void;

/** The methods of a service by their names, as the clients that the package generates have them. */
function callsOf(service: ServiceDefinition, options: CallOptions): object {
  const methods = Object.entries(service).map(([name, method]) => {
    const call = method.responseStream ? streamOf(method, options) : unaryOf(method, options);
    return [name, call] as const;
  });
  return Object.fromEntries(methods);
}

/** Can be cancelled before it begins: its headers may have to be waited for. */
class Begun {
  #call: { cancel(): void } | undefined;
  #isCancelled = false;

  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  begin<C extends { cancel(): void }>(call: C): C {
    this.#call = call;
    return call;
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#call?.cancel();
  }
}

const cancelled = () => Object.assign(new Error('cancelled'), { code: 1, details: 'cancelled' });

function unaryOf(method: Method, options: CallOptions) {
  return (request: unknown, metadata: Metadata, _callOptions: object, answer: Answer): Begun => {
    const begun = new Begun();
    const read = reader(method, options);
    const call = async () => {
      const sent = await authorized(metadata, options);
      if (begun.isCancelled) throw cancelled();
      const { path, requestSerialize } = method;
      begun.begin(
        options.client.makeUnaryRequest(path, requestSerialize, read.message, request, sent, (error, value) =>
          answer(error === null ? null : (read.flaw() ?? error), value),
        ),
      );
    };
    call().catch(answer);
    return begun;
  };
}

function streamOf(method: Method, options: CallOptions) {
  return (request: unknown, metadata: Metadata) => {
    const begun = new Begun();
    const read = reader(method, options);
    async function* messages(): AsyncGenerator<unknown> {
      const sent = await authorized(metadata, options);
      if (begun.isCancelled) throw cancelled();
      const { path, requestSerialize } = method;
      try {
        yield* begun.begin(options.client.makeServerStreamRequest(path, requestSerialize, read.message, request, sent));
      } catch (error) {
        throw read.flaw() ?? error;
      }
    }
    return Object.assign(messages(), { cancel: () => begun.cancel() });
  };
}

/** The metadata of a call, with what authorizes it. */
async function authorized(metadata: Metadata, { remote, onSecrets }: CallOptions): Promise<Metadata> {
  const own: Awaited<ReturnType<RemoteHeaders>> = await remote.headers();
  onSecrets(Object.values(own));
  for (const [name, value] of Object.entries(own)) metadata.set(name, value);
  return metadata;
}

/** Reads the messages of one call, and stops at the limits of a response and of an event. */
function reader({ responseDeserialize, responseStream }: Method, { remote, name }: CallOptions) {
  let flaw: Error | undefined;
  const failureOf = limitFailure(name);
  const fail: LimitError = (what, limit) => {
    flaw = failureOf(what, limit);
    return flaw;
  };
  const { limits } = remote;
  const all = new BodyCounter(limits, null, fail);
  const ofEvent = { ...limits, maxBodyBytes: limits.maxEventBytes, bodyOption: 'maxEventBytes' };
  // The codec recurses, so that it is the stack that ends what nests far too deep.
  const decoded = (given: Buffer): unknown => {
    try {
      return responseDeserialize(given);
    } catch {
      return undefined;
    }
  };
  return {
    flaw: () => flaw,
    message(given: Buffer): unknown {
      all.count(given.length);
      if (responseStream) new BodyCounter(ofEvent, null, fail).count(given.length);
      const value = decoded(given);
      if (value === undefined || nestsTooDeep(value, maxMessageDepth))
        throw fail(`sent a message that cannot be read, or nests deeper than ${maxMessageDepth} levels`, 'depth');
      return value;
    },
  };
}

interface Target {
  /** `host:port` */
  readonly address: string;
  readonly isSecure: boolean;
}

/** Where a call goes, by the origins that were named; one with TLS first. `undefined`: none of them is at this address. */
function targetOf(url: string, origins: ReadonlySet<string>): Target | undefined {
  const at = addressIn(url);
  if (!at) return undefined;
  for (const scheme of ['https', 'http'] as const) {
    const isSecure = scheme === 'https';
    if (at.isSecure !== undefined && at.isSecure !== isSecure) continue;
    const address = `${at.hostname}:${at.port ?? (isSecure ? 443 : 80)}`;
    if (origins.has(new URL(`${scheme}://${address}`).origin)) return { address, isSecure };
  }
  return undefined;
}

interface Address {
  readonly hostname: string;
  readonly port: number | undefined;
  /** Absent where the address does not say it. */
  readonly isSecure: boolean | undefined;
}

const schemes: Readonly<Record<string, boolean>> = { https: true, grpcs: true, http: false, grpc: false };

/** `host:port`, or an address that begins with `https`, `grpcs`, `http` or `grpc`. A path has no meaning to gRPC. */
function addressIn(url: string): Address | undefined {
  const [, scheme, rest = ''] = /^(?:([a-z]+):\/\/)?([^/?#@]+)/i.exec(url) ?? [];
  const isSecure = scheme === undefined ? undefined : schemes[scheme.toLowerCase()];
  if (scheme !== undefined && isSecure === undefined) return undefined;
  if (!URL.canParse(`grpc://${rest}`)) return undefined;
  const { hostname, port } = new URL(`grpc://${rest}`);
  if (hostname === '') return undefined;
  return { hostname: hostname.toLowerCase(), port: port === '' ? undefined : Number(port), isSecure };
}

/** Loaded with the first remote agent that is reached over gRPC. */
async function load() {
  try {
    const grpc = await import('@grpc/grpc-js');
    const { GrpcTransportFactory } = await import('@a2a-js/sdk/client/grpc');
    const { LegacyGrpcTransport } = await import('@a2a-js/sdk/compat/v0_3/client/grpc');
    const { A2AService } = await import('@a2a-js/sdk/server/grpc');
    const { LegacyA2AService } = await import('@a2a-js/sdk/compat/v0_3/server/grpc');
    return { grpc, GrpcTransportFactory, LegacyGrpcTransport, A2AService, LegacyA2AService };
  } catch (cause) {
    const message =
      'A remote agent over gRPC needs packages that cannot be loaded; run `npm install @grpc/grpc-js @bufbuild/protobuf`.';
    throw new AgentLoopError('MISSING_PACKAGE', message, { cause });
  }
}
