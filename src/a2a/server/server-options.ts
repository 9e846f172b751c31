import type { Agent } from '../../agent/agent.ts';
import type { Clock, Logger, TaskStateStore } from '../../core/contracts/index.ts';
import type { A2ARequestHandlerOptions } from '../handler-options.ts';
import type { CardOptions } from './agent-card.ts';
import type { Authentication } from './auth/authentication.ts';
import type { CardSigning } from './card-signature.ts';
import type { PushOptions } from './push/push-options.ts';
import type { RateLimit } from './rate-limiter.ts';

/** What the server leaves to the request handler. */
type HandlerOption =
  | 'contextOf'
  | 'limits'
  | 'toolEvents'
  | 'extensionEvents'
  | 'artifactUrl'
  | 'maxInlineArtifactBytes'
  | 'cancelDeadlineMs'
  | 'callbackTimeoutMs';

export interface A2AServerOptions extends Pick<A2ARequestHandlerOptions, HandlerOption> {
  readonly agent: Agent;
  /** Where turns are journaled, in place of the agent's `taskStateStore`. One of the two has to be there. */
  readonly store?: TaskStateStore | undefined;
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
  /** The largest body of a request. Bytes; default 4 MiB. */
  readonly maxBodyBytes?: number | undefined;
  /** How long a request may take to arrive, on a port of `listen`; its connection is closed then. Milliseconds; default 60,000. */
  readonly requestTimeoutMs?: number | undefined;
  /** Of one user, or of one address where there are no users; counted in this process. Default 600 a minute; `null`: no limit. */
  readonly rateLimit?: RateLimit | null | undefined;
  /** Streams that one user may have open. Default 100. */
  readonly maxStreams?: number | undefined;
  /** Turns of one user, or of one address where there are no users, that this process may run or have queued. Default 100. */
  readonly maxTurns?: number | undefined;
  /** How long a stream, or a connection of gRPC, may be silent before it sends a heartbeat. Milliseconds; default 15,000; 0: never. */
  readonly heartbeatMs?: number | undefined;
  /** How often the server looks for turns without an owner, to resume them. Milliseconds; default 30,000; 0: only at the start. */
  readonly recoverEveryMs?: number | undefined;
  /** How long `close` waits for turns and streams. Milliseconds; default 10,000. */
  readonly closeMs?: number | undefined;
  /** How many proxies in front of the server are trusted to name the address of a caller in `X-Forwarded-For`. Default 0. */
  readonly trustedProxies?: number | undefined;
  /** Default: the agent's, else silent. A logger of pino fits through `pinoLogger`. */
  readonly logger?: Logger | undefined;
  /** Replaced by tests. Default: the agent's, else the system's. */
  readonly clock?: Clock | undefined;
}

export interface GrpcOptions {
  /** Default 50051; 0 takes a free one. */
  readonly port?: number | undefined;
  /** Where clients reach it, `agents.example.com:443`. Default: where it listens. */
  readonly publicAddress?: string | undefined;
}

export interface ListenOptions {
  /** Default 4100; 0 takes a free one. */
  readonly port?: number | undefined;
  /** Default `127.0.0.1`. */
  readonly host?: string | undefined;
}
