import { createServer as createHttpServer, type Server } from 'node:http';
import { A2AError } from '@a2a-js/sdk/errors';
import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import type { Express } from 'express';
import type { Agent } from '../../agent/agent.ts';
import {
  type Clock,
  type Defined,
  invalidConfig,
  type Logger,
  systemClock,
  type TaskStateStore,
} from '../../core/contracts/index.ts';
import { settled, Timer } from '../../core/streams/index.ts';
import { guardedLogger } from '../../guarded-logger.ts';
import { isLoopbackHost } from '../../loopback.ts';
import { defaultBodyBytes, resolveHandlerOptions, resolveLimits } from '../handler-options.ts';
import { codeOf } from '../protocol-errors.ts';
import { type A2AHandler, requestHandler } from '../request-handler.ts';
import type { A2AAddress, A2AServer, A2AServerOptions, ListenOptions } from './a2a-server.ts';
import { type Admission, RateLimiter, StreamCounter, TurnCounter } from './admission.ts';
import { AgentCards } from './agent-card.ts';
import type { Authentication } from './authentication.ts';
import { authContextIn, callerIn, senderIn } from './caller.ts';
import { type RouteHandler, routeHandler } from './fetch-route.ts';
import { type GrpcListener, startGrpc } from './grpc-listener.ts';
import { guardedHandler } from './guarded-handler.ts';
import { httpApp } from './http-app.ts';
import { bind, shownHost, unbind } from './listening.ts';
import { PushDelivery } from './push/push-delivery.ts';
import { pushRegistrations } from './push/push-registrations.ts';
import { publicKeys } from './push/push-sender.ts';

export function createServer(options: A2AServerOptions): A2AServer {
  return new RunningServer(options);
}

const shuttingDown = 'The server is shutting down; the task continues. Subscribe to it again.';

class RunningServer implements A2AServer {
  readonly app: Express;
  readonly #options: A2AServerOptions;
  readonly #agent: Agent;
  readonly #store: TaskStateStore;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #auth: readonly Authentication[];
  readonly #cards: AgentCards;
  readonly #tasks: A2AHandler;
  readonly #handler: A2ARequestHandler;
  readonly #admission: Admission;
  readonly #routes: ReadonlyMap<string, RouteHandler>;
  readonly #delivery: PushDelivery | undefined;
  readonly #streams: StreamCounter;
  readonly #turns: TurnCounter;
  /** Aborted first: the turns drain. */
  readonly #drain = new AbortController();
  /** Aborted when they have: the streams end. */
  readonly #stop = new AbortController();
  #http: Server | undefined;
  #grpc: GrpcListener | undefined;
  #hasStarted = false;
  #recovering: Promise<unknown> = Promise.resolve();
  readonly #nextRecovery: Timer;
  #opening: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | undefined;

