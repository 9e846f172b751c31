import { nestedTooDeep } from '../body-limits.ts';
import { AgentLoopError, type ErrorCode } from '../core/contracts/index.ts';
import type { ClientSdk } from './load-sdk.ts';
import { isHttp, type McpHeaders, type McpServerOptions } from './mcp-options.ts';
import { SignInNeeded } from './sign-in/stored-sign-in.ts';

/** What went wrong between this process and a server. */
type FailureKind =
  /** The server answered, with an error. */
  | 'refused'
  /** It does not know the session any more; nothing was done. */
  | 'session-lost'
  /** The way to it is gone. */
  | 'lost'
  /** The request did not reach what it is for; nothing was done. */
  | 'unsent'
  /** It did not answer in time. */
  | 'silent'
  /** It sent more than it may. */
  | 'too-large'
  /** It sent JSON that nests too deep. */
  | 'unreadable'
  /** The user has to sign in; nothing was done. */
  | 'sign-in'
  /** It does not accept the state that it gave before, any more. */
  | 'stale-state'
  /** We left. */
  | 'canceled';

export interface Failure {
  readonly kind: FailureKind;
  /** What the server did, as the rest of a sentence that begins with it. No credentials, and nothing of what a stranger's proxy says. */
  readonly what: string;
}

interface FailureContext {
  readonly sdk: ClientSdk;
  readonly secrets: SecretWords;
}

const maxLength = 2_000;

/** Tells failures of requests apart. */
export function failureOf(thrown: unknown, { sdk, secrets }: FailureContext): Failure {
  const error = reasonOfConnect(thrown, sdk);
  if (AgentLoopError.isInstance(error)) return ownFailure(error);
  if (error instanceof sdk.ProtocolError) {
    // The server no longer speaks the revision that it spoke before.
    if (error.code === unsupportedRevision)
      return { kind: 'session-lost', what: 'does not speak our protocol revision' };
    const isStale = error.code === invalidParams && reasonIn(error.data) === 'invalid_request_state';
    const kind = isStale ? 'stale-state' : 'refused';
    return { kind, what: `answered with an error: ${secrets.redact(error.message).slice(0, maxLength)}` };
  }
  if (error instanceof SignInNeeded) return needsSignIn;
  if (error instanceof sdk.InsufficientScopeError) return httpFailure(403);
  if (error instanceof sdk.UnauthorizedError) return httpFailure(401);
  if (error instanceof sdk.SdkHttpError) return httpFailure(error.status);
  if (error instanceof sdk.SdkError) {
    const known = sdkFailures[error.code];
    if (known) return known;
  }
  // A process that ended before it read what was written to it.
  if (isErrorLike(error) && Reflect.get(error, 'code') === 'EPIPE') return wentAway;
  if (isErrorLike(error) && error.name === 'SyntaxError') return notMcp;
  if (isFlaw(error)) return notAllowed;
  return { kind: 'lost', what: `cannot be reached (${secrets.redact(reasonOf(error)).slice(0, maxLength)})` };
}

const unsupportedRevision = -32_022;
const invalidParams = -32_602;

function reasonIn(data: unknown): unknown {
  return typeof data === 'object' && data !== null ? Reflect.get(data, 'reason') : undefined;
}

const needsSignIn: Failure = { kind: 'sign-in', what: 'needs the user to sign in' };
const notMcp: Failure = { kind: 'refused', what: 'answers with what is not MCP' };
const notAllowed: Failure = { kind: 'refused', what: 'answered with what the protocol does not allow' };
const wentAway: Failure = { kind: 'lost', what: 'went away before it answered' };
const sdkFailures: Readonly<Record<string, Failure>> = {
  CONNECTION_CLOSED: wentAway,
  REQUEST_TIMEOUT: { kind: 'silent', what: 'did not answer in time' },
  INVALID_RESULT: notAllowed,
  UNSUPPORTED_RESULT_TYPE: notAllowed,
  ERA_NEGOTIATION_FAILED: { kind: 'refused', what: 'does not speak the protocol revision that is asked for' },
  CLIENT_HTTP_UNEXPECTED_CONTENT: notMcp,
};

