import {
  type AgentCard,
  type Message,
  type SendMessageResult,
  type StreamResponse,
  type Task,
  TaskState,
} from '@a2a-js/sdk';
import {
  type Client,
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import type { Context } from '@opentelemetry/api';
import { type Clock, systemClock } from '../../core/clock.ts';
import { AgentLoopError, type ErrorCode } from '../../core/errors.ts';
import { carrierFromContext } from '../../observability/trace-carrier.ts';
import { failure, quoted, type RemoteName, remoteError, timedOut } from './remote-errors.ts';
import { remoteFetch } from './remote-fetch.ts';
import { knownTransports, type ResolvedRemote } from './remote-options.ts';

/** Of one request. */
export interface RequestScope {
  /** Ends it. */
  readonly signal: AbortSignal;
  /** Whose trace the other side goes on with. */
  readonly traceContext?: Context | undefined;
}

interface Connected {
  readonly client: Client;
  /** The public one. */
  readonly card: AgentCard;
}

/** What is answered by who says that there is an extended card, and has none. */
const promisesTooMuch: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'PROVIDER_BAD_REQUEST',
  'PROVIDER_NOT_FOUND',
  'PROVIDER_PROTOCOL',
]);

const wellKnown = '/.well-known/agent-card.json';
const legacyCompat = { enabled: true };

/** The way to one A2A agent: its card, read when it is first needed, and the requests that we make. Errors carry `PROVIDER_…` codes. */
export class RemoteConnection {
  readonly name: RemoteName;
  readonly #remote: ResolvedRemote;
  readonly #clock: Clock;
  #secrets: readonly string[] = [];
  #connected: Promise<Connected> | undefined;

  constructor(remote: ResolvedRemote) {
    this.#remote = remote;
    this.#clock = remote.local.clock ?? systemClock;
    const secrets = () => this.#secrets;
    this.name = {
      address: `${remote.url.origin}${remote.url.pathname.replace(/\/$/, '')}`,
      get secrets() {
        return secrets();
      },
    };
  }

  get address(): URL {
    return this.#remote.url;
  }

  /** The one for callers that are known, where the other side has one; not older than the connection. */
  async card(scope: RequestScope): Promise<AgentCard> {
    const { card } = await this.#connect();
    if (card.capabilities?.extendedAgentCard !== true) return card;
    try {
      return await this.#ask(scope, (client, options) => client.getAgentCard(options));
    } catch (error) {
      if (AgentLoopError.isInstance(error) && promisesTooMuch.has(error.code)) return card;
      throw error;
    }
  }

