import {
  AgentLoopError,
  type AgentLoopErrorOptions,
  type ErrorCode,
  systemClock,
  withoutForms,
} from '../../core/contracts/index.ts';
import { retryableCodes } from '../http-status.ts';
import { jsonIn } from '../json-object.ts';
import { type Failure, readFailure } from '../read-failure.ts';

export { isJsonObject, type JsonObject, jsonIn } from '../json-object.ts';

/** What an error may say of the server it comes from. Holds the secrets in a closure, so that no error can show them. */
export interface ModelServer {
  /** Origin and path of the base address, or whatever else names the server. */
  readonly address: string;
  readonly model: string;
  /** What to do about a failure, where that differs from what holds for any server of the OpenAI wire. */
  readonly cures: Cures;
  /** The server's own words, fit to be shown: without secrets, on one line, shortened, in quotes. */
  quote(text: string): string;
  /** `text` without secrets. */
  redact(text: string): string;
}

export type Cures = Readonly<Partial<Record<ErrorCode, string>>>;

interface ModelServerOptions {
  readonly address: string;
  readonly model: string;
  readonly cures?: Cures;
  /** The key and the values of headers. */
  readonly secrets: readonly string[];
}

/** Shorter ones are no secrets, and hiding them would garble every text. */
const shortestSecret = 4;
const longestQuote = 300;
/** What is searched for secrets before it is shortened. */
const longestRead = 16_384;

export function modelServer({ address, model, cures = {}, secrets }: ModelServerOptions): ModelServer {
  const hidden = spellingsOf(secrets);
  // A proxy may quote the key of the vendor upstream, which nobody here knows.
  const redact = (text: string): string =>
    withoutForms(hidden.reduce((shown, secret) => shown.replaceAll(secret, '[redacted]'), text));
  return {
    address,
    model,
    cures,
    redact,
    quote(text) {
      const line = redact(text.slice(0, longestRead)).replace(/\s+/g, ' ').trim();
      return `"${line.length > longestQuote ? `${line.slice(0, longestQuote)}…` : line}"`;
    },
  };
}

/** Each secret as it is, in JSON and in an address; the words of `Bearer …` also alone. Longest first. */
function spellingsOf(secrets: readonly string[]): readonly string[] {
  const spellings = secrets
    .flatMap((secret) => [secret, ...secret.split(/\s+/)])
    .filter((secret) => secret.length >= shortestSecret && secret !== 'Bearer' && secret !== 'Basic')
    .flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)]);
  return [...new Set(spellings)].sort((a, b) => b.length - a.length);
}

/** How every message names the server. */
function nameOfServer({ address, model }: ModelServer): string {
  return /^https?:/.test(address) ? `The model server at ${address} (model ${model})` : `Model ${model} of ${address}`;
}

const cures: Partial<Record<ErrorCode, string>> = {
  PROVIDER_AUTH: 'set apiKey to a key that it accepts for this model',
  PROVIDER_NOT_FOUND: 'check baseUrl, which usually ends in /v1, and model',
  PROVIDER_BAD_REQUEST: "check the request against the model's limits and what it supports",
  CONTEXT_OVERFLOW: 'shorten the history, or use a model with a larger context window',
  PROVIDER_RATE_LIMIT: 'try again later, or call it less often',
  PROVIDER_SERVER: 'try again later, or use another model',
  PROVIDER_TIMEOUT: 'try again later, or use another model',
};

const topUp = 'the account has no credit or quota left: top it up, or use another key or model';

export function wireError(
  server: ModelServer,
  code: ErrorCode,
  what: string,
  options?: AgentLoopErrorOptions,
): AgentLoopError {
  return new AgentLoopError(code, `${nameOfServer(server)} ${what}.`, {
    retryable: retryableCodes.has(code),
    ...options,
  });
}

/** What came is not this wire, or not whole. */
export function protocolError(server: ModelServer, what: string): AgentLoopError {
  return wireError(
    server,
    'PROVIDER_PROTOCOL',
    `${what}: ${server.cures.PROVIDER_PROTOCOL ?? 'check that baseUrl leads to an OpenAI-compatible API, usually ending in /v1'}`,
  );
}

interface HttpFailure {
  readonly status: number;
  readonly headers: Headers;
  /** The whole body. */
  readonly text: string;
  /** Milliseconds since 1970, to read a `Retry-After` that is a date. */
  readonly now: number;
}

/** An answer whose HTTP status is not one of success. */
export function httpError(server: ModelServer, { status, headers, text, now }: HttpFailure): AgentLoopError {
  const location = headers.get('location');
  if (status < 400) {
    const where = location === null ? '' : ` to ${server.quote(location)}`;
    return wireError(server, 'PROVIDER_PROTOCOL', `redirects${where}: set baseUrl to where it really is`, { status });
  }
  const failure = readFailure({ body: jsonIn(text) ?? text, status, headers, now });
  return errorOf(server, `answered HTTP ${status}`, failure);
}

interface VendorFailure {
  readonly headers?: Headers | undefined;
  /** Milliseconds since 1970, for a pause that ends at a date. */
  readonly now?: number;
}

