import type { Express } from 'express';
import type { Agent } from '../../agent/agent.ts';
import {
  type Clock,
  invalidConfig,
  type Logger,
  messageOf,
  missingPackage,
  shownValue,
  type TaskStateStore,
} from '../../core/contracts/index.ts';
import {
  aBoolean,
  anything,
  assertGiven,
  assertOptions,
  checkOptions,
  hasMethods,
  type OptionRules,
  wholeNumber,
} from '../../options/option-rules.ts';
import { type A2ARequestHandlerOptions, defaultBodyBytes, resolveLimits } from '../handler-options.ts';
import type { RateLimit } from './admission.ts';
import type { CardOptions } from './agent-card.ts';
import type { Authentication } from './authentication.ts';
import type { CardSigning } from './card-signing.ts';
import type { ServerRoute } from './fetch-route.ts';
import type { PushOptions } from './push/push-sender.ts';

/**
 * Serves an agent over A2A: JSON-RPC, HTTP+JSON, and gRPC where that is asked for, each in the versions 1.0 and 0.3.
 *
 * Turns belong to their tasks: clients come and go, and turns abandoned by a process are resumed by the next. Nothing listens and
 * nothing runs before `listen`, or `start` where `app` is mounted elsewhere. What is wrong with a request is answered in the protocol's
 * own form, without internal details.
 *
 * Memory: what streams hold for readers that are slower than their turns, and 10,000 callers that are counted. Errors: `INVALID_CONFIG`,
 * `MISSING_PACKAGE`, naming what to install.
 */
export async function a2aServer(options: A2AServerOptions): Promise<A2AServer> {
  assertServerOptions(options);
  const { createServer } = await load();
  return createServer(options);
}

const required: readonly string[] = ['@a2a-js/sdk', 'express'];

/** What the server needs is loaded by the first one. */
async function load() {
  try {
    return await import('./running-server.ts');
  } catch (cause) {
    const missing = /Cannot find (?:package|module) '((?:@[^/']+\/)?[^/']+)/.exec(messageOf(cause))?.[1];
    if (missing === undefined || missing.startsWith('.')) throw cause;
    throw missingPackage(missing, cause, required.includes(missing) ? required.join(' ') : missing);
  }
}

/** Where a server is reached. */
export interface A2AAddress {
  /** Where clients reach the server. */
  readonly url: string;
  /** Where its card is. */
  readonly cardUrl: string;
  /** The port that it listens on. */
  readonly port: number;
  /** Of gRPC, where it is offered. */
  readonly grpcAddress?: string;
}

/** An A2A server: mount `app` in a server of your own and call `start`, or let it listen on a port. `close` ends either. */
export interface A2AServer {
  /** The server as an application of Express, to be mounted or served by yours; `start` and `close` belong to it. */
  readonly app: Express;
  /**
   * Serves on a port of its own, and starts. Errors: `INVALID_CONFIG`; `UNAVAILABLE` where the port cannot be had; what the agent's tools
   * fail with when they are listed for the card. No port is held then, and it may be called again.
   */
  listen(options?: ListenOptions): Promise<A2AAddress>;
  /** Resumes turns without an owner, now and periodically, and delivers notifications. Needs `publicUrl`, since only you know where `app` is. */
  start(): Promise<void>;
  /** Resumes turns without an owner; returns how many. */
  recover(): Promise<number>;
  /**
   * Accepts no more requests, drains the turns that run here, so that another process can resume them, notifies open
   * streams, and ends, after `closeMs` at the latest. Stores and the agent stay the caller's. Again: waits for the first.
   */
  close(): Promise<void>;
}

/** What the server leaves to the request handler. */
type HandlerOption =
  | 'queue'
  | 'contextOf'
  | 'limits'
  | 'toolEvents'
  | 'extensionEvents'
  | 'artifactUrl'
  | 'maxInlineArtifactBytes'
  | 'cancelDeadlineMs'
  | 'callbackTimeoutMs';

