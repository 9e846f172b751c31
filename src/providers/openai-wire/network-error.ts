import { AgentLoopError, type ErrorCode } from '../../core/contracts/index.ts';
import type { ModelServer } from './model-server.ts';
import { wireError } from './wire-errors.ts';

interface Kind {
  readonly code: ErrorCode;
  readonly what: string;
  readonly retryable?: boolean;
}

const unreachable = (what: string): Kind => ({ code: 'PROVIDER_UNREACHABLE', what });
const closed: Kind = {
  code: 'PROVIDER_STREAM_CLOSED',
  what: 'closed the connection before its answer was complete: try again',
};
const garbled: Kind = {
  code: 'PROVIDER_PROTOCOL',
  what: 'sends what cannot be decoded: check that baseUrl leads to an HTTP API',
};

/** By the `code` of Node's and undici's errors. */
const kinds: Readonly<Record<string, Kind>> = {
  ECONNREFUSED: unreachable('refuses the connection: start it, or set baseUrl to where it listens'),
  ENOTFOUND: unreachable('has a host name that is not known: check baseUrl and the name service'),
  EAI_AGAIN: unreachable(
    'has a host name that the name service cannot look up now: check baseUrl and the name service',
  ),
  EHOSTUNREACH: unreachable('cannot be reached from here: check the network and baseUrl'),
  ENETUNREACH: unreachable('cannot be reached from here: check the network and baseUrl'),
  ETIMEDOUT: unreachable('does not answer the attempt to connect: check the network and baseUrl'),
  UND_ERR_CONNECT_TIMEOUT: unreachable('does not answer the attempt to connect: check the network and baseUrl'),
  ECONNRESET: closed,
  EPIPE: closed,
  UND_ERR_SOCKET: closed,
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: closed,
  Z_BUF_ERROR: closed,
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

function kindOf(code: string): Kind | undefined {
  if (code.startsWith('HPE_')) return garbled;
  if (/CERT|_SSL_|_TLS_|SIGNED/.test(code)) {
    return {
      code: 'PROVIDER_UNREACHABLE',
      what: `fails the TLS check (${code}): check its certificate`,
      retryable: false,
    };
  }
  return kinds[code];
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