/** An error object or string in an answer that started well. */
export function vendorError(
  server: ModelServer,
  error: unknown,
  { headers, now = systemClock.now() }: VendorFailure = {},
): AgentLoopError {
  return errorOf(server, 'broke off with an error', readFailure({ body: error, headers, now }));
}

function errorOf(server: ModelServer, what: string, failure: Failure): AgentLoopError {
  const { retryable, reason, status, retryAfterMs, details } = failure;
  const options = { retryable, reason, status, retryAfterMs, details };
  return wireError(server, failure.code, sentence(server, failure, what), options);
}

function sentence(server: ModelServer, { code, words, kind }: Failure, what: string): string {
  const cure = (kind === 'exhausted' ? topUp : undefined) ?? server.cures[code] ?? cures[code];
  return `${what}${words === '' ? '' : ` ${server.quote(words)}`}${cure === undefined ? '' : `: ${cure}`}`;
}

interface NetworkFailure {
  readonly code: ErrorCode;
  readonly what: string;
  readonly retryable?: boolean;
}

const unreachable = (what: string): NetworkFailure => ({ code: 'PROVIDER_UNREACHABLE', what });
const closedConnection: NetworkFailure = {
  code: 'PROVIDER_STREAM_CLOSED',
  what: 'closed the connection before its answer was complete: try again',
};
const garbled: NetworkFailure = {
  code: 'PROVIDER_PROTOCOL',
  what: 'sends what cannot be decoded: check that baseUrl leads to an HTTP API',
};

/** By the `code` of Node's and undici's errors. */
const networkFailures: Readonly<Record<string, NetworkFailure>> = {
  ECONNREFUSED: unreachable('refuses the connection: start it, or set baseUrl to where it listens'),
  ENOTFOUND: unreachable('has a host name that is not known: check baseUrl and the name service'),
  EAI_AGAIN: unreachable(
    'has a host name that the name service cannot look up now: check baseUrl and the name service',
  ),
  EHOSTUNREACH: unreachable('cannot be reached from here: check the network and baseUrl'),
  ENETUNREACH: unreachable('cannot be reached from here: check the network and baseUrl'),
  ETIMEDOUT: unreachable('does not answer the attempt to connect: check the network and baseUrl'),
  UND_ERR_CONNECT_TIMEOUT: unreachable('does not answer the attempt to connect: check the network and baseUrl'),
  ECONNRESET: closedConnection,
  EPIPE: closedConnection,
  UND_ERR_SOCKET: closedConnection,
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: closedConnection,
  Z_BUF_ERROR: closedConnection,
  Z_DATA_ERROR: garbled,
  UND_ERR_HEADERS_TIMEOUT: {
    code: 'PROVIDER_TIMEOUT',
    what: "sent nothing within the limit of Node's own fetch: pass a fetch with a longer limit, or use streaming",
  },
  UND_ERR_BODY_TIMEOUT: {
    code: 'PROVIDER_TIMEOUT',
    what: "fell silent for longer than Node's own fetch allows: pass a fetch with a longer limit",
  },
};

/** What `fetch` or the reading of a body threw, as a coded error. One that is coded already stays as it is. */
export function networkError(server: ModelServer, thrown: unknown): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  const root = rootOf(thrown);
  const cause = causeOf(server, root);
  const kind = kindOf(root.code);
  if (kind !== undefined) {
    const { code, what, ...retrying } = kind;
    return wireError(server, code, what, { cause, ...retrying });
  }
  const said = server.quote(root.message);
  return wireError(server, 'PROVIDER_FAILED', `cannot be asked, the request failed with ${said}: check baseUrl`, {
    cause,
  });
}

function kindOf(code: string): NetworkFailure | undefined {
  if (code.startsWith('HPE_')) return garbled;
  if (/CERT|_SSL_|_TLS_|SIGNED/.test(code)) {
    return {
      code: 'PROVIDER_UNREACHABLE',
      what: `fails the TLS check (${code}): check its certificate`,
      retryable: false,
    };
  }
  return networkFailures[code];
}

interface Root {
  readonly message: string;
  /** '' where there is none. */
  readonly code: string;
}

/** The outermost error with a `code` in the chain of causes, else the innermost one. By shape: errors of Node may be of another realm. */
function rootOf(thrown: unknown): Root {
  let root: Root = { message: String(thrown), code: '' };
  let error = thrown;
  for (let depth = 0; depth < 8 && isErrorLike(error) && root.code === ''; depth++) {
    root = { message: error.message, code: typeof error.code === 'string' ? error.code : '' };
    error = error.cause;
  }
  return root;
}

interface ErrorLike {
  readonly message: string;
  readonly code?: unknown;
  readonly cause?: unknown;
}

function isErrorLike(value: unknown): value is ErrorLike {
  return typeof value === 'object' && value !== null && 'message' in value && typeof value.message === 'string';
}

/** Only the message and code: the errors of an HTTP client can carry the request's headers and pieces of the answer. */
function causeOf(server: ModelServer, { message, code }: Root): Error {
  const cause = new Error(server.redact(message));
  return code === '' ? cause : Object.assign(cause, { code });
}