/** Options of `a2aServer`: the agent and its store, the card, who may call, and the limits. */
export interface A2AServerOptions extends Pick<A2ARequestHandlerOptions, HandlerOption> {
  /** Whose turns the server runs. */
  readonly agent: Agent;
  /** Where turns are journaled, in place of the agent's `taskStateStore`. One of the two has to be there. */
  readonly store?: TaskStateStore | undefined;
  /** What the card says besides what follows from the agent. Default: nothing. */
  readonly card?: CardOptions | undefined;
  /** Signs the card. Default: it is not signed. */
  readonly signing?: CardSigning | undefined;
  /**
   * The ways in which callers say who they are; one that knows a caller is enough. Default none: whoever reaches the server owns all of it,
   * so that it listens on the loopback only, unless `open` says otherwise.
   */
  readonly auth?: Authentication | readonly Authentication[] | undefined;
  /** How long each way of `auth` may take to know a caller; one that takes longer does not know it. Milliseconds; default 10,000. */
  readonly authTimeoutMs?: number | undefined;
  /** Lets a server without `auth` listen beyond the loopback. Default false. */
  readonly open?: boolean | undefined;
  /** Webhooks. Default: the card says that there are none. */
  readonly push?: PushOptions | undefined;
  /** Where clients reach the server, `https://agents.example.com`, with a path where it is mounted below one. Default: where it listens. */
  readonly publicUrl?: string | undefined;
  /** Offers gRPC on a port of its own; needs `@grpc/grpc-js` and `@bufbuild/protobuf`. Default: not offered. */
  readonly grpc?: GrpcOptions | undefined;
  /** Whether clients of A2A 0.3 are served too. Without, they are answered `VersionNotSupported`, as requests without a version are. Default true. */
  readonly legacy?: boolean | undefined;
  /** The largest body of a request. Bytes; default 4 MiB. `limits.maxMessageBytes` must not be above it. */
  readonly maxBodyBytes?: number | undefined;
  /** How long a request may take to arrive, on a port of `listen`; its connection is closed then. Milliseconds; default 60,000. */
  readonly requestTimeoutMs?: number | undefined;
  /** Of one user, or of one address where there are no users; counted in this process. Default 600 a minute; `null`: no limit. */
  readonly rateLimit?: RateLimit | null | undefined;
  /** Streams that one user may have open. Default 100. */
  readonly maxStreams?: number | undefined;
  /**
   * Turns of one user, or of one address where there are no users, that this process may run or have queued; with a `queue`: their requests that
   * are open. Default 100.
   */
  readonly maxTurns?: number | undefined;
  /** How long a stream, or a connection of gRPC, may be silent before it sends a heartbeat. Milliseconds; default 15,000; 0: never. */
  readonly heartbeatMs?: number | undefined;
  /** How often the server looks for turns without an owner, to resume them. Milliseconds; default 30,000; 0: only at the start. */
  readonly recoverEveryMs?: number | undefined;
  /** How long `close` waits for turns and streams. Milliseconds; default 10,000. */
  readonly closeMs?: number | undefined;
  /** `fetch` handlers that are served beside A2A, to the same callers, at the same rate and with the same limits of turns and streams: one of your own calls `admit` before it starts a turn. Default none. */
  readonly routes?: readonly ServerRoute[] | undefined;
  /** How many proxies in front of the server are trusted to name the address of a caller in `X-Forwarded-For`. Default 0. */
  readonly trustedProxies?: number | undefined;
  /** Default: the agent's, else silent. A logger of pino fits through `pinoLogger`. */
  readonly logger?: Logger | undefined;
  /** Replaced by tests. Default: the agent's, else the system's. */
  readonly clock?: Clock | undefined;
}

/** Where a server listens for gRPC, and where clients reach it. */
export interface GrpcOptions {
  /** Default 50051; 0 takes a free one. */
  readonly port?: number | undefined;
  /** Where clients reach it, `agents.example.com:443`. Default: where it listens. */
  readonly publicAddress?: string | undefined;
}

/** Where a server listens. */
export interface ListenOptions {
  /** Default 4100; 0 takes a free one. */
  readonly port?: number | undefined;
  /** Default `127.0.0.1`. */
  readonly host?: string | undefined;
}

