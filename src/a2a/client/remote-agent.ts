import type { Agent } from '../../agent/agent.ts';
import type { AgentSettings } from '../../agent/agent-options.ts';
import { type BodyLimits, defaultBodyLimits } from '../../body-limits.ts';
import { invalidConfig, shownValue } from '../../core/contracts/index.ts';
import { checkNames, checkOption, milliseconds, oneOf, wholeNumber } from '../../options/option-rules.ts';
import { protocolErrors } from '../protocol-errors.ts';
import { type CardCheck, cardCheck, type VerifyCardOptions } from './verify-card.ts';

/**
 * An agent of another server, reached over A2A (1.0 or 0.3), as an agent of ours: run it, give it to `agentTools` or to a `team`.
 *
 * A turn sends what the user said, follows the task that comes of it and ends as it ends; the text of its artifacts is streamed and is the
 * answer. The task at its end is compared with what was streamed, and a difference is shown as the whole text anew. A turn of Millrace on
 * the other side is shown as one of ours would be: the text and the value are those that it ended with. Its questions (`input-required`,
 * `auth-required`) suspend the turn, and the answers are sent to it: to a turn of Millrace by question, to any other server a string as a
 * text part, all else as a data part. Later turns of one context continue in one context of the other side.
 *
 * Unsubscribing, a cancel, a limit, `taskTimeoutMs` (default one hour) and `maxSilenceMs` (ten minutes) cancel the remote task; a process that dies or shuts down does
 * not: with a `taskStateStore` the resumed turn continues with the same task. The caller's trace is sent along.
 *
 * `name` and `description` are those of its card, which is fetched at once unless both are given. Rejects with `INVALID_CONFIG`,
 * `MISSING_PACKAGE`; where the card is fetched also with `PROVIDER_…`, which else are errors of the turn: of one that failed on the other
 * side `PROVIDER_FAILED`.
 */
export async function remoteAgent(options: RemoteAgentOptions): Promise<Agent> {
  const remote = resolveRemote(options);
  protocolErrors();
  const { connectRemote } = await import('./connect-remote.ts');
  return connectRemote(options, remote);
}

/** Headers of requests, made anew for each, so that a token may be a short-lived one. */
export type RemoteHeaders = () => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>;

/** The credentials of the client. Sent only to the origin of `url` and to `origins`; never recorded, traced or logged. */
export type RemoteAuth =
  | { readonly bearer: string }
  | { readonly headers: Readonly<Record<string, string>> }
  | RemoteHeaders;

/** The options of an agent that have a meaning where another server has the model and the tools. */
type LocalOption =
  | (
      | 'id'
      | 'name'
      | 'description'
      | 'contextId'
      | 'metadata'
      | 'messageStore'
      | 'taskStateStore'
      | 'busy'
      | 'extensions'
    )
  | ('clock' | 'generateId' | 'logger' | 'shutdown' | 'leaseMs' | 'storeDeadlineMs' | 'abortGraceMs')
  | ('enableTracing' | 'captureContent' | 'redact' | 'spanNames');

/** Options of `remoteAgent`: where the other server is, how to reach it, and the options of a local agent that apply to it. */
export interface RemoteAgentOptions extends Pick<AgentSettings, LocalOption> {
  /** The server's address, below which its card is at `/.well-known/agent-card.json`, or the address of the card itself. */
  readonly url: string;
  /** Default: none. */
  readonly auth?: RemoteAuth | undefined;
  /**
   * Other origins than that of `url` that the card may lead to, and that are given `auth`. Of gRPC, `https://host:port` is reached with TLS,
   * `http://host:port` without. Default: none.
   */
  readonly origins?: readonly string[] | undefined;
  /**
   * Whose signature the card has to bear: a card that is not signed, was changed or is signed by others is refused with `PROVIDER_PROTOCOL`.
   * Default: signatures are not looked at.
   */
  readonly verifyCard?: VerifyCardOptions | undefined;
  /**
   * Which of its transports to use, the best first. Default: as the card prefers. gRPC is used where it is named here, where its address is
   * one of `origins`, and where there is nothing else; it needs `@grpc/grpc-js` and `@bufbuild/protobuf`.
   */
  readonly transports?: readonly ('JSONRPC' | 'HTTP+JSON' | 'GRPC')[] | undefined;
  /**
   * How long a request may take to be answered; of a stream, to its first event. Milliseconds; default 30,000. The task itself may take
   * `taskTimeoutMs`. A message without a stream may take `maxSilenceMs`, as its server may answer only once the task has ended; one to a
   * server of Millrace, which answers at once, does not.
   */
  readonly requestTimeoutMs?: number | undefined;
  /**
   * How long the other side may be silent before it is asked how the task is, and after how long an unreachable one is given up.
   * Milliseconds; default 60,000.
   */
  readonly silenceMs?: number | undefined;
  /**
   * How long a remote task may take to end or to ask, from the message that it works on, also across restarts of this side. Past it the
   * turn fails with `PROVIDER_TIMEOUT`, and the task is cancelled. Milliseconds, at most 2,147,483,647; default 3,600,000, an hour.
   */
  readonly taskTimeoutMs?: number | undefined;
  /**
   * How long a remote task may stay as it is although its server answers: the same state, status and text, and how long a message without
   * a stream may take to be answered. Past it the turn fails with
   * `PROVIDER_TIMEOUT`, and the task is cancelled. Milliseconds, at most 2,147,483,647; default 600,000.
   */
  readonly maxSilenceMs?: number | undefined;
  /**
   * What to do with a message that was being sent when this process stopped, where neither the protocol nor the server tells whether it
   * arrived. `'fail'`, the default: the turn fails with `OUTCOME_UNKNOWN`. `'retry'`: it is sent again, and may start a second task.
   */
  readonly onInDoubt?: 'fail' | 'retry' | undefined;
  /** The most that one response may be, decompressed, in bytes; a card and a stream too. Default 32 MiB. */
  readonly maxBodyBytes?: number | undefined;
  /** The most that one event of a stream may be, in bytes. Default 4 MiB. */
  readonly maxEventBytes?: number | undefined;
}