  constructor(options: A2AServerOptions) {
    // Every stream listens to it.
    const { agent, store, push, auth = [], maxStreams = 100, maxTurns = 100, heartbeatMs = silentMs } = options;
    const { clock = systemClock, logger = silent, storeDeadlineMs = 30_000 } = agent.options;
    this.#options = options;
    this.#clock = options.clock ?? clock;
    this.#nextRecovery = new Timer(this.#clock);
    this.#logger = guardedLogger(options.logger ?? logger);
    this.#auth = 'authenticate' in auth ? [auth] : auth;
    this.#agent = servedAgent(options, this.#drain.signal);
    this.#store = storeOf(this.#agent, store);
    this.#streams = new StreamCounter(maxStreams);
    this.#turns = new TurnCounter(maxTurns);
    this.#cards = new AgentCards({ ...options, agent: this.#agent, auth: this.#auth });
    const source = { store: this.#store, clock: this.#clock, storeDeadlineMs };
    this.#delivery = push && new PushDelivery({ ...source, push, logger: this.#logger });
    const handling = resolveHandlerOptions({
      agent: this.#agent,
      card: () => this.#cards.card,
      extendedCard: () => this.#cards.extended,
      authContextOf: authContextIn,
      senderOf: senderIn,
      onTurn: (turn, context) => this.#turns.started(callerIn(context), turn.settled),
      ...(push && this.#delivery && { push: pushRegistrations(push, this.#delivery, this.#clock) }),
      ...handlerOptions(options),
    });
    this.#tasks = requestHandler(handling);
    const limits = { turns: this.#turns, streams: this.#streams };
    const guard = { limits, stop: this.#stop.signal, heartbeatMs, clock: this.#clock, logger: this.#logger };
    this.#handler = guardedHandler(this.#tasks, guard);
    this.#admission = this.#newAdmission();
    const made = { agent: this.#agent, admission: this.#admission, kept: handling.kept };
    const { routes = [] } = options;
    this.#routes = new Map(routes.map((route) => [route.path, routeHandler(route, made)]));
    this.app = this.#newApp();
  }

  async start(): Promise<void> {
    const { publicUrl } = this.#options;
    if (publicUrl === undefined) throw invalidConfig('start needs publicUrl', 'set the URL of app, or use listen');
    this.#claimStart();
    await this.#begin({ url: publicUrl }).catch((thrown: unknown) => {
      this.#hasStarted = false;
      throw thrown;
    });
  }

  async listen({ port = 4_100, host = '127.0.0.1' }: ListenOptions = {}): Promise<A2AAddress> {
    if (this.#auth.length === 0 && this.#options.open !== true && !isLoopbackHost(host)) {
      throw invalidConfig(
        `a2aServer has no auth and would listen on ${host}, where others reach it`,
        'give auth, or say open: true where something in front of it asks callers who they are',
      );
    }
    this.#claimStart();
    const { requestTimeoutMs: ms = 60_000 } = this.#options;
    const times = { requestTimeout: ms, headersTimeout: ms, connectionsCheckingInterval: Math.min(ms, 5_000) };
    const server = createHttpServer(times, this.app);
    this.#http = server;
    server.on('request', (_request, response) => {
      // A connection that is kept for the next request would hold the end up.
      response.once('close', () => this.#closing && setImmediate(() => server.closeIdleConnections()));
    });
    try {
      const opening = this.#listenOn(server, { port, host });
      this.#opening = opening;
      return await opening;
    } catch (thrown) {
      this.#grpc?.breakOff();
      const closed = unbind(server);
      server.closeAllConnections();
      await closed;
      this.#http = undefined;
      this.#grpc = undefined;
      this.#hasStarted = false;
      throw thrown;
    }
  }

  recover(): Promise<number> {
    return this.#tasks.recover();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Steps that wait have until the same moment; what is not over then is broken off. */
  async #close(): Promise<void> {
    const { closeMs = 10_000 } = this.#options;
    const deadline = this.#clock.now() + closeMs;
    const untilThen = (work: Promise<unknown> | undefined) => settled(deadline - this.#clock.now(), this.#clock, work);
    this.#nextRecovery.close();
    for (const route of this.#routes.values()) route.close?.();
    this.#drain.abort();
    await untilThen(this.#opening);
    const closed = this.#http && unbind(this.#http);
    await untilThen(Promise.all([this.#recovering, this.#delivery?.close()]));
    await untilThen(idle(this.#agent));
    this.#stop.abort(new A2AError(shuttingDown));
    this.#http?.closeIdleConnections();
    await untilThen(Promise.all([closed, this.#grpc?.close()]));
    this.#grpc?.breakOff();
    this.#http?.closeAllConnections();
    await closed;
    this.#logger.info('closed');
  }

  #claimStart(): void {
    if (this.#hasStarted || this.#closing) throw startedBefore();
    this.#hasStarted = true;
  }

  async #listenOn(server: Server, { port, host }: Defined<ListenOptions>): Promise<A2AAddress> {
    const bound = await bind(server, port, host);
    const { publicUrl = `http://${shownHost(host)}:${bound.port}` } = this.#options;
    const url = publicUrl.replace(/\/+$/, '');
    const grpcAddress = await this.#listenGrpc(host);
    await this.#begin({ url, ...(grpcAddress !== undefined && { grpcAddress }) });
    this.#logger.info('listening', { url, port: bound.port });
    const address = { url, cardUrl: `${url}/.well-known/agent-card.json`, port: bound.port };
    return { ...address, ...(grpcAddress !== undefined && { grpcAddress }) };
  }

  /** Until then requests are answered with 503. Errors: those of tools that cannot be listed, and of a key that cannot sign the card. */
  async #begin(at: { readonly url: string; readonly grpcAddress?: string }): Promise<void> {
    await this.#cards.open(at);
    // A close that came meanwhile has stopped what would begin here.
    if (this.#closing) throw startedBefore();
    this.#recoverAgain();
    for (const route of this.#routes.values()) route.start?.();
    this.#delivery?.start();
  }

  #recoverAgain(): void {
    const { queue, recoverEveryMs = 30_000 } = this.#options;
    if (queue) return;
    this.#recovering = this.recover().then(
      (count) => count > 0 && this.#logger.info('turns resumed', { count }),
      (thrown: unknown) => this.#logger.warn('recovery of turns failed', { code: codeOf(thrown) }),
    );
    if (recoverEveryMs === 0) return;
    void this.#recovering.then(() => this.#nextRecovery.set(recoverEveryMs, () => this.#recoverAgain()));
  }

  async #listenGrpc(host: string): Promise<string | undefined> {
    const { grpc, maxBodyBytes = defaultBodyBytes, heartbeatMs = silentMs, legacy = true } = this.#options;
    const { maxStreams = 100, maxTurns = 100 } = this.#options;
    if (!grpc) return undefined;
    const [handler, admission] = [this.#handler, this.#admission];
    const maxCalls = maxStreams + maxTurns + shortCalls;
    this.#grpc = await startGrpc({ ...grpc, host, handler, admission, maxBodyBytes, maxCalls, heartbeatMs, legacy });
    return grpc.publicAddress ?? `${shownHost(host)}:${this.#grpc.port}`;
  }

  #newAdmission(): Admission {
    const { rateLimit = { requests: 600, perMs: 60_000 }, open = false, publicUrl } = this.#options;
    return {
      auth: this.#auth,
      localOnly: this.#auth.length === 0 && !open,
      publicUrl,
      limiter: rateLimit === null ? undefined : new RateLimiter(rateLimit, () => this.#clock.now()),
      streams: this.#streams,
      turns: this.#turns,
      clock: this.#clock,
      timeoutMs: this.#options.authTimeoutMs ?? 10_000,
      phase: () => (this.#drain.signal.aborted ? 'closing' : this.#cards.isOpen ? 'open' : 'starting'),
      logger: this.#logger,
    };
  }

  #newApp(): Express {
    const { push, maxBodyBytes = defaultBodyBytes, trustedProxies = 0, legacy = true } = this.#options;
    return httpApp({
      handler: this.#handler,
      cards: this.#cards,
      admission: this.#admission,
      store: this.#store,
      maxBodyBytes,
      trustedProxies,
      legacy,
      routes: this.#routes,
      publicKeys: push?.signing && publicKeys(push.signing),
      clock: this.#clock,
    });
  }
}

function startedBefore(): Error {
  return invalidConfig('the server has been started or closed before', 'make another');
}

function handlerOptions(options: A2AServerOptions) {
  const {
    queue,
    contextOf,
    limits,
    toolEvents,
    extensionEvents,
    artifactUrl,
    maxInlineArtifactBytes,
    cancelDeadlineMs,
    callbackTimeoutMs,
    maxBodyBytes = defaultBodyBytes,
  } = options;
  const { maxMessageBytes } = resolveLimits(limits);
  return {
    ...(queue && { queue }),
    ...(contextOf && { contextOf }),
    limits: { ...limits, maxMessageBytes: Math.min(maxMessageBytes, maxBodyBytes) },
    ...(toolEvents !== undefined && { toolEvents }),
    ...(extensionEvents && { extensionEvents }),
    ...(artifactUrl && { artifactUrl }),
    ...(maxInlineArtifactBytes !== undefined && { maxInlineArtifactBytes }),
    ...(cancelDeadlineMs !== undefined && { cancelDeadlineMs }),
    ...(callbackTimeoutMs !== undefined && { callbackTimeoutMs }),
  };
}

const silentMs = 15_000;
/** Calls of one connection of gRPC that are neither streams nor turns. */
const shortCalls = 100;

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** The agent with what the server decides: where its turns are journaled, and when they drain. */
function servedAgent({ agent, store }: A2AServerOptions, drain: AbortSignal): Agent {
  const { shutdown } = agent.options;
  return agent.variant({
    shutdown: shutdown === undefined ? drain : AbortSignal.any([shutdown, drain]),
    ...(store && { taskStateStore: store }),
  });
}

/** Errors: `INVALID_CONFIG`. */
function storeOf(agent: Agent, store: TaskStateStore | undefined): TaskStateStore {
  const found = store ?? agent.options.taskStateStore;
  if (found === undefined) throw invalidConfig('a2aServer has no store for turns', 'give store');
  return found;
}

/** Resolves once no turn of the agent runs here. */
function idle(agent: Agent): Promise<void> {
  if (agent.state !== 'busy') return Promise.resolve();
  return new Promise((resolve) => {
    const stop = agent.on('agent:state', ({ state }) => {
      if (state === 'busy') return;
      stop();
      resolve();
    });
  });
}