  /**
   * Leaves a message, and does not wait for what comes of it. The same `messageId` again is the same message, for who keeps to that. A
   * message on its way may have begun a task, so an abort leaves it the time that a tool has to stop: who cancels has to know the task.
   */
  async send(message: Message, { signal, traceContext }: RequestScope): Promise<SendMessageResult> {
    signal.throwIfAborted();
    const late = new AbortController();
    const { abortGraceMs = 5_000 } = this.#remote.local;
    const watch = { stop: () => {} };
    const onAbort = () => {
      watch.stop = this.#clock.schedule(abortGraceMs, () => late.abort(signal.reason));
    };
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      const result = await this.#send(message, { signal: late.signal, traceContext });
      return isTask(result) ? this.#checked(result) : result;
    } finally {
      signal.removeEventListener('abort', onAbort);
      watch.stop();
    }
  }

  #send(message: Message, scope: RequestScope): Promise<SendMessageResult> {
    const configuration = {
      acceptedOutputModes: [],
      taskPushNotificationConfig: undefined,
      returnImmediately: true,
    };
    const request = { tenant: '', message, configuration, metadata: undefined };
    return this.#ask(scope, (client, options) => client.sendMessage(request, options));
  }

  async task(id: string, scope: RequestScope): Promise<Task> {
    return this.#checked(await this.#ask(scope, (client, options) => client.getTask({ tenant: '', id }, options)));
  }

  cancel(id: string, scope: RequestScope): Promise<Task> {
    return this.#ask(scope, (client, options) => client.cancelTask({ tenant: '', id, metadata: undefined }, options));
  }

  /** The task as it is, then what happens to it; `undefined` where the other side does not stream, or what it streams cannot be read. */
  async follow(
    id: string,
    { signal, traceContext }: RequestScope,
  ): Promise<AsyncGenerator<StreamResponse> | undefined> {
    const { client, card } = await this.#connect();
    if (card.capabilities?.streaming !== true || losesAppend(client)) return undefined;
    return client.resubscribeTask({ tenant: '', id }, { signal, serviceParameters: headersOf(traceContext) });
  }

  /** A task that could be followed for ever is none. */
  #checked(task: Task): Task {
    const { state = TaskState.TASK_STATE_UNSPECIFIED } = task.status ?? {};
    if (task.id !== '' && state > TaskState.TASK_STATE_UNSPECIFIED) return task;
    const what = 'does not answer as an A2A server, with a task that has no id or no known state: check url';
    throw failure(this.name, 'PROVIDER_PROTOCOL', what);
  }

  async #ask<T>(
    { signal, traceContext }: RequestScope,
    ask: (client: Client, options: { signal: AbortSignal; serviceParameters: Record<string, string> }) => Promise<T>,
  ): Promise<T> {
    const { requestTimeoutMs: ms } = this.#remote;
    const limit = new AbortController();
    const stop = this.#clock.schedule(ms, () => limit.abort());
    const either = AbortSignal.any([signal, limit.signal]);
    try {
      const { client } = await this.#connect();
      return await ask(client, { signal: either, serviceParameters: headersOf(traceContext) });
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (limit.signal.aborted) throw timedOut(this.name);
      throw remoteError(this.name, error);
    } finally {
      stop();
    }
  }

  /** One that fails is tried again with the next request. */
  #connect(): Promise<Connected> {
    this.#connected ??= this.#open().catch((error: unknown) => {
      this.#connected = undefined;
      throw remoteError(this.name, error);
    });
    return this.#connected;
  }

  async #open(): Promise<Connected> {
    const { url, headers, origins, transports, requestTimeoutMs } = this.#remote;
    const fetchImpl = remoteFetch({
      name: this.name,
      headers,
      origins,
      onSecrets: (secrets) => {
        this.#secrets = secrets;
      },
    });
    const timed: typeof fetch = (input, init) =>
      fetchImpl(input, { ...init, signal: init?.signal ?? AbortSignal.timeout(requestTimeoutMs) });
    const resolver = new DefaultAgentCardResolver({ fetchImpl: timed, legacyCompat });
    const card = url.pathname.endsWith('.json')
      ? await resolver.resolve(url.href, '')
      : await resolver.resolve(url.origin, `${url.pathname.replace(/\/$/, '')}${wellKnown}`);
    const offered = resolver.normalizeAgentCard(card).supportedInterfaces.map(({ protocolBinding }) => protocolBinding);
    if (!offered.some((each) => knownTransports.includes(each.toUpperCase()))) {
      const what = `is offered over ${quoted(this.name, offered.join(', ') || 'nothing')}: remoteAgent needs ${knownTransports.join(' or ')}`;
      throw failure(this.name, 'PROVIDER_PROTOCOL', what);
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
}

export function isTask(result: SendMessageResult): result is Task {
  return 'artifacts' in result;
}

/** Over this transport the package does not say whether a piece of text goes on with the one before it. */
function losesAppend({ transport: { protocolName, protocolVersion } }: Client): boolean {
  return protocolName === 'HTTP+JSON' && protocolVersion.startsWith('0.');
}

function headersOf(traceContext: Context | undefined): Record<string, string> {
  return traceContext ? carrierFromContext(traceContext) : {};
}