/** What kept a connection from being made, which the SDK wraps where it happens before the revision is known. */
function reasonOfConnect(thrown: unknown, { SdkError, SdkHttpError }: ClientSdk): unknown {
  if (!(thrown instanceof SdkError) || thrown instanceof SdkHttpError || thrown.code !== 'ERA_NEGOTIATION_FAILED')
    return thrown;
  return thrown.cause ?? thrown;
}

const codes: Partial<Record<FailureKind, ErrorCode>> = { silent: 'TOOL_TIMEOUT', 'too-large': 'TOOL_TOO_LARGE' };

/** As a tool error. `began`: whether the server may have begun what it was asked for. */
export function toolError(server: string, { kind, what }: Failure, began: boolean): AgentLoopError {
  if (kind === 'canceled')
    return new AgentLoopError('CANCELED', `The call of the MCP server "${server}" was cancelled.`);
  const doubtful = began && (kind === 'silent' || kind === 'lost' || kind === 'too-large' || kind === 'unreadable');
  const message = `the MCP server "${server}" ${what}${doubtful ? '; the call may or may not have taken effect' : ''}`;
  const isFinal = kind === 'refused' || kind === 'too-large' || kind === 'unreadable' || kind === 'stale-state';
  return new AgentLoopError(codes[kind] ?? 'TOOL_FAILED', message, { retryable: !isFinal });
}

/** What an `OpenCall` was cancelled with, and what the way to the server has failed with. */
function ownFailure({ code, message, reason }: AgentLoopError): Failure {
  if (reason === nestedTooDeep) return { kind: 'unreadable', what: message };
  if (code === 'TOOL_TOO_LARGE') return { kind: 'too-large', what: message };
  if (code === 'CANCELED') return { kind: 'canceled', what: message };
  if (code === 'UNAVAILABLE') return { kind: 'unsent', what: message };
  return { kind: code === 'TOOL_TIMEOUT' ? 'silent' : 'lost', what: message };
}

function httpFailure(status: number): Failure {
  if (status === 404 || status === 400) return { kind: 'session-lost', what: `refused the request (HTTP ${status})` };
  if (status === 401 || status === 403)
    return { kind: 'refused', what: `does not accept our credentials (HTTP ${status})` };
  return { kind: 'refused', what: `refused the request (HTTP ${status})` };
}

/** What Zod throws. */
function isFlaw(thrown: unknown): boolean {
  return isErrorLike(thrown) && (thrown.name === 'ZodError' || thrown.name === '$ZodError');
}

/** What the system said, which fetch hides in causes. */
function reasonOf(thrown: unknown): string {
  let reason = thrown;
  while (isErrorLike(reason) && isErrorLike(reason.cause)) reason = reason.cause;
  if (!isErrorLike(reason)) return String(reason);
  return reason.message.split('\n', 1)[0] || String(reason.code ?? reason.name);
}

interface ErrorLike {
  readonly name: string;
  readonly message: string;
  readonly cause?: unknown;
  readonly code?: unknown;
}

function isErrorLike(value: unknown): value is ErrorLike {
  return typeof value === 'object' && value !== null && 'message' in value && typeof value.message === 'string';
}

/** Shorter ones are words that stand in any text. */
const minLength = 8;
/** Credentials that change are asked for anew with each request. */
const maxWords = 200;

/** The credentials of one server, so that no text that comes back from it carries them on. */
export class SecretWords {
  readonly #words = new Set<string>();

  constructor(options: McpServerOptions) {
    if (!isHttp(options)) {
      for (const value of Object.values(options.env ?? {})) this.#add(value);
      return;
    }
    for (const value of new URL(options.url).searchParams.values()) this.#add(value);
    if (typeof options.headers === 'object') this.addHeaders(options.headers);
  }

  /** A header's value, and what stands behind its scheme. */
  addHeaders(headers: McpHeaders): void {
    for (const value of Object.values(headers)) {
      this.#add(value);
      this.#add(value.slice(value.indexOf(' ') + 1));
    }
  }

  /** A token, or what it is got with. */
  addToken(token: string): void {
    this.#add(token);
  }

  redact(text: string): string {
    let shown = text;
    for (const word of this.#words) shown = shown.replaceAll(word, '[redacted]');
    return shown;
  }

  #add(word: string): void {
    if (word.length < minLength || this.#words.has(word)) return;
    const [oldest] = this.#words;
    if (this.#words.size >= maxWords && oldest !== undefined) this.#words.delete(oldest);
    this.#words.add(word);
  }
}