export interface ResolvedRemote {
  readonly url: URL;
  readonly headers: RemoteHeaders;
  readonly origins: ReadonlySet<string>;
  readonly verifyCard: CardCheck | undefined;
  readonly transports: readonly string[];
  readonly requestTimeoutMs: number;
  readonly silenceMs: number;
  readonly taskTimeoutMs: number;
  readonly maxSilenceMs: number;
  readonly onInDoubt: 'fail' | 'retry';
  readonly limits: BodyLimits;
  readonly local: Pick<AgentSettings, LocalOption>;
}

const localOptions: Readonly<Record<LocalOption, true>> = {
  id: true,
  name: true,
  description: true,
  contextId: true,
  metadata: true,
  messageStore: true,
  taskStateStore: true,
  busy: true,
  extensions: true,
  clock: true,
  generateId: true,
  logger: true,
  shutdown: true,
  leaseMs: true,
  storeDeadlineMs: true,
  abortGraceMs: true,
  enableTracing: true,
  captureContent: true,
  redact: true,
  spanNames: true,
};

const remoteOptions = [
  ...['url', 'auth', 'origins', 'verifyCard', 'transports'],
  ...['requestTimeoutMs', 'silenceMs', 'taskTimeoutMs', 'maxSilenceMs', 'onInDoubt'],
  ...['maxBodyBytes', 'maxEventBytes'],
];
export const httpTransports: readonly string[] = ['JSONRPC', 'HTTP+JSON'];
export const knownTransports: readonly string[] = [...httpTransports, 'GRPC'];

/** Errors: `INVALID_CONFIG`, naming the option and the cure. */
export function resolveRemote(options: RemoteAgentOptions): ResolvedRemote {
  if (typeof options !== 'object' || options === null) {
    throw invalidConfig('remoteAgent takes an object of options', "write remoteAgent({ url: 'https://…' })");
  }
  checkNames(options, [...remoteOptions, ...Object.keys(localOptions)], 'remoteAgent');
  const { url, auth, origins = [], verifyCard, transports = [], ...rest } = options;
  const {
    requestTimeoutMs = 30_000,
    silenceMs = 60_000,
    taskTimeoutMs = 3_600_000,
    maxSilenceMs = 600_000,
    onInDoubt = 'fail',
    maxBodyBytes = defaultBodyLimits.maxBodyBytes,
    maxEventBytes = defaultBodyLimits.maxEventBytes,
    ...local
  } = rest;
  const times = { requestTimeoutMs, silenceMs, taskTimeoutMs, maxSilenceMs };
  for (const [name, value] of Object.entries(times)) checkOption(`remoteAgent: ${name}`, value, milliseconds(1));
  const limits = { maxBodyBytes, maxEventBytes };
  for (const [name, value] of Object.entries(limits)) checkOption(`remoteAgent: ${name}`, value, wholeNumber(1));
  checkOption('remoteAgent: onInDoubt', onInDoubt, oneOf('fail', 'retry'));
  const address = addressOf(url);
  return {
    url: address,
    headers: headersOf(auth),
    origins: new Set([address.origin, ...checkedOrigins(origins)]),
    verifyCard: verifyCard && cardCheck(verifyCard),
    transports: checkedTransports(transports),
    ...times,
    onInDoubt,
    limits,
    local,
  };
}

function addressOf(url: unknown): URL {
  const parsed = parsedUrl(url);
  if (!parsed || !/^https?:$/.test(parsed.protocol)) {
    throw invalidConfig('remoteAgent: url must be an http(s) address', "write url: 'https://agent.example'");
  }
  if (parsed.username || parsed.password) {
    throw invalidConfig('remoteAgent: url must not contain a user or password', 'give them as auth');
  }
  return parsed;
}

function parsedUrl(url: unknown): URL | undefined {
  return typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined;
}

function headersOf(auth: RemoteAuth | undefined): RemoteHeaders {
  if (auth === undefined) return () => ({});
  if (typeof auth === 'function') return auth;
  if (typeof auth === 'object' && auth !== null) {
    if ('bearer' in auth && typeof auth.bearer === 'string' && auth.bearer !== '') {
      const headers = { authorization: `Bearer ${auth.bearer}` };
      return () => headers;
    }
    if ('headers' in auth && typeof auth.headers === 'object' && auth.headers !== null) {
      const headers = { ...auth.headers };
      return () => headers;
    }
  }
  throw invalidConfig(
    'remoteAgent: auth is none of the forms',
    'write { bearer }, { headers } or a function that gives headers',
  );
}

function checkedOrigins(origins: unknown): readonly string[] {
  if (!Array.isArray(origins)) throw invalidConfig('remoteAgent: origins must be an array', "write ['https://…']");
  return origins.map((origin: unknown) => {
    const parsed = parsedUrl(origin);
    if (parsed && parsed.origin === origin) return parsed.origin;
    throw invalidConfig(
      `remoteAgent: ${shownValue(origin)} is no origin`,
      "write it as 'https://host' or 'https://host:port'",
    );
  });
}

function checkedTransports(transports: unknown): readonly string[] {
  if (Array.isArray(transports) && transports.every((each) => knownTransports.includes(each))) return transports;
  throw invalidConfig(
    'remoteAgent: transports must be an array of known ones',
    `they are ${knownTransports.join(', ')}`,
  );
}