const rules: OptionRules<A2AServerOptions> = {
  agent: anything,
  store: anything,
  card: anything,
  signing: anything,
  auth: anything,
  authTimeoutMs: wholeNumber(1),
  open: anything,
  push: anything,
  publicUrl: anything,
  grpc: anything,
  legacy: aBoolean,
  queue: anything,
  contextOf: anything,
  limits: anything,
  toolEvents: anything,
  extensionEvents: anything,
  artifactUrl: anything,
  maxInlineArtifactBytes: anything,
  cancelDeadlineMs: anything,
  callbackTimeoutMs: anything,
  maxBodyBytes: wholeNumber(1),
  requestTimeoutMs: wholeNumber(1),
  rateLimit: anything,
  maxStreams: wholeNumber(1),
  maxTurns: wholeNumber(1),
  heartbeatMs: wholeNumber(0),
  recoverEveryMs: wholeNumber(0),
  closeMs: wholeNumber(0),
  routes: anything,
  trustedProxies: wholeNumber(0),
  logger: anything,
  clock: anything,
};

const pushRules: OptionRules<PushOptions> = {
  store: { fits: (value) => hasMethods(value, ['claim']), must: 'be a PushStore, e.g. new InMemoryPushStore()' },
  signing: anything,
  allowPrivateTargets: anything,
  allowHttp: anything,
  mostPerTask: wholeNumber(1),
  concurrency: wholeNumber(1),
  attempts: wholeNumber(1),
  timeoutMs: wholeNumber(1),
  intervalMs: wholeNumber(0),
};

/** Paths of the server itself. */
const reserved: ReadonlySet<string> = new Set(['/a2a', '/healthz', '/readyz']);

/** Errors: `INVALID_CONFIG`, naming the option and the cure. */
export function assertServerOptions(options: A2AServerOptions): void {
  assertOptions('a2aServer', options, rules);
  const { agent, store, publicUrl, push, rateLimit, routes = [] } = options;
  if (!isAgent(agent)) throw invalidConfig('agent must be an Agent', 'make one with agent({ … })');
  const route = routes.find(({ path }) => !/^\/[\w-]+$/.test(path) || reserved.has(path));
  if (route)
    throw invalidConfig(
      `${shownValue(route.path)} is no path of a route`,
      'give one of one part, e.g. "/v1"; not /a2a',
    );
  if (!store && !agent.options.taskStateStore) {
    throw invalidConfig(
      'a2aServer has no store for turns',
      'give store, e.g. new InMemoryStateStore(), or one that lasts; or the agent a taskStateStore',
    );
  }
  if (publicUrl !== undefined && !/^https?:$/.test(URL.canParse(publicUrl) ? new URL(publicUrl).protocol : '')) {
    throw invalidConfig('publicUrl is not an http or https address', 'give the one that clients use');
  }
  assertReachable(options);
  if (rateLimit) checkOptions(rateLimit, { requests: wholeNumber(1), perMs: wholeNumber(1) }, 'rateLimit');
  if (!push) return;
  assertOptions('push of a2aServer', push, pushRules);
  assertGiven('push of a2aServer', 'store', push.store, 'give a PushStore, e.g. new InMemoryPushStore()');
}

/** No message is larger than the body that it comes in. */
function assertReachable({ limits, maxBodyBytes = defaultBodyBytes }: A2AServerOptions): void {
  const { maxMessageBytes } = resolveLimits(limits);
  if (limits?.maxMessageBytes === undefined || maxMessageBytes <= maxBodyBytes || maxMessageBytes === Infinity) return;
  throw invalidConfig(
    `limits.maxMessageBytes of ${maxMessageBytes} cannot be reached: maxBodyBytes is ${maxBodyBytes}`,
    'raise maxBodyBytes, by a third more for files, or lower limits.maxMessageBytes',
  );
}

/** Of any copy of this package. */
function isAgent(value: unknown): value is Agent {
  return typeof value === 'object' && value !== null && 'startTurn' in value && 'with' in value;
}

/** What of a logger of pino is used; others of its form fit too. */
export type PinoLike = {
  readonly [Level in keyof Logger]: (fields: object, message: string) => void;
};

/** Writes what the engine logs to a logger of pino: ids, codes and numbers as fields, never content or keys. */
export function pinoLogger(pino: PinoLike): Logger {
  return {
    debug: (message, fields = {}) => pino.debug(fields, message),
    info: (message, fields = {}) => pino.info(fields, message),
    warn: (message, fields = {}) => pino.warn(fields, message),
    error: (message, fields = {}) => pino.error(fields, message),
  };
}
